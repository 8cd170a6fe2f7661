/* conn.c: one WebSocket from its upgrade to its end. */
#include "gate/gate_conn.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/utf8.h"

#define OUT_MAX (64 * 1024) /* own lines that the socket has not taken yet .. */
#define BYE_ROOM 512        /* .. of which a bye has so much */
#define CONTROL_MAX (16 * 1024)
#define CLOSE_REASON_SENT 120 /* of a close frame's 123 bytes */

static struct pool conns = {.size = sizeof(struct gate_conn)};

void
gate_conn_set_state(struct gate_conn *conn, enum gate_conn_state state)
{
    if (state != GATE_CONN_WAITING)
        gate_waiting_leave(conn);
    conn->state = state;
    conn->state_since_us = clock_monotonic_us();
}

static void
conn_want_write(struct gate_conn *conn)
{
    if (conn->state == GATE_CONN_CLOSED)
        return;
    conn->lws_first = true;
    if (conn->unwritable_us == 0)
        conn->unwritable_us = clock_monotonic_us();
    lws_callback_on_writable(conn->wsi);
}

static void
conn_queue(struct gate_conn *conn, const char *line, size_t len)
{
    static const char HEADROOM[LWS_PRE];
    bool first = conn->out.len == 0;
    enum rc rc = buffer_add(&conn->out, first ? HEADROOM : "\n", first ? LWS_PRE : 1);

    if (rc == RC_OK)
        rc = buffer_add(&conn->out, line, len);
    if (rc != RC_OK)
        gate_conn_kill(conn);
    else
        conn_want_write(conn);
}

void
gate_conn_say(struct gate_conn *conn, const char *line, size_t len)
{
    if (conn->state >= GATE_CONN_CLOSING)
        return;
    if (conn->out.len + len > OUT_MAX - BYE_ROOM)
        gate_conn_close(conn, GATE_CLOSE_OVERLOADED, "it asks for more than it reads");
    else
        conn_queue(conn, line, len);
}

static void
conn_say_bye(struct gate_conn *conn, int64_t in_ms)
{
    struct buffer line;
    enum rc rc;

    buffer_init(&line, OUT_MAX / 2);
    rc = buffer_addf(&line, "{\"t\":\"bye\",\"code\":%d,\"msg\":", conn->close_code);
    if (rc == RC_OK)
        rc = buffer_add_json(&line, conn->close_reason, strlen(conn->close_reason));
    if (rc == RC_OK && in_ms >= 0)
        rc = buffer_addf(&line, ",\"in\":%lld", (long long)in_ms);
    if (rc == RC_OK)
        rc = buffer_add(&line, "}", 1);
    if (rc == RC_OK)
        conn_queue(conn, line.bytes, line.len);
    buffer_free(&line);
}

void
gate_conn_close_for(struct gate_conn *conn, int code, const char *reason, int64_t in_ms)
{
    if (conn->state >= GATE_CONN_CLOSING)
        return;
    conn->close_code = code;
    conn->close_reason = memory_text(reason, strnlen(reason, GATE_CLOSE_REASON_MAX));
    if (conn->state == GATE_CONN_WAITING || code == GATE_CLOSE_PROTOCOL)
        log_info(conn->who, "closes with %d: %s", code, reason);
    else
        log_debug(conn->who, "closes with %d: %s", code, reason);
    if (conn->state == GATE_CONN_WAITING && code != GATE_CLOSE_RESTART)
        stats_add(conn->gate->stats, STAT_GATE_REFUSED, 1);
    gate_conn_set_state(conn, GATE_CONN_CLOSING);
    buffer_free(&conn->in);
    conn_say_bye(conn, in_ms);
}

void
gate_conn_close(struct gate_conn *conn, int code, const char *reason)
{
    gate_conn_close_for(conn, code, reason, -1);
}

void
gate_conn_answer_close(struct gate_conn *conn, int code)
{
    if (conn->state >= GATE_CONN_CLOSING)
        return;
    conn->close_code = code;
    log_debug(conn->who, "the client closes with %d", code);
    gate_conn_set_state(conn, GATE_CONN_CLOSING);
    buffer_free(&conn->in);
    conn_want_write(conn);
}

void
gate_conn_control(struct gate_conn *conn, enum ws_event_kind kind, const unsigned char *payload,
                  size_t len)
{
    static const char HEADROOM[LWS_PRE];
    unsigned char head[2] = {kind == WS_CLOSE ? 0x88 : 0x8a, (unsigned char)len};
    enum rc rc = RC_OK;

    if (conn->control.len == 0)
        rc = buffer_add(&conn->control, HEADROOM, LWS_PRE);
    if (rc == RC_OK)
        rc = buffer_add(&conn->control, head, sizeof(head));
    if (rc == RC_OK)
        rc = buffer_add(&conn->control, payload, len);
    if (rc != RC_OK)
        gate_conn_kill(conn);
    else
        conn_want_write(conn);
}

void
gate_conn_kill(struct gate_conn *conn)
{
    if (conn->is_killed) { /* called again: the event did not end it */
        lws_set_timeout(conn->wsi, PENDING_TIMEOUT_USER_REASON_BASE, LWS_TO_KILL_ASYNC);
        return;
    }
    conn->is_killed = true;
    gate_read_stop(conn);
    gate_conn_set_state(conn, GATE_CONN_CLOSED);
    /* An event for lws, which gets our answer to it. Its timers would be a walk past all others. */
    (void)shutdown(conn->readable.fd, SHUT_RDWR);
    lws_callback_on_writable(conn->wsi);
}

static void
on_session_close(void *socket, int code, const char *reason)
{
    gate_conn_close(socket, code, reason);
}

static const struct session_transport PLAIN = {
    .send = gate_send,
    .send_file = gate_send_file,
    .close = on_session_close,
};

static const struct session_transport TLS = {
    .send = gate_send,
    .close = on_session_close,
};

const struct session_transport *
gate_transport(const struct gate_conn *conn)
{
    return conn->is_tls ? &TLS : &PLAIN;
}

int
gate_ws_established(struct gate *gate, struct lws *wsi, struct gate_conn **slot)
{
    struct gate_conn *conn = pool_take(&conns);
    char peer[64] = "";

    conn->gate = gate;
    conn->wsi = wsi;
    conn->is_tls = lws_is_ssl(wsi);
    conn->who = memory_text("gate", strlen("gate"));
    conn->bearer = gate_http_bearer(wsi);
    conn->ticket = gate_http_argument(wsi, "ticket=", GATE_TICKET_MAX);
    conn->peer = gate_peer_enter(gate, wsi);
    buffer_init(&conn->in, (size_t)gate->config->gate.max_frame_bytes);
    buffer_init(&conn->out, OUT_MAX);
    buffer_init(&conn->control, CONTROL_MAX);
    gate_conn_set_state(conn, GATE_CONN_WAITING);
    gate_waiting_enter(conn);
    DL_APPEND(gate->conns, conn);
    gate->conn_count++;
    stats_add(gate->stats, STAT_GATE_ACCEPTED, 1);
    stats_set(gate->stats, STAT_GATE_CONNECTIONS, (uint64_t)gate->conn_count);
    lws_get_peer_simple(wsi, peer, sizeof(peer));
    log_debug(conn->who, "opened a connection from %s", peer);
    *slot = conn;
    gate_read_start(conn);
    return 0;
}

static void
refuse_text(struct gate_conn *conn)
{
    stats_add(conn->gate->stats, STAT_GATE_PROTOCOL_ERRORS, 1);
    gate_conn_close(conn, GATE_CLOSE_UTF8, "a text frame must be valid UTF-8");
}

/* The beginning of a message: nobody waits for the rest of what is wrong already. */
static void
check_begun(struct gate_conn *conn)
{
    size_t len = 0;

    if (conn->in.len == 0)
        return;
    if (utf8_may_go_on(conn->in.bytes + conn->in_valid, conn->in.len - conn->in_valid, &len))
        conn->in_valid += len;
    else
        refuse_text(conn);
}

static void
handle_text(struct gate_conn *conn, const char *text, size_t len)
{
    const char *end = text + len;
    size_t valid_len = 0;

    /* Here and not in lws, which closes without a bye. */
    if (!utf8_may_go_on(text, len, &valid_len) || valid_len < len) {
        refuse_text(conn);
        return;
    }
    if (len == 0) {
        gate_message_handle(conn, text, len);
        return;
    }
    while (text < end && conn->state < GATE_CONN_CLOSING) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t line_len = (size_t)((stop != NULL ? stop : end) - text);

        if (line_len > 0)
            gate_message_handle(conn, text, line_len);
        text += line_len + 1;
    }
}

/* Why a message may not go on, as a close code and a sentence; 0: it may. */
static int
judge_piece(const struct gate_conn *conn, const struct ws_event *event, const char **ret_why)
{
    size_t most = (size_t)conn->gate->config->gate.max_frame_bytes;
    size_t room;

    if (conn->state == GATE_CONN_WAITING && most > GATE_FIRST_FRAME_MAX)
        most = GATE_FIRST_FRAME_MAX;
    room = most - conn->in.len;

    if (event->is_binary) {
        *ret_why = "binary frames are not part of the protocol";
        return GATE_CLOSE_BINARY;
    }
    /* What is announced is refused at once: nobody waits for the rest of it. */
    if (event->len > room || event->left > room - event->len) {
        *ret_why = conn->state == GATE_CONN_WAITING
                       ? "a frame before \"connect\" is at most 20 kB, or max_frame_bytes"
                       : "the frame is longer than max_frame_bytes";
        return GATE_CLOSE_TOO_LONG;
    }
    return 0;
}

/* Keeps a piece of a message; the whole is handled once its last piece is there. */
void
gate_ws_received(struct gate_conn *conn, const struct ws_event *event)
{
    const char *bytes = event->len > 0 ? (const char *)event->at : "";
    const char *why = NULL;
    int code = judge_piece(conn, event, &why);

    if (code != 0) {
        stats_add(conn->gate->stats, STAT_GATE_PROTOCOL_ERRORS, 1);
        gate_conn_close(conn, code, why);
    } else if (event->is_last && conn->in.len == 0) {
        handle_text(conn, bytes, event->len);
    } else if (buffer_add(&conn->in, bytes, event->len) != RC_OK) {
        gate_conn_kill(conn);
    } else if (!event->is_last) {
        check_begun(conn);
    } else {
        struct buffer whole = conn->in;

        buffer_init(&conn->in, (size_t)conn->gate->config->gate.max_frame_bytes);
        conn->in_valid = 0;
        handle_text(conn, whole.bytes, whole.len);
        buffer_free(&whole);
    }
}

static int
conn_write(struct gate_conn *conn, unsigned char *bytes, size_t len)
{
    if (lws_write(conn->wsi, bytes, len, LWS_WRITE_TEXT) < (int)len)
        return -1;
    conn_want_write(conn);
    return 0;
}

static int
conn_write_own(struct gate_conn *conn)
{
    int result =
        conn_write(conn, (unsigned char *)conn->out.bytes + LWS_PRE, conn->out.len - LWS_PRE);

    buffer_free(&conn->out);
    return result;
}

static int
conn_write_control(struct gate_conn *conn)
{
    size_t len = conn->control.len - LWS_PRE;
    int sent =
        lws_write(conn->wsi, (unsigned char *)conn->control.bytes + LWS_PRE, len, LWS_WRITE_RAW);

    buffer_free(&conn->control);
    if (sent < (int)len)
        return -1;
    conn_want_write(conn);
    return 0;
}

/* The close frame, and once the socket has taken it, the end of what we say. */
static int
conn_end(struct gate_conn *conn)
{
    unsigned char payload[WS_CONTROL_MAX] = {(unsigned char)(conn->close_code >> 8),
                                             (unsigned char)conn->close_code};
    const char *reason = conn->close_reason != NULL ? conn->close_reason : "";
    size_t reason_len = strnlen(reason, CLOSE_REASON_SENT);

    if (conn->close_sent) {
        gate_conn_set_state(conn, GATE_CONN_CLOSED);
        gate_read_linger(conn);
        return 0;
    }
    conn->close_sent = true;
    memcpy(payload + 2, reason, reason_len);
    gate_conn_control(conn, WS_CLOSE, payload, conn->close_code == WS_NO_CODE ? 0 : 2 + reason_len);
    return 0;
}

void
gate_conn_detach(struct gate_conn *conn)
{
    if (conn->session != NULL)
        session_detach(conn->session);
    conn->session = NULL;
}

int
gate_ws_writable(struct gate_conn *conn)
{
    conn->unwritable_us = 0;
    conn->lws_first = lws_partial_buffered(conn->wsi) != 0;
    if (conn->state == GATE_CONN_CLOSED)
        return conn->is_killed ? -1 : 0;
    if (conn->state == GATE_CONN_CLOSING)
        gate_conn_detach(conn);
    if (conn->control.len > 0)
        return conn_write_control(conn);
    if (conn->out.len > 0)
        return conn_write_own(conn);
    if (conn->state == GATE_CONN_CLOSING)
        return conn_end(conn);
    if (conn->session != NULL) {
        conn->in_turn = true;
        session_writable(conn->session);
        conn->in_turn = false;
    }
    return 0;
}

void
gate_ws_closed(struct gate_conn *conn)
{
    struct gate *gate = conn->gate;

    gate_read_stop(conn);
    gate_conn_set_state(conn, GATE_CONN_CLOSED);
    gate_conn_detach(conn);
    DL_DELETE(gate->conns, conn);
    gate->conn_count--;
    gate->evicted_count -= conn->is_evicted;
    gate_peer_leave(gate, conn->peer);
    gate_message_forget(conn);
    stats_set(gate->stats, STAT_GATE_CONNECTIONS, (uint64_t)gate->conn_count);
    log_debug(conn->who, "closed the connection, code %d", conn->close_code);
    buffer_free(&conn->in);
    buffer_free(&conn->out);
    buffer_free(&conn->control);
    free(conn->close_reason);
    free(conn->bearer);
    free(conn->ticket);
    free(conn->user);
    free(conn->who);
    pool_give(&conns, conn);
}
