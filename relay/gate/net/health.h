/* health.h: what main knows of the process, and does for the gate. */
#ifndef CLAIRON_GATE_NET_HEALTH_H
#define CLAIRON_GATE_NET_HEALTH_H

#include <stdbool.h>

#include "base/rc.h"

struct buffer;

struct gate_health {
    /* Fills `detail` with the members of a JSON object, as "feed":"streaming","store":"up". */
    bool (*ready)(void *ctx, struct buffer *detail);
    /* Turns push off or on, for all processes that serve this port. */
    void (*switch_push)(void *ctx, bool on);
    /* Appends a JSON object with the rules (feed.h); RC_AGAIN: another process reads the slot. */
    enum rc (*rules)(void *ctx, struct buffer *out);
    void *ctx;
};

#endif
