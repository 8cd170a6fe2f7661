/* conn.c: state, control messages and close of a WebSocket. */
#include "gate/ws/conn.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/states.h"
#include "gate/net/gate_shared.h"
#include "gate/ws/backpressure.h"
#include "hub/session.h"

#define BYE_ROOM 512          /* part of WEBSOCKET_OUT_MAX that is reserved for the bye */
#define CLOSE_REASON_SENT 120 /* a close frame has room for 123 bytes */

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

    if (!states_allow(&STATES, ws->state, state, ws->gate->stats))
        conn_close(ws->conn);
    gate_waiting_remove(ws->gate, &ws->waiting);
    ws->state = state;
    ws->state_since_us = clock_monotonic_us();
}

static void
ws_want_write(struct websocket *ws)
{
    if (ws->state == WEBSOCKET_CLOSED)
        return;
    ws->must_wait = true;
    if (ws->unwritable_us == 0)
        ws->unwritable_us = clock_monotonic_us();
    conn_want_writable(ws->conn);
}

static void
ws_queue(struct websocket *ws, const char *line, size_t len)
{
    static const char HEADROOM[WS_TEXT_HEAD_MAX];
    bool first = ws->out.len == 0;
    enum rc rc = buffer_add(&ws->out, first ? HEADROOM : "\n", first ? WS_TEXT_HEAD_MAX : 1);

    if (rc == RC_OK)
        rc = buffer_add(&ws->out, line, len);
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
    if (ws->out.len + len > WEBSOCKET_OUT_MAX - BYE_ROOM)
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
    rc = buffer_addf(&line, "{\"t\":\"bye\",\"code\":%d,\"msg\":", ws->close_code);
    if (rc == RC_OK)
        rc = buffer_add_json(&line, ws->close_reason, strlen(ws->close_reason));
    if (rc == RC_OK && in_ms >= 0)
        rc = buffer_addf(&line, ",\"in\":%lld", (long long)in_ms);
    if (rc == RC_OK)
        rc = buffer_add(&line, "}", 1);
    if (rc == RC_OK)
        ws_queue(ws, line.bytes, line.len);
    buffer_free(&line);
}

void
websocket_close_retry(struct websocket *ws, int code, const char *reason, int64_t in_ms)
{
    if (ws->state >= WEBSOCKET_CLOSING)
        return;
    ws->close_code = code;
    ws->close_reason = memory_text(reason, strnlen(reason, GATE_CLOSE_REASON_MAX));
    if (ws->state == WEBSOCKET_WAITING || code == GATE_CLOSE_PROTOCOL)
        log_info("gate", "closing connection", LOG_INT("code", code), LOG_TEXT("reason", reason),
                 LOG_CONN(ws));
    else
        log_debug("gate", "closing connection", LOG_INT("code", code), LOG_TEXT("reason", reason),
                  LOG_CONN(ws));
    if (ws->state == WEBSOCKET_WAITING && code != GATE_CLOSE_RESTART)
        stats_add(ws->gate->stats, STAT_GATE_REJECTED, 1);
    websocket_set_state(ws, WEBSOCKET_CLOSING);
    buffer_free(&ws->in);
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
    ws->close_code = code;
    log_debug("gate", "client closed the connection", LOG_INT("code", code), LOG_CONN(ws));
    websocket_set_state(ws, WEBSOCKET_CLOSING);
    buffer_free(&ws->in);
    ws_want_write(ws);
}

void
websocket_control(struct websocket *ws, enum ws_event_kind kind, const unsigned char *payload,
                  size_t len)
{
    unsigned char head[2] = {kind == WS_CLOSE ? 0x88 : 0x8a, (unsigned char)len};
    enum rc rc = buffer_add(&ws->control, head, sizeof(head));

    if (rc == RC_OK)
        rc = buffer_add(&ws->control, payload, len);
    if (rc != RC_OK)
        websocket_kill(ws);
    else
        ws_want_write(ws);
}

void
websocket_kill(struct websocket *ws)
{
    gate_stop_reading(ws);
    websocket_set_state(ws, WEBSOCKET_CLOSED);
    conn_close(ws->conn);
}

/* Adds the control messages as one frame. */
static void
add_own(struct websocket *ws)
{
    char *text = ws->out.bytes + WS_TEXT_HEAD_MAX;
    size_t len = ws->out.len - WS_TEXT_HEAD_MAX;
    size_t head_len = ws_text_header(len, (unsigned char *)text);

    out_add(&ws->unsent, text - head_len, head_len + len);
    buffer_free(&ws->out);
}

/* Writes the close frame. When the socket has accepted it, half-closes. */
static void
write_close(struct websocket *ws)
{
    unsigned char payload[WS_CONTROL_MAX] = {(unsigned char)(ws->close_code >> 8),
                                             (unsigned char)ws->close_code};
    const char *reason = ws->close_reason != NULL ? ws->close_reason : "";
    size_t reason_len = strnlen(reason, CLOSE_REASON_SENT);

    if (ws->close_sent) {
        websocket_set_state(ws, WEBSOCKET_CLOSED);
        if (!conn_half_close(ws->conn)) /* otherwise waits for the client to half-close */
            websocket_kill(ws);
        return;
    }
    ws->close_sent = true;
    memcpy(payload + 2, reason, reason_len);
    websocket_control(ws, WS_CLOSE, payload, ws->close_code == WS_NO_CODE ? 0 : 2 + reason_len);
}

void
websocket_detach(struct websocket *ws)
{
    if (ws->session != NULL)
        session_detach(ws->session);
    ws->session = NULL;
}

/* Writes the rest of a frame, then control frames, then control messages. */
static enum rc
write_unsent(struct websocket *ws)
{
    size_t before;
    enum rc rc;

    if (ws->unsent.len == 0 && ws->control.len > 0)
        out_add_buffer(&ws->unsent, &ws->control);
    if (ws->unsent.len == 0 && ws->out.len > 0)
        add_own(ws);
    before = ws->unsent.len;
    rc = out_write(&ws->unsent, ws->conn, GATE_TURN_BYTES);
    if (ws->session != NULL && ws->unsent.len < before)
        session_accepted(ws->session);
    return rc;
}

void
websocket_writable(struct websocket *ws)
{
    ws->unwritable_us = 0;
    ws->must_wait = false;
    if (ws->state == WEBSOCKET_CLOSED)
        return;
    if (ws->state == WEBSOCKET_CLOSING)
        websocket_detach(ws);
    if (ws->unsent.len > 0 || ws->control.len > 0 || ws->out.len > 0) {
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
