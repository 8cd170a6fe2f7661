/* forget.c: ends the sessions of a user whom `clairon forget` removes. */
#include <string.h>
#include <utlist.h>

#include "hub/hub_private.h"
#include "hub/session_private.h"
#include "store/audit.h"
#include "wire/codes.h"

/* Nobody is banned: the user may connect again. */
void
hub_end_forgotten(void *ctx, struct bytes hash)
{
    struct hub *hub = ctx;
    struct session *session, *next;
    char own[AUDIT_HASH_TEXT + 1];

    hub_fan_out(hub);
    DL_FOREACH_SAFE (hub->sessions, session, next) {
        audit_hash(session->client.user, own);
        if (bytes_equal_text(hash, own))
            session->socket.transport->close(session->socket.handle, GATE_CLOSE_BANNED,
                                             "user removed", -1);
    }
}
