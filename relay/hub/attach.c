/* attach.c: starts and ends sessions. */
#include "hub/attach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "hub/hub.h"
#include "hub/presence.h"
#include "hub/resume.h"
#include "hub/subscribe.h"
#include "hub/control.h"
#include "hub/followed.h"
#include "hub/hub_state.h"
#include "hub/lists.h"
#include "hub/members.h"
#include "hub/queue.h"
#include "hub/ready_list.h"
#include "hub/state.h"

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
    if (session_begin_subscription(session, &request->topics) != RC_OK)
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
    session_free_if_done(session);
}
