/*
 * websocket.c: one WebSocket: its birth, what is sent, its close, its timeouts and its end.
 *
 * The frames of a session are written directly to the socket. The connection keeps the unsent part
 * of a frame, by reference, and sends it before anything else (websocket_writable), so that no pong
 * can split the frame.
 */
#include "gate/ws/websocket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/states.h"
#include "gate/http/auth.h"
#include "gate/net/gate_shared.h"
#include "hub/hub.h"
#include "wire/client_message.h"
#include "wire/ws_frame.h"

#define BYE_ROOM 512          /* part of WEBSOCKET_OUT_MAX that is reserved for the bye */
#define CLOSE_REASON_SENT 120 /* a close frame has room for 123 bytes */
#define RESUME_INTERVAL_S 0.02
#define BYE_GRACE_US (2 * 1000000) /* time for a full socket to accept the bye */

static struct pool pool = {.size = sizeof(struct websocket)};

void
websocket_set_state(struct websocket *ws, enum websocket_state state)
{
    static const struct states STATES = {
        .object = "websocket",
        .names = {"waiting", "open", "closing", "closed"},
        .before = {[WEBSOCKET_OPEN] = 1u << WEBSOCKET_WAITING,
                   [WEBSOCKET_CLOSING] = 1u << WEBSOCKET_WAITING | 1u << WEBSOCKET_OPEN,
                   [WEBSOCKET_CLOSED] = ~0u},
    };

    if (!states_allow(&STATES, ws->state, state, websocket_gate(ws)->stats))
        conn_close(ws->conn);
    if (ws->auth != NULL)
        gate_waiting_remove(websocket_gate(ws), &ws->auth->waiting);
    ws->state = state;
    ws->state_since_us = clock_monotonic_us();
}

/* The session has its names; after its end, the bye has them. */
const char *
websocket_user(const struct websocket *ws)
{
    if (ws->session != NULL)
        return session_user(ws->session);
    return ws->bye != NULL ? ws->bye->user : NULL;
}

const char *
websocket_conn(const struct websocket *ws)
{
    if (ws->session != NULL)
        return session_conn(ws->session);
    return ws->bye != NULL && ws->bye->user != NULL ? ws->bye->conn_id : NULL;
}

struct websocket_flood *
websocket_flood(struct websocket *ws)
{
    if (ws->flood == NULL) {
        ws->flood = memory_new(sizeof(*ws->flood));
        ws->flood->ws = ws;
    }
    return ws->flood;
}

void
websocket_pause_reading(struct websocket *ws)
{
    struct gate *gate = websocket_gate(ws);
    struct websocket_flood *flood = websocket_flood(ws);

    if (flood->prev != NULL)
        return;
    conn_pause(ws->conn);
    DL_APPEND(gate->websockets->paused, flood);
    if (!ev_is_active(&gate->websockets->resume_timer))
        ev_timer_again(gate->loop, &gate->websockets->resume_timer);
}

/* Does not resume reading. Accepts any WebSocket. */
static void
end_pause(struct websocket *ws)
{
    if (ws->flood == NULL || ws->flood->prev == NULL)
        return;
    DL_DELETE(websocket_gate(ws)->websockets->paused, ws->flood);
    ws->flood->prev = NULL;
}

static void
on_resume_timer(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct gate *gate = timer->data;
    int64_t now_us = clock_monotonic_us();
    struct websocket_flood *flood, *next;

    (void)events;
    DL_FOREACH_SAFE (gate->websockets->paused, flood, next) {
        if (flood->ws->budget_until_us > now_us + GATE_BURST_US)
            continue;
        end_pause(flood->ws);
        conn_resume(flood->ws->conn);
    }
    if (gate->websockets->paused == NULL)
        ev_timer_stop(loop, timer);
}

void
gate_ws_open(struct gate *gate)
{
    struct ev_timer *timer;

    gate->websockets = memory_new(sizeof(*gate->websockets));
    timer = &gate->websockets->resume_timer;
    ev_init(timer, on_resume_timer);
    timer->repeat = RESUME_INTERVAL_S;
    timer->data = gate;
}

void
gate_ws_close(struct gate *gate)
{
    ev_timer_stop(gate->loop, &gate->websockets->resume_timer);
    free(gate->websockets);
    gate->websockets = NULL;
}

void
gate_ws_begin(struct conn *conn, const struct conn_events *events)
{
    struct gate *gate = conn->gate;
    struct websocket *ws = pool_alloc(&pool);
    char peer[64] = "";

    ws->conn = conn;
    ws->auth = memory_new(sizeof(*ws->auth));
    ws->auth->bearer = gate_request_bearer(conn->head);
    ws->auth->ticket = gate_request_ticket(conn->head);
    ws->auth->waiting.owner = ws;
    ws->state_since_us = clock_monotonic_us();
    conn_enter(conn, CONN_WEBSOCKET, events, ws);
    conn_resume(conn);
    ws->peer = gate_limits_add_conn(conn, &ws->auth->waiting);
    stats_add(gate->stats, STAT_GATE_ACCEPTED, 1);
    (void)conn_address(conn, peer, sizeof(peer));
    log_debug("gate", "connection opened", LOG_TEXT("peer", peer));
}

static struct websocket_output *
output(struct websocket *ws)
{
    if (ws->output == NULL) {
        ws->output = memory_new(sizeof(*ws->output));
        ws->output->unsent.waiting_bytes = hub_waiting_bytes(websocket_gate(ws)->hub);
        buffer_init(&ws->output->messages, WEBSOCKET_OUT_MAX);
        buffer_init(&ws->output->control, WEBSOCKET_CONTROL_MAX);
    }
    return ws->output;
}

static void
output_free(struct websocket *ws)
{
    if (ws->output == NULL)
        return;
    out_free(&ws->output->unsent);
    buffer_free(&ws->output->messages);
    buffer_free(&ws->output->control);
    free(ws->output);
    ws->output = NULL;
}

/* Frees the object if all of it is written. Accepts a WebSocket without output. */
static void
output_end(struct websocket *ws)
{
    if (ws->output != NULL && ws->output->unsent.len == 0 && ws->output->messages.len == 0 &&
        ws->output->control.len == 0)
        output_free(ws);
}

static void
fragments_free(struct websocket *ws)
{
    if (ws->in != NULL)
        buffer_free(&ws->in->bytes);
    free(ws->in);
    ws->in = NULL;
}

static void
ws_want_write(struct websocket *ws)
{
    if (ws->state == WEBSOCKET_CLOSED)
        return;
    ws->must_wait = true;
    if (ws->output != NULL && ws->output->since_us == 0)
        ws->output->since_us = clock_monotonic_us();
    conn_want_writable(ws->conn);
}

static void
ws_queue(struct websocket *ws, const char *line, size_t len)
{
    static const char HEADROOM[WS_TEXT_HEAD_MAX];
    struct buffer *messages = &output(ws)->messages;
    bool first = messages->len == 0;
    enum rc rc = buffer_add(messages, first ? HEADROOM : "\n", first ? WS_TEXT_HEAD_MAX : 1);

    if (rc == RC_OK)
        rc = buffer_add(messages, line, len);
    if (rc != RC_OK)
        websocket_kill(ws);
    else
        ws_want_write(ws);
}

void
websocket_send(struct websocket *ws, const char *line, size_t len)
{
    if (ws->state >= WEBSOCKET_CLOSING)
        return;
    if (output(ws)->messages.len + len > WEBSOCKET_OUT_MAX - BYE_ROOM)
        websocket_close(ws, GATE_CLOSE_OVERLOADED, "client does not read its replies");
    else
        ws_queue(ws, line, len);
}

static void
ws_send_bye(struct websocket *ws, int64_t in_ms)
{
    struct buffer line;
    enum rc rc;

    buffer_init(&line, WEBSOCKET_OUT_MAX / 2);
    rc = buffer_addf(&line, "{\"t\":\"bye\",\"code\":%d,\"msg\":", ws->bye->code);
    if (rc == RC_OK)
        rc = buffer_add_json(&line, ws->bye->reason, strlen(ws->bye->reason));
    if (rc == RC_OK && in_ms >= 0)
        rc = buffer_addf(&line, ",\"in\":%lld", (long long)in_ms);
    if (rc == RC_OK)
        rc = buffer_add(&line, "}", 1);
    if (rc == RC_OK)
        ws_queue(ws, line.bytes, line.len);
    buffer_free(&line);
}

static void
begin_bye(struct websocket *ws, int code)
{
    ws->bye = memory_new(sizeof(*ws->bye));
    ws->bye->code = code;
}

void
websocket_close_retry(struct websocket *ws, int code, const char *reason, int64_t in_ms)
{
    if (ws->state >= WEBSOCKET_CLOSING)
        return;
    begin_bye(ws, code);
    ws->bye->reason = memory_text(reason, strnlen(reason, GATE_CLOSE_REASON_MAX));
    if (ws->state == WEBSOCKET_WAITING || code == GATE_CLOSE_PROTOCOL)
        log_info("gate", "closing connection", LOG_INT("code", code), LOG_TEXT("reason", reason),
                 LOG_CONN(ws));
    else
        log_debug("gate", "closing connection", LOG_INT("code", code), LOG_TEXT("reason", reason),
                  LOG_CONN(ws));
    if (ws->state == WEBSOCKET_WAITING && code != GATE_CLOSE_RESTART)
        stats_add(websocket_gate(ws)->stats, STAT_GATE_REJECTED, 1);
    websocket_set_state(ws, WEBSOCKET_CLOSING);
    fragments_free(ws);
    ws_send_bye(ws, in_ms);
}

void
websocket_close(struct websocket *ws, int code, const char *reason)
{
    websocket_close_retry(ws, code, reason, -1);
}

void
websocket_reply_close(struct websocket *ws, int code)
{
    if (ws->state >= WEBSOCKET_CLOSING)
        return;
    begin_bye(ws, code);
    log_debug("gate", "client closed the connection", LOG_INT("code", code), LOG_CONN(ws));
    websocket_set_state(ws, WEBSOCKET_CLOSING);
    fragments_free(ws);
    ws_want_write(ws);
}

size_t
websocket_control_len(const struct websocket *ws)
{
    return ws->output != NULL ? ws->output->control.len : 0;
}

void
websocket_control(struct websocket *ws, enum ws_event_kind kind, const unsigned char *payload,
                  size_t len)
{
    struct buffer *control = &output(ws)->control;
    unsigned char head[2] = {kind == WS_CLOSE ? 0x88 : 0x8a, (unsigned char)len};
    enum rc rc = buffer_add(control, head, sizeof(head));

    if (rc == RC_OK)
        rc = buffer_add(control, payload, len);
    if (rc != RC_OK)
        websocket_kill(ws);
    else
        ws_want_write(ws);
}

void
websocket_kill(struct websocket *ws)
{
    conn_pause(ws->conn);
    end_pause(ws);
    websocket_set_state(ws, WEBSOCKET_CLOSED);
    conn_close(ws->conn);
}

/* Writes the close frame. When the socket has accepted it, half-closes. */
static void
write_close(struct websocket *ws)
{
    struct websocket_bye *bye = ws->bye;
    unsigned char payload[WS_CONTROL_MAX] = {(unsigned char)(bye->code >> 8),
                                             (unsigned char)bye->code};
    const char *reason = bye->reason != NULL ? bye->reason : "";
    size_t reason_len = strnlen(reason, CLOSE_REASON_SENT);

    if (bye->is_sent) {
        websocket_set_state(ws, WEBSOCKET_CLOSED);
        if (!conn_half_close(ws->conn)) /* otherwise waits for the client to half-close */
            websocket_kill(ws);
        return;
    }
    bye->is_sent = true;
    memcpy(payload + 2, reason, reason_len);
    websocket_control(ws, WS_CLOSE, payload, bye->code == WS_NO_CODE ? 0 : 2 + reason_len);
}

/*
 * Detaches the session. Call it from the loop, never from the hub, which may be iterating its
 * sessions.
 */
static void
websocket_detach(struct websocket *ws)
{
    const char *user;

    if (ws->session == NULL)
        return;
    if (ws->bye != NULL) {
        user = session_user(ws->session);
        ws->bye->user = memory_text(user, strlen(user));
        snprintf(ws->bye->conn_id, sizeof(ws->bye->conn_id), "%s", session_conn(ws->session));
    }
    session_detach(ws->session);
    ws->session = NULL;
}

/* Writes the rest of a frame, then control frames, then control messages. */
static enum rc
write_unsent(struct websocket *ws)
{
    struct out *unsent = &ws->output->unsent;
    struct buffer *messages = &ws->output->messages;
    size_t before;
    bool has_written;
    enum rc rc;

    if (unsent->len == 0 && ws->output->control.len > 0)
        out_add_buffer(unsent, &ws->output->control);
    if (unsent->len == 0 && messages->len > 0) { /* the messages become one frame */
        char *text = messages->bytes + WS_TEXT_HEAD_MAX;
        size_t len = messages->len - WS_TEXT_HEAD_MAX;
        size_t head_len = ws_text_header(len, (unsigned char *)text);

        out_add(unsent, text - head_len, head_len + len);
        buffer_free(messages);
    }
    before = unsent->len;
    rc = out_write(unsent, ws->conn, GATE_TURN_BYTES);
    has_written = unsent->len < before;
    output_end(ws);
    if (ws->session != NULL && has_written)
        session_accepted(ws->session);
    return rc;
}

void
websocket_writable(struct conn *conn)
{
    struct websocket *ws = conn->owner;

    ws->must_wait = false;
    if (ws->state == WEBSOCKET_CLOSED)
        return;
    if (ws->state == WEBSOCKET_CLOSING)
        websocket_detach(ws);
    if (ws->output != NULL) {
        ws->output->since_us = 0;
        if (write_unsent(ws) == RC_IO)
            websocket_kill(ws);
        else
            ws_want_write(ws);
    } else if (ws->state == WEBSOCKET_CLOSING) {
        write_close(ws);
    } else if (ws->session != NULL) {
        session_writable(ws->session);
    }
}

/*
 * Returns the bytes of the frame at `offset` of a piece that are in this piece; *ret_after: those
 * in the next piece.
 */
static size_t
frame_part(const struct iovec *piece, size_t offset, size_t *ret_after)
{
    size_t len = ws_frame_len((const unsigned char *)piece->iov_base + offset);
    size_t left = piece->iov_len - offset;

    *ret_after = len > left ? len - left : 0;
    return len - *ret_after;
}

/* Keeps the piece from an offset to an end. */
static size_t
keep(struct out *out, const struct session_pieces *pieces, int i, size_t from, size_t to)
{
    if (from >= to)
        return 0;
    out_add_shared(out, (const unsigned char *)pieces->at[i].iov_base + from, to - from,
                   pieces->owners[i]);
    return to - from;
}

size_t
gate_send_rest(struct out *out, const struct session_pieces *pieces, size_t sent)
{
    for (int i = 0; i < pieces->count; i++) {
        size_t offset = 0;

        while (offset < pieces->at[i].iov_len) {
            size_t after;
            size_t len = frame_part(&pieces->at[i], offset, &after);
            size_t kept;

            if (sent == 0)
                return 0; /* no frame is partly written */
            if (sent >= len + after) {
                sent -= len + after;
                offset += len;
                i += after > 0;
                if (after > 0)
                    break;
                continue;
            }
            kept = keep(out, pieces, i, offset + (sent < len ? sent : len), offset + len);
            if (after > 0)
                kept += keep(out, pieces, i + 1, sent > len ? sent - len : 0, after);
            return kept;
        }
    }
    return 0;
}

static enum rc
wait_until_writable(struct websocket *ws)
{
    ws->must_wait = true;
    conn_want_writable(ws->conn);
    return RC_AGAIN;
}

static enum rc
socket_failed(struct websocket *ws)
{
    log_debug("gate", "could not send to the client", LOG_TEXT("error", strerror(errno)),
              LOG_CONN(ws));
    websocket_kill(ws);
    return RC_CLOSED;
}

/*
 * A TLS record must be written completely, with the same bytes in each attempt. So each frame is
 * kept first, and then written from there.
 */
static enum rc
send_tls(struct websocket *ws, const struct session_pieces *pieces, size_t *ret_written)
{
    struct out *unsent = &output(ws)->unsent;
    enum rc rc = RC_OK;

    for (int i = 0; i < pieces->count && rc == RC_OK; i++) {
        size_t offset = 0, after = 0;

        while (offset < pieces->at[i].iov_len)
            offset += frame_part(&pieces->at[i], offset, &after);
        *ret_written += keep(unsent, pieces, i, 0, pieces->at[i].iov_len);
        if (after > 0) {
            i++;
            *ret_written += keep(unsent, pieces, i, 0, pieces->at[i].iov_len);
        }
        rc = out_write(unsent, ws->conn, GATE_TURN_BYTES);
    }
    output_end(ws);
    if (rc == RC_IO)
        return socket_failed(ws);
    return rc == RC_OK ? RC_OK : wait_until_writable(ws);
}

static enum rc
send_plain(struct websocket *ws, const struct session_pieces *pieces, size_t *ret_written)
{
    size_t len = 0;
    ssize_t sent = conn_send_pieces(ws->conn, pieces->at, pieces->count, pieces->file);

    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR && errno != ENOBUFS)
        return socket_failed(ws);
    if (sent < 0)
        return wait_until_writable(ws);
    for (int i = 0; i < pieces->count; i++)
        len += pieces->at[i].iov_len;
    *ret_written = (size_t)sent;
    if ((size_t)sent == len)
        return RC_OK;
    *ret_written += gate_send_rest(&output(ws)->unsent, pieces, (size_t)sent);
    output_end(ws);
    return wait_until_writable(ws);
}

static enum rc
on_send(void *socket, const struct session_pieces *pieces, size_t *ret_written)
{
    struct websocket *ws = socket;

    if (ws->state != WEBSOCKET_OPEN)
        return RC_CLOSED;
    if (ws->must_wait)
        return wait_until_writable(ws);
    if (ws->conn->is_tls)
        return send_tls(ws, pieces, ret_written);
    return send_plain(ws, pieces, ret_written);
}

static void
on_close(void *socket, int code, const char *reason, int64_t in_ms)
{
    websocket_close_retry(socket, code, reason, in_ms);
}

static const struct session_transport PLAIN = {
    .uses_files = true,
    .send = on_send,
    .close = on_close,
};

static const struct session_transport TLS = {
    .send = on_send,
    .close = on_close,
};

const struct session_transport *
gate_transport(const struct websocket *ws)
{
    return ws->conn->is_tls ? &TLS : &PLAIN;
}

/* Closes a slow client, or one whose token expired or that sent no pong; warns and pings. */
static void
check_open(struct websocket *ws, int64_t now_us, int64_t wall_us)
{
    static const char PING[] = "{\"t\":\"ping\"}";
    const struct config *config = websocket_gate(ws)->config;
    const char *slow = session_slow(ws->session, now_us);
    char line[GATE_EXPIRING_MAX];
    int len;

    if (ws->output != NULL && ws->output->since_us != 0 &&
        now_us - ws->output->since_us > config->gate.slow_age_ms * 1000)
        slow = "client does not read";
    if (slow != NULL) {
        websocket_close(ws, GATE_CLOSE_SLOW, slow);
        return;
    }
    len = gate_expiry_check(&ws->expiry, config, wall_us, line);
    if (len < 0)
        websocket_close(ws, GATE_CLOSE_EXPIRED, "token expired");
    else if (len > 0)
        websocket_send(ws, line, (size_t)len);
    if (ws->state != WEBSOCKET_OPEN)
        return;
    if (ws->is_pinged) {
        if (now_us - ws->ping_us > config->gate.pong_timeout_ms * 1000)
            websocket_close(ws, GATE_CLOSE_NO_PONG, "no pong");
    } else if (now_us >= ws->ping_us) {
        ws->is_pinged = true;
        ws->ping_us = now_us;
        websocket_send(ws, PING, sizeof(PING) - 1);
    }
}

/*
 * Whether the client still reads. A slow client has unread bytes before the bye, and an early close
 * would discard both.
 */
static bool
is_client_reading(struct websocket *ws, int64_t now_us, int64_t age_us)
{
    const struct gate *gate = websocket_gate(ws);
    struct websocket_bye *bye = ws->bye;
    int left = 0;

    if (bye == NULL || gate->state == GATE_DRAINING ||
        age_us > gate->config->gate.slow_age_ms * 1000 || !conn_unacked_bytes(ws->conn, &left))
        return false;
    if (ws->state == WEBSOCKET_CLOSED && left == 0)
        return false; /* all bytes were delivered */
    if (left != bye->unacked) {
        bye->unacked = left;
        bye->drained_us = now_us;
    }
    return now_us - bye->drained_us <= BYE_GRACE_US;
}

static void
check_conn(struct websocket *ws, int64_t now_us, int64_t wall_us)
{
    int64_t age_us = now_us - ws->state_since_us;

    switch (ws->state) {
    case WEBSOCKET_WAITING:
        if (age_us > websocket_gate(ws)->config->gate.connect_timeout_ms * 1000)
            websocket_close(ws, GATE_CLOSE_NO_CONNECT, "timeout waiting for \"connect\"");
        break;
    case WEBSOCKET_OPEN:
        check_open(ws, now_us, wall_us);
        break;
    case WEBSOCKET_CLOSING: /* the bye is not yet written */
        websocket_detach(ws);
        /* fallthrough */
    case WEBSOCKET_CLOSED: /* the client has not closed yet */
        if (age_us > BYE_GRACE_US && !is_client_reading(ws, now_us, age_us))
            websocket_kill(ws);
        break;
    }
}

void
gate_ws_sweep(struct gate *gate, int64_t now_us, int64_t wall_us)
{
    struct conn *conn, *next;

    DL_FOREACH_SAFE (gate->conns->in[CONN_WEBSOCKET].first, conn, next)
        check_conn(conn->owner, now_us, wall_us);
}

void
gate_ws_evict(void *owner)
{
    struct websocket *ws = owner;

    ws->was_evicted = true;
    log_debug("gate", "connection evicted before \"connect\": max_connections reached");
    websocket_kill(ws);
}

void
websocket_end_auth(struct websocket *ws)
{
    struct websocket_auth *auth = ws->auth;

    if (auth == NULL)
        return;
    gate_waiting_remove(websocket_gate(ws), &auth->waiting);
    if (auth->redeem != NULL)
        gate_redeem_cancel(auth->redeem);
    if (auth->connect != NULL)
        client_message_free(auth->connect);
    free(auth->connect);
    free(auth->bearer);
    free(auth->ticket);
    free(auth);
    ws->auth = NULL;
}

void
websocket_closed(struct conn *conn)
{
    struct websocket *ws = conn->owner;

    log_debug("gate", "connection closed", LOG_INT("code", ws->bye != NULL ? ws->bye->code : 0),
              LOG_CONN(ws));
    end_pause(ws);
    websocket_set_state(ws, WEBSOCKET_CLOSED);
    websocket_detach(ws);
    websocket_end_auth(ws);
    gate_limits_remove_conn(conn->gate, ws->peer, ws->was_evicted);
    fragments_free(ws);
    output_free(ws);
    ws_reader_free(&ws->reader);
    if (ws->bye != NULL) {
        free(ws->bye->reason);
        free(ws->bye->user);
    }
    free(ws->bye);
    free(ws->flood);
    pool_release(&pool, ws);
}
