/* forget.c: ends the sessions of a user whom `clairon forget` removes. */
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "hub/hub_private.h"
#include "hub/session_private.h"
#include "store/audit.h"
#include "wire/codes.h"

#define CLOCK_SKEW_US 5000000 /* of store and relay */

/* Nobody is banned: a later session of the user does not end. */
void
hub_end_forgotten(void *ctx, struct bytes hash, int64_t added_us)
{
    const int64_t since_us = added_us > 0 ? clock_wall_us() - added_us - CLOCK_SKEW_US : 0;
    const int64_t now_us = clock_monotonic_us();
    struct hub *hub = ctx;
    struct session *session, *next;
    char own[AUDIT_HASH_TEXT + 1];

    hub_fan_out(hub);
    DL_FOREACH_SAFE (hub->sessions, session, next) {
        audit_hash(session->client.user, own);
        if (bytes_equal_text(hash, own) && now_us - session->client.attached_us >= since_us)
            session->socket.transport->close(session->socket.handle, GATE_CLOSE_BANNED,
                                             "user removed", -1);
    }
}
