/* process.h: callbacks from the routes into the process: readiness, push switch, rules. */
#ifndef CLAIRON_GATE_API_PROCESS_H
#define CLAIRON_GATE_API_PROCESS_H

#include <stdbool.h>

#include "base/rc.h"

struct buffer;

struct gate_process {
    /*
     * Returns whether the relay can serve its clients; needs_feed: and its feed is streaming or
     * in standby. Appends the members of a JSON object, such as "feed":"streaming","store":"up".
     */
    bool (*ready)(void *ctx, bool needs_feed, struct buffer *detail);
    /* Switches push on or off in all processes that serve this port. */
    void (*switch_push)(void *ctx, bool on);
    /* Appends the rules as JSON (feed.h). RC_AGAIN: another process reads the slot. */
    enum rc (*rules)(void *ctx, struct buffer *out);
    void *ctx;
};

#endif
