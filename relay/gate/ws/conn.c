/* conn.c: state, control messages and close of a WebSocket. */
#include "gate/ws/conn.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gate/net/gate_shared.h"
#include "gate/net/lws_workarounds.h"
#include "gate/ws/backpressure.h"
#include "hub/attach.h"

#define BYE_ROOM 512          /* part of GATE_CONN_OUT_MAX that is reserved for the bye */
#define CLOSE_REASON_SENT 120 /* a close frame has room for 123 bytes */

void
gate_conn_set_state(struct gate_conn *conn, enum gate_conn_state state)
{
    static const unsigned before[] = {
        [GATE_CONN_WAITING] = 0,
        [GATE_CONN_OPEN] = 1u << GATE_CONN_WAITING,
        [GATE_CONN_CLOSING] = 1u << GATE_CONN_WAITING | 1u << GATE_CONN_OPEN,
        [GATE_CONN_CLOSED] = ~0u,
    };

    if ((before[state] & 1u << conn->state) == 0)
        abort();
    gate_waiting_remove(conn->gate, &conn->waiting);
    conn->state = state;
    conn->state_since_us = clock_monotonic_us();
}

static void
conn_want_write(struct gate_conn *conn)
{
    if (conn->state == GATE_CONN_CLOSED)
        return;
    conn->must_wait_for_lws = true;
    if (conn->unwritable_us == 0)
        conn->unwritable_us = clock_monotonic_us();
    conn_io_want_writable(&conn->io);
}

static void
conn_queue(struct gate_conn *conn, const char *line, size_t len)
{
    static const char HEADROOM[WS_TEXT_HEAD_MAX];
    bool first = conn->out.len == 0;
    enum rc rc = buffer_add(&conn->out, first ? HEADROOM : "\n", first ? WS_TEXT_HEAD_MAX : 1);

    if (rc == RC_OK)
        rc = buffer_add(&conn->out, line, len);
    if (rc != RC_OK)
        gate_conn_kill(conn);
    else
        conn_want_write(conn);
}

void
gate_conn_send(struct gate_conn *conn, const char *line, size_t len)
{
    if (conn->state >= GATE_CONN_CLOSING)
        return;
    if (conn->out.len + len > GATE_CONN_OUT_MAX - BYE_ROOM)
        gate_conn_close(conn, GATE_CLOSE_OVERLOADED, "client does not read its replies");
    else
        conn_queue(conn, line, len);
}

static void
conn_send_bye(struct gate_conn *conn, int64_t in_ms)
{
    struct buffer line;
    enum rc rc;

    buffer_init(&line, GATE_CONN_OUT_MAX / 2);
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
gate_conn_close_retry(struct gate_conn *conn, int code, const char *reason, int64_t in_ms)
{
    if (conn->state >= GATE_CONN_CLOSING)
        return;
    conn->close_code = code;
    conn->close_reason = memory_text(reason, strnlen(reason, GATE_CLOSE_REASON_MAX));
    if (conn->state == GATE_CONN_WAITING || code == GATE_CLOSE_PROTOCOL)
        log_info("gate", "closing connection", LOG_INT("code", code), LOG_TEXT("reason", reason),
                 LOG_CONN(conn));
    else
        log_debug("gate", "closing connection", LOG_INT("code", code), LOG_TEXT("reason", reason),
                  LOG_CONN(conn));
    if (conn->state == GATE_CONN_WAITING && code != GATE_CLOSE_RESTART)
        stats_add(conn->gate->stats, STAT_GATE_REJECTED, 1);
    gate_conn_set_state(conn, GATE_CONN_CLOSING);
    buffer_free(&conn->in);
    conn_send_bye(conn, in_ms);
}

void
gate_conn_close(struct gate_conn *conn, int code, const char *reason)
{
    gate_conn_close_retry(conn, code, reason, -1);
}

void
gate_conn_reply_close(struct gate_conn *conn, int code)
{
    if (conn->state >= GATE_CONN_CLOSING)
        return;
    conn->close_code = code;
    log_debug("gate", "client closed the connection", LOG_INT("code", code), LOG_CONN(conn));
    gate_conn_set_state(conn, GATE_CONN_CLOSING);
    buffer_free(&conn->in);
    conn_want_write(conn);
}

void
gate_conn_control(struct gate_conn *conn, enum ws_event_kind kind, const unsigned char *payload,
                  size_t len)
{
    unsigned char head[2] = {kind == WS_CLOSE ? 0x88 : 0x8a, (unsigned char)len};
    enum rc rc = buffer_add(&conn->control, head, sizeof(head));

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
    if (conn->is_killed) { /* second call: the event did not close the socket */
        workaround_kill_again(&conn->io);
        return;
    }
    conn->is_killed = true;
    gate_stop_reading(conn);
    gate_conn_set_state(conn, GATE_CONN_CLOSED);
    workaround_kill(&conn->io);
}

/* Adds the control messages as one frame. */
static void
add_own(struct gate_conn *conn)
{
    char *text = conn->out.bytes + WS_TEXT_HEAD_MAX;
    size_t len = conn->out.len - WS_TEXT_HEAD_MAX;
    size_t head_len = ws_text_header(len, (unsigned char *)text);

    out_add(&conn->unsent, text - head_len, head_len + len);
    buffer_free(&conn->out);
}

/* Writes the close frame. When the socket has accepted it, half-closes. */
static void
write_close(struct gate_conn *conn)
{
    unsigned char payload[WS_CONTROL_MAX] = {(unsigned char)(conn->close_code >> 8),
                                             (unsigned char)conn->close_code};
    const char *reason = conn->close_reason != NULL ? conn->close_reason : "";
    size_t reason_len = strnlen(reason, CLOSE_REASON_SENT);

    if (conn->close_sent) {
        gate_conn_set_state(conn, GATE_CONN_CLOSED);
        if (!conn_io_half_close(&conn->io)) /* otherwise waits for the client to half-close */
            gate_conn_kill(conn);
        return;
    }
    conn->close_sent = true;
    memcpy(payload + 2, reason, reason_len);
    gate_conn_control(conn, WS_CLOSE, payload, conn->close_code == WS_NO_CODE ? 0 : 2 + reason_len);
}

void
gate_conn_detach(struct gate_conn *conn)
{
    if (conn->session != NULL)
        session_detach(conn->session);
    conn->session = NULL;
}

/* Writes the rest of a frame, then control frames, then control messages. */
static enum rc
write_unsent(struct gate_conn *conn)
{
    size_t before;
    enum rc rc;

    if (conn->unsent.len == 0 && conn->control.len > 0)
        out_add_buffer(&conn->unsent, &conn->control);
    if (conn->unsent.len == 0 && conn->out.len > 0)
        add_own(conn);
    before = conn->unsent.len;
    rc = out_write(&conn->unsent, &conn->io, GATE_TURN_BYTES);
    if (conn->session != NULL && conn->unsent.len < before)
        session_accepted(conn->session);
    return rc;
}

int
gate_conn_writable(void *owner)
{
    struct gate_conn *conn = owner;

    conn->unwritable_us = 0;
    conn->must_wait_for_lws = false;
    if (conn->state == GATE_CONN_CLOSED)
        return conn->is_killed ? -1 : 0;
    if (conn->state == GATE_CONN_CLOSING)
        gate_conn_detach(conn);
    if (conn->unsent.len > 0 || conn->control.len > 0 || conn->out.len > 0) {
        if (write_unsent(conn) == RC_IO)
            return -1;
        conn_want_write(conn);
    } else if (conn->state == GATE_CONN_CLOSING) {
        write_close(conn);
    } else if (conn->session != NULL) {
        session_writable(conn->session);
    }
    return 0;
}
