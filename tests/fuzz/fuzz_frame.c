/* fuzz_frame.c: checks that no input breaks the parsers of frames and of replication messages. */
#include <stddef.h>
#include <stdint.h>

#include "tests/fuzz/fuzz.h"
#include "wire/frame.h"

static void
walk_targets(struct bytes targets)
{
    struct bytes target;
    uint8_t sum = 0;

    while (frame_next_target(&targets, &target) == RC_OK) {
        for (size_t i = 0; i < target.len; i++)
            sum ^= target.at[i];
    }
    if (sum == 0xff && targets.len != 0)
        __builtin_trap(); /* the parser accepted targets whose lengths do not add up */
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes packet = {data, size};
    struct walmsg message;
    struct frame frame;
    size_t len;

    if (walmsg_parse(packet, &message) == RC_OK && message.kind == WALMSG_DATA)
        packet = message.data;
    while (packet.len > 0 && frame_parse(packet, &frame, &len) == RC_OK) {
        if (len == 0 || len > packet.len)
            __builtin_trap();
        if (frame.kind == FRAME_KIND_NOTIFICATION) {
            struct frame head;

            walk_targets(frame.as.notification.targets);
            if (frame_parse_header(frame.as.notification.head, &head) != RC_OK)
                __builtin_trap();
        }
        packet = (struct bytes){packet.at + len, packet.len - len};
    }
    return 0;
}
