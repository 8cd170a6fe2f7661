/* presence.c: reports the connected users to the store: only they receive retries. */
#include "hub/presence.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/memory.h"
#include "hub/offer.h"
#include "hub/hub_state.h"

#define PRESENCE_PER_CALL 1000
#define USER_KIND "USER:"

static void
on_presence_stored(void *ctx, enum rc rc, bool was_registered)
{
    struct hub *hub = ctx;
    struct session *session, *next;

    if (hub->closing)
        return;
    if (rc != RC_OK)
        hub->presence_is_stale =
            /* for example, the store is full: the change is sent again after the next heartbeat */
            true;
    else if (!was_registered || hub->presence_is_stale)
        presence_announce(hub);
    if (rc != RC_OK || was_registered)
        return;
    DL_FOREACH_SAFE (hub->sessions, session, next)
        /* after its expiration, a relay misses the acks that other relays store */
        session_reconcile(session);
}

/* While the store is down nothing is sent: all users are reported when it is up again. */
static void
send_change(struct hub *hub, enum store_presence_change what, const char *const *users,
            size_t count, store_presence_stored *done)
{
    if (store_presence(hub->store, what, users, count, done, hub) != RC_OK)
        return;
}

static void
on_announced(void *ctx, enum rc rc, bool was_registered)
{
    struct hub *hub = ctx;

    (void)was_registered;
    hub->presence_is_stale = hub->presence_is_stale || rc != RC_OK;
}

void
presence_arrived(struct hub *hub, const char *user)
{
    send_change(hub, STORE_PRESENCE_JOINED, &user, 1, on_presence_stored);
}

void
presence_left(struct hub *hub, const char *user)
{
    send_change(hub, STORE_PRESENCE_LEFT, &user, 1, on_presence_stored);
}

void
presence_heartbeat(struct hub *hub)
{
    send_change(hub, STORE_PRESENCE_HEARTBEAT, NULL, 0, on_presence_stored);
}

void
presence_announce(struct hub *hub)
{
    const char **users = memory_new(PRESENCE_PER_CALL * sizeof(*users));
    enum store_presence_change what = STORE_PRESENCE_ALL;
    struct audience *audience, *next;
    size_t count = 0;

    hub->presence_is_stale = false;
    HASH_ITER (hh, hub->audiences, audience, next) {
        if (audience->key_len < sizeof(USER_KIND) ||
            memcmp(audience->key, USER_KIND, sizeof(USER_KIND) - 1) != 0)
            continue;
        users[count++] = audience->members->session->client.user;
        if (count < PRESENCE_PER_CALL)
            continue;
        send_change(hub, what, users, count, on_announced);
        what = STORE_PRESENCE_JOINED;
        count = 0;
    }
    send_change(hub, what, users, count, on_announced);
    free(users);
}
