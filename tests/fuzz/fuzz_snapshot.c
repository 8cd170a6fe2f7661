/* fuzz_snapshot.c: checks that a snapshot contains exactly the ids in its string. */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "tests/fuzz/fuzz.h"
#include "wire/snapshot.h"

/*
 * The string is canonical, except for repeated ids: formatting the numbers returns the same string.
 */
static void
compare_texts(const struct snapshot *snapshot, const char *text, size_t len)
{
    struct buffer written;

    buffer_init(&written, SNAPSHOT_TEXT_MAX + 1);
    expect(buffer_addf(&written, "%" PRIu64 ":%" PRIu64 ":", snapshot->xmin, snapshot->xmax) ==
           RC_OK);
    for (size_t i = 0; i < snapshot->running_count; i++)
        expect(buffer_addf(&written, "%s%" PRIu64, i > 0 ? "," : "", snapshot->running[i]) ==
               RC_OK);
    expect(written.len == len && memcmp(written.bytes, text, len) == 0);
    buffer_free(&written);
}

static bool
is_running(const struct snapshot *snapshot, uint64_t xid)
{
    for (size_t i = 0; i < snapshot->running_count; i++)
        if (snapshot->running[i] == xid)
            return true;
    return false;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct snapshot snapshot = {0};

    if (snapshot_parse((const char *)data, size, &snapshot) != RC_OK)
        return 0;
    compare_texts(&snapshot, (const char *)data, size);
    expect(snapshot_contains(&snapshot, snapshot.xmin - 1));
    expect(!snapshot_contains(&snapshot, snapshot.xmax));
    for (size_t i = 0; i < snapshot.running_count; i++) {
        uint64_t xid = snapshot.running[i];

        expect(!snapshot_contains(&snapshot, xid));
        expect(snapshot_contains(&snapshot, xid + 1) ==
               (xid + 1 < snapshot.xmax && !is_running(&snapshot, xid + 1)));
    }
    snapshot_free(&snapshot);
    return 0;
}
