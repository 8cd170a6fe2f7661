/* fuzz_publication.c: checks that each accepted HTTP publish request becomes a valid frame. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "strict_json.h"
#include "tests/fuzz/fuzz.h"
#include "wire/frame.h"
#include "wire/publication.h"

static void
check(const struct publication *publication)
{
    struct frame frame;
    struct bytes targets, target;
    size_t count = 0, at = 0;

    if (frame_parse_header(
            (struct bytes){(const unsigned char *)publication->head.bytes, publication->head.len},
            &frame) != RC_OK)
        __builtin_trap();
    targets = frame.as.notification.targets;
    while (frame_next_target(&targets, &target) == RC_OK)
        count++;
    if (count != publication->target_count || frame.as.notification.target_count != count)
        __builtin_trap();
    if (strict_json_check(publication->data.bytes, publication->data.len, 0, &at) != NULL ||
        ((frame.flags & FRAME_ACK_REQUIRED) != 0) != publication->needs_ack)
        __builtin_trap();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct publication_origin origin = {
        .emitter = "app", .topic_prefix = "p", .now_us = INT64_C(1741178096123456)};
    char error[WIRE_ERROR_MAX] = "";
    struct publication publication = {0};

    if (publication_parse((const char *)data, size, &origin, &publication, error) == RC_OK)
        check(&publication);
    else if (error[0] == '\0' || publication.targets != NULL)
        __builtin_trap();
    publication_free(&publication);
    return 0;
}
