/*
 * session.c: a session: its birth and death, its states, its pending work, its requests to the
 * store, and its control queue. Other files of the hub call this one, and never the reverse.
 */
#include "hub/hub_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/states.h"
#include "wire/codes.h"

/* ---- birth, states, death */

static struct pool sessions = {.size = sizeof(struct session), .is_line_aligned = true};

/* The id of the connection follows the user's name. */
static void
set_names(struct session *session, const char *user)
{
    struct hub *hub = session->hub;
    size_t user_size = strlen(user) + 1;
    char conn[SESSION_CONN_SIZE];
    int conn_len = snprintf(conn, sizeof(conn), "%08" PRIx32 "-%llx", hub->conn_prefix,
                            (unsigned long long)++hub->session_count_ever);

    session->client.user = memory_new(user_size + (size_t)conn_len + 1);
    memcpy(session->client.user, user, user_size);
    session->client.conn = memcpy(session->client.user + user_size, conn, (size_t)conn_len + 1);
}

struct session *
session_new(struct hub *hub, const struct session_request *request,
            const struct session_transport *transport, void *socket)
{
    const int max = hub->config->delivery.window;
    struct session *session = pool_alloc(&sessions);

    session->hub = hub;
    session->socket = (struct session_socket){socket, transport};
    set_names(session, request->user);
    session->client.own_shard = (unsigned char)store_shard_of(hub->store, request->user);
    session->client.attached_us = clock_monotonic_us();
    session->client.expires_s = request->expires_s;
    session->client.request_id = request->request_id;
    session->client.has_request_id = request->has_request_id;
    if (request->pos != NULL && request->pos[0] != '\0')
        session->resume.pos = memory_text(request->pos, strlen(request->pos));
    session->is_poll = request->is_poll;
    session->inflight.size = request->window > 0 && request->window < max ? request->window : max;
    return session;
}

const char *
session_conn(const struct session *session)
{
    return session->client.conn;
}

const char *
session_user(const struct session *session)
{
    return session->client.user;
}

void
session_set_state(struct session *session, enum session_state state)
{
    static const struct states STATES = {
        .object = "session",
        .names = {"loading", "pending", "stream", "live", "failed", "closed"},
        .before = {[SESSION_PENDING] = 1u << SESSION_LOADING | 1u << SESSION_STREAM,
                   [SESSION_STREAM] = 1u << SESSION_PENDING | 1u << SESSION_LIVE,
                   [SESSION_LIVE] = 1u << SESSION_STREAM,
                   [SESSION_CLOSED] = ~(1u << SESSION_CLOSED)},
    };

    if (!states_allow(&STATES, session->state, state, session->hub->stats)) {
        if (session->state == SESSION_CLOSED)
            return;
        state = SESSION_FAILED;
        session_mark(session, READY_ADVANCE);
    }
    session->state = state;
}

void
session_free_if_done(struct session *session)
{
    if (session->state != SESSION_CLOSED || session->requests.count > 0 || session->ready != 0)
        return;
    free(session->client.user);
    free(session->resume.pos);
    free(session->pending.early);
    free(session->pending.ended);
    free(session->inflight.entries);
    free(session->row_order);
    if (session->control.queue != NULL)
        buffer_free(&session->control.queue->frames);
    free(session->control.queue);
    pool_release(&sessions, session);
}

/* ---- pending work of the current loop iteration */

#define STEPS (READY_REFILL | READY_ADVANCE)

void
ready_list_send(struct hub *hub, struct session *session)
{
    if (session->is_blocked || (session->ready & READY_SEND) != 0)
        return;
    session->ready |= READY_SEND;
    session->ready_next = NULL;
    if (hub->ready.first == NULL) {
        ev_idle_start(hub->loop, &hub->more); /* the loop must not sleep before the turn */
        hub->ready.first = session;
    } else {
        hub->ready.last->ready_next = session;
    }
    hub->ready.last = session;
    if (hub->ready.probe == NULL) {
        hub->ready.probe = session;
        hub->ready.probe_us = clock_monotonic_us();
    }
}

void
session_mark(struct session *session, unsigned reason)
{
    struct ready_list *ready = &session->hub->ready;

    if (reason == READY_SEND) {
        ready_list_send(session->hub, session);
        return;
    }
    if ((session->ready & STEPS) == 0) {
        session->step_next = NULL;
        if (ready->first_step == NULL) {
            ev_idle_start(session->hub->loop, &session->hub->more);
            ready->first_step = session;
        } else {
            ready->last_step->step_next = session;
        }
        ready->last_step = session;
    }
    session->ready |= (uint8_t)reason;
}

void
session_rewind(struct session *session)
{
    session->pending.is_rewound = true;
    if (session->state != SESSION_CLOSED)
        session_mark(session, READY_REFILL);
}

struct session *
ready_list_pop(struct hub *hub)
{
    struct ready_list *ready = &hub->ready;
    struct session *session = ready->first;

    if (session == NULL)
        return NULL;
    ready->first = session->ready_next;
    session->ready &= STEPS;
    if (session == ready->probe) {
        const int64_t delay_us = clock_monotonic_us() - ready->probe_us;

        if (delay_us > ready->delay_us)
            ready->delay_us = delay_us;
        ready->probe = NULL;
    }
    return session;
}

struct session *
ready_list_pop_step(struct hub *hub, unsigned *ret_reasons)
{
    struct session *session = hub->ready.first_step;

    if (session == NULL)
        return NULL;
    hub->ready.first_step = session->step_next;
    *ret_reasons = session->ready & STEPS;
    session->ready &= READY_SEND;
    return session;
}

/* ---- pending work of the hub */

void
hub_mark(struct hub *hub, unsigned work)
{
    if (hub->ready.work == 0)
        ev_idle_start(hub->loop, &hub->more);
    hub->ready.work |= work;
}

void
hub_repeat_later(struct hub *hub)
{
    if (!hub->closing && !ev_is_active(&hub->repeat))
        ev_timer_again(hub->loop, &hub->repeat);
}

void
hub_log_rejected(struct throttle *throttle, const char *user, const char *what)
{
    unsigned skipped;

    if (throttle_allows(throttle, clock_monotonic_us(), &skipped))
        log_warn("hub", what, LOG_UINT("count", skipped + 1u), LOG_TEXT("user", user));
}

/* ---- requests to the store */

bool
session_reply_arrived(struct session *session, enum rc rc)
{
    session->requests.count--;
    if (session->state == SESSION_CLOSED) {
        session_free_if_done(session);
        return false;
    }
    if (rc == RC_OK) {
        session->requests.has_failed = false;
        return true;
    }
    /* The store may be about to go down: close the session only at the second error. */
    if (session->requests.has_failed && store_replies(session->hub->store))
        session->socket.transport->close(session->socket.handle, GATE_CLOSE_RESTART,
                                         "no reply from the store", -1);
    session->requests.has_failed = true;
    hub_repeat_later(session->hub);
    return false;
}

/* ---- control queue */

/* Precedes a line and its cursor in the queue. */
struct control_head {
    uint32_t len;
    uint16_t pos_len;
    uint8_t kind; /* enum session_line_kind */
};

struct control_queue *
session_control_queue(struct session *session)
{
    struct control_queue *queue = session->control.queue;

    if (queue == NULL) {
        queue = session->control.queue = memory_new(sizeof(*queue));
        buffer_init(&queue->frames, SESSION_ACKED_MAX);
    }
    return queue;
}

void
session_end_control(struct session *session)
{
    struct control_queue *queue = session->control.queue;

    if (queue == NULL || queue->frames.len > 0 || queue->gap_why != NULL)
        return;
    buffer_free(&queue->frames);
    free(queue);
    session->control.queue = NULL;
}

static bool
has_room(const struct session *session, size_t len, size_t max)
{
    size_t used = session->control.queue != NULL ? session->control.queue->frames.len : 0;

    return used + sizeof(struct control_head) + len + CLIENT_POS_MAX <= max;
}

bool
session_can_send_control(const struct session *session, size_t len)
{
    return has_room(session, len, SESSION_CONTROL_MAX);
}

void
session_send_control(struct session *session, enum session_line_kind kind, const char *line,
                     size_t len, const char *pos)
{
    struct buffer *frames = &session_control_queue(session)->frames;
    struct control_head head = {.len = (uint32_t)len,
                                .pos_len = (uint16_t)(pos != NULL ? strlen(pos) : 0),
                                .kind = (uint8_t)kind};

    if (!has_room(session, len,
                  kind == SESSION_LINE_ACKED ? SESSION_ACKED_MAX : SESSION_CONTROL_MAX) ||
        buffer_add(frames, &head, sizeof(head)) != RC_OK ||
        buffer_add(frames, line, len) != RC_OK || buffer_add(frames, pos, head.pos_len) != RC_OK) {
        /* A client that sends requests without reading is closed by the ping timeout. */
        session->control.has_lost_acked |= kind == SESSION_LINE_ACKED;
        log_debug("hub", "control queue is full: frame dropped", LOG_SESSION(session));
        return;
    }
    session->has_control = true;
    session_mark(session, READY_SEND);
}

bool
session_next_control(const struct session *session, size_t *offset, struct session_line *ret_line)
{
    const struct control_queue *queue = session->control.queue;
    const struct buffer *frames;
    struct control_head head;
    const unsigned char *line;

    if (queue == NULL || *offset == queue->frames.len)
        return false;
    frames = &queue->frames;
    memcpy(&head, frames->bytes + *offset, sizeof(head));
    line = (const unsigned char *)frames->bytes + *offset + sizeof(head);
    *ret_line = (struct session_line){
        .kind = head.kind, .text = {line, head.len}, .pos = {line + head.len, head.pos_len}};
    *offset += sizeof(head) + head.len + head.pos_len;
    return true;
}
