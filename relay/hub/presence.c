/*
 * presence.c: reports to the store which users are connected to this relay: when they arrive and
 * leave, with each heartbeat, and all of them when the store may have lost them.
 */
#include "hub/hub_private.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/memory.h"

#define PRESENCE_PER_CALL 1000
#define USER_KIND "USER:"

/* While the store is down nothing is sent: all users are reported when it is up again. */
static void
send_presence(struct hub *hub, enum store_presence_change what, const char *const *users,
              size_t count, store_presence_stored *done)
{
    (void)!store_presence(hub->store, what, users, count, done, hub);
}

static void
on_announced(void *ctx, enum rc rc, bool was_registered)
{
    struct hub *hub = ctx;

    (void)was_registered;
    hub->presence_is_stale = hub->presence_is_stale || rc != RC_OK;
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
        if (audience->hh.keylen < sizeof(USER_KIND) ||
            memcmp(audience->key, USER_KIND, sizeof(USER_KIND) - 1) != 0)
            continue;
        users[count++] = audience->members->session->client.user;
        if (count < PRESENCE_PER_CALL)
            continue;
        send_presence(hub, what, users, count, on_announced);
        what = STORE_PRESENCE_JOINED;
        count = 0;
    }
    send_presence(hub, what, users, count, on_announced);
    free(users);
}

static void
on_presence_stored(void *ctx, enum rc rc, bool was_registered)
{
    struct hub *hub = ctx;
    struct session *session, *next;

    if (hub->closing)
        return;
    /* For example, the store is full: the change is sent again after the next heartbeat. */
    if (rc != RC_OK)
        hub->presence_is_stale = true;
    else if (!was_registered || hub->presence_is_stale)
        presence_announce(hub);
    if (rc != RC_OK || was_registered)
        return;
    /* After its expiration, a relay misses the acks that other relays store. */
    DL_FOREACH_SAFE (hub->sessions, session, next)
        session_reconcile(session);
}

void
presence_report_arrivals(struct hub *hub)
{
    struct hub_arrivals *arrivals = &hub->arrivals;

    if (arrivals->count == 0)
        return;
    send_presence(hub, STORE_PRESENCE_JOINED, arrivals->users, arrivals->count, on_presence_stored);
    arrivals->count = 0;
}

static void
on_report(struct ev_loop *loop, ev_prepare *prepare, int events)
{
    (void)loop;
    (void)events;
    presence_report_arrivals(prepare->data);
}

void
presence_arrive(struct hub *hub, const char *user)
{
    struct hub_arrivals *arrivals = &hub->arrivals;

    arrivals->users[arrivals->count++] = user;
    if (arrivals->count == HUB_ARRIVALS_MAX)
        presence_report_arrivals(hub);
}

void
presence_leave(struct hub *hub, const char *user)
{
    send_presence(hub, STORE_PRESENCE_LEFT, &user, 1, on_presence_stored);
}

void
presence_heartbeat(struct hub *hub)
{
    send_presence(hub, STORE_PRESENCE_HEARTBEAT, NULL, 0, on_presence_stored);
}

void
presence_open(struct hub *hub)
{
    ev_prepare_init(&hub->arrivals.report, on_report);
    hub->arrivals.report.data = hub;
    ev_prepare_start(hub->loop, &hub->arrivals.report);
}

void
presence_stop(struct hub *hub)
{
    ev_prepare_stop(hub->loop, &hub->arrivals.report);
}
