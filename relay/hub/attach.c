/*
 * attach.c: sessions start and end: the shards that are followed for them, and the presence of
 * their users in the store.
 */
#include "hub/hub_private.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "hub/resume.h"

/* ---- followed shards */

/* Longer than a client needs to reconnect or to poll again. */
#define UNFOLLOW_AFTER_US (30 * INT64_C(1000000))

void
followed_sweep(struct hub *hub)
{
    const int64_t now_us = clock_monotonic_us();

    for (unsigned shard = 1; shard < hub->shards; shard++) {
        const struct followed *followed = &hub->followed[shard];

        if (followed->sessions == 0 && followed->left_us != 0 &&
            now_us - followed->left_us >= UNFOLLOW_AFTER_US) {
            hub->followed[shard].left_us = 0;
            reader_unfollow(hub->reader, shard);
        }
    }
}

/* ---- presence */

#define PRESENCE_PER_CALL 1000
#define USER_KIND "USER:"

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
presence_heartbeat(struct hub *hub)
{
    send_presence(hub, STORE_PRESENCE_HEARTBEAT, NULL, 0, on_presence_stored);
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
        send_presence(hub, what, users, count, on_announced);
        what = STORE_PRESENCE_JOINED;
        count = 0;
    }
    send_presence(hub, what, users, count, on_announced);
    free(users);
}

/* ---- sessions */

static void
join(struct session *session, const char *kind, const char *target)
{
    char key[AUDIENCE_KEY_MAX];
    size_t len;
    struct bytes kind_bytes = {(const unsigned char *)kind, strlen(kind)};
    struct bytes target_bytes = {(const unsigned char *)target, strlen(target)};

    if (audience_key(kind_bytes, target_bytes, key, &len))
        groups_join(&session->groups, &session->hub->audiences, session, key, len, false);
}

struct session *
hub_attach(struct hub *hub, const struct session_request *request,
           const struct session_transport *transport, void *socket)
{
    struct session *session = session_new(hub, request, transport, socket);

    if (request->topics.count > 0 && session_add_topics(session, &request->topics) != RC_OK)
        log_error("hub", "topics exceed the limit: sending all topics", LOG_SESSION(session));
    DL_APPEND(hub->sessions, session);
    hub->followed[session->client.own_shard].sessions++;
    if (hub->reader != NULL)
        reader_follow(hub->reader, session->client.own_shard);
    groups_want(&session->groups, hub->stats);
    groups_join(&session->groups, &hub->audiences, session, AUDIENCE_ALL, sizeof(AUDIENCE_ALL) - 1,
                false);
    if (hub_user_sessions(hub, session->client.user) == 0)
        send_presence(hub, STORE_PRESENCE_JOINED, &request->user, 1, on_presence_stored);
    join(session, "USER", request->user);
    for (size_t i = 0; i < request->group_count; i++) {
        /* A token can grant only groups, not another user or ALL. */
        if (strcmp(request->groups[i].audience, "USER") != 0)
            join(session, request->groups[i].audience, request->groups[i].target);
    }
    session_mark(session, READY_ADVANCE);
    return session;
}

void
session_detach(struct session *session)
{
    struct hub *hub = session->hub;
    struct followed *followed;

    session_set_state(session, SESSION_CLOSED);
    session_leave_resume(session);
    lists_free(session);
    groups_clear(&session->groups, &hub->audiences);
    if (hub_user_sessions(hub, session->client.user) == 0)
        send_presence(hub, STORE_PRESENCE_LEFT, &(const char *){session->client.user}, 1,
                      on_presence_stored);
    DL_DELETE(hub->sessions, session);
    followed = &hub->followed[session->client.own_shard];
    if (--followed->sessions == 0)
        followed->left_us = clock_monotonic_us();
    outbound_clear(&session->outbound, &hub->queued_bytes);
    topics_free(session->topics);
    session->topics = NULL;
    session_free_if_done(session);
}
