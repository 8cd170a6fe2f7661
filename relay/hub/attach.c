/*
 * attach.c: sessions start and end: the shards that are followed for them, and the presence of
 * their users in the store.
 */
#include "hub/hub_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "hub/resume.h"

/* ---- followed shards */

/* Longer than a client needs to reconnect or to poll again. */
#define UNFOLLOW_AFTER_US (30 * INT64_C(1000000))

void
followed_add_session(struct hub *hub, unsigned shard)
{
    hub->followed[shard].sessions++;
    if (hub->reader != NULL)
        reader_follow(hub->reader, shard);
}

void
followed_remove_session(struct hub *hub, unsigned shard)
{
    if (--hub->followed[shard].sessions == 0)
        hub->followed[shard].left_us = clock_monotonic_us();
}

bool
followed_is_ready(const struct hub *hub, unsigned shard)
{
    /* A hub that is closing has no reader, and its sessions end. */
    return hub->has_head && (hub->reader == NULL || reader_follows(hub->reader, shard));
}

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
    struct session *session = session_new();
    int max = hub->config->delivery.window;

    session->hub = hub;
    session->socket.transport = transport;
    session->socket.handle = socket;
    session->client.user = memory_text(request->user, strlen(request->user));
    session->client.own_shard = (unsigned char)store_shard_of(hub->store, request->user);
    if (request->pos != NULL && request->pos[0] != '\0')
        session->resume.pos = memory_text(request->pos, strlen(request->pos));
    session->client.attached_us = clock_monotonic_us();
    session->client.expires_s = request->expires_s;
    session->client.request_id = request->request_id;
    session->client.has_request_id = request->has_request_id;
    session->is_poll = request->is_poll;
    session->inflight.size = request->window > 0 && request->window < max ? request->window : max;
    buffer_init(&session->control.frames, SESSION_CONTROL_MAX);
    snprintf(session->client.conn, sizeof(session->client.conn), "%x-%llx", (unsigned)getpid(),
             (unsigned long long)++hub->session_count_ever);
    if (request->topics.count > 0 && session_add_topics(session, &request->topics) != RC_OK)
        log_error("hub", "topics exceed the limit: sending all topics", LOG_SESSION(session));
    DL_APPEND(hub->sessions, session);
    followed_add_session(hub, session->client.own_shard);
    groups_want(&session->groups, hub->stats);
    groups_join(&session->groups, &hub->audiences, session, AUDIENCE_ALL, sizeof(AUDIENCE_ALL) - 1,
                false);
    if (hub_user_sessions(hub, session->client.user) == 0)
        presence_arrived(hub, session->client.user);
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

    session_set_state(session, SESSION_CLOSED);
    session_leave_resume(session);
    lists_free(session);
    groups_clear(&session->groups, &hub->audiences);
    if (hub_user_sessions(hub, session->client.user) == 0)
        presence_left(hub, session->client.user);
    DL_DELETE(hub->sessions, session);
    followed_remove_session(hub, session->client.own_shard);
    session_clear_queue(session);
    topics_free(session->topics);
    session->topics = NULL;
    session_free_if_done(session);
}
