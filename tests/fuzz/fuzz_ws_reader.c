/* fuzz_ws_reader.c: checks that no input breaks the WebSocket parser, however it is split. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tests/fuzz/fuzz.h"
#include "wire/ws_frame.h"

/* Returns a digest of the parsed frames, with the input split into chunks of `step` bytes. */
static uint64_t
read_in_steps(const uint8_t *data, size_t size, size_t step)
{
    struct ws_reader reader = {0};
    unsigned char *copy = malloc(size + 1);
    uint64_t digest = HASH_START;
    size_t at = 0;

    memcpy(copy, data, size);
    while (at < size) {
        size_t chunk_len = size - at < step ? size - at : step;
        size_t used = 0;
        struct ws_event event = ws_reader_next(&reader, copy + at, chunk_len, &used);

        if (used > chunk_len || used == 0 || (event.len > 0 && event.at == NULL) ||
            (event.kind > WS_DATA && event.kind < WS_BROKEN && event.len > WS_CONTROL_MAX))
            __builtin_trap();
        digest = hash_bytes(digest, event.at, event.len);
        if (event.kind != WS_NOTHING && (event.kind != WS_DATA || event.is_last))
            digest = hash_bytes(digest, &event.kind, sizeof(event.kind));
        if (event.kind == WS_BROKEN)
            break;
        at += used;
    }
    ws_reader_free(&reader);
    free(copy);
    return digest;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t whole = read_in_steps(data, size, size);

    if (read_in_steps(data, size, 1) != whole || read_in_steps(data, size, 7) != whole)
        __builtin_trap();
    return 0;
}
