/* liveness.c: closes WebSockets that timed out: no "connect", no pong, slow, or token expired. */
#include "gate/ws/liveness.h"

#include <utlist.h>

#include "gate/net/gate_shared.h"
#include "gate/ws/conn.h"
#include "hub/session.h"

#define BYE_GRACE_US (2 * 1000000) /* time for a full socket to accept the bye */

static void
check_expiry(struct websocket *ws, int64_t wall_us)
{
    char line[GATE_EXPIRING_MAX];
    int len = gate_expiry_check(&ws->expiry, ws->gate->config, wall_us, line);

    if (len < 0)
        websocket_close(ws, GATE_CLOSE_EXPIRED, "token expired");
    else if (len > 0)
        websocket_send(ws, line, (size_t)len);
}

static void
check_life(struct websocket *ws, int64_t now_us)
{
    static const char PING[] = "{\"t\":\"ping\"}";
    const struct config *config = ws->gate->config;

    if (ws->pinged_us != 0) {
        if (now_us - ws->pinged_us > config->gate.pong_timeout_ms * 1000)
            websocket_close(ws, GATE_CLOSE_NO_PONG, "no pong");
        return;
    }
    if (now_us < ws->ping_due_us)
        return;
    ws->pinged_us = now_us;
    ws->ping_due_us = now_us + config->gate.ping_ms * 1000;
    websocket_send(ws, PING, sizeof(PING) - 1);
}

static void
check_open(struct websocket *ws, int64_t now_us, int64_t wall_us)
{
    const struct config *config = ws->gate->config;
    const char *slow = session_slow(ws->session, now_us);

    if (ws->unwritable_us != 0 && now_us - ws->unwritable_us > config->gate.slow_age_ms * 1000)
        slow = "client does not read";
    if (slow != NULL)
        websocket_close(ws, GATE_CLOSE_SLOW, slow);
    else
        check_expiry(ws, wall_us);
    if (ws->state == WEBSOCKET_OPEN)
        check_life(ws, now_us);
}

/*
 * Whether the client still reads. A slow client has unread bytes before the bye, and an early close
 * would discard both.
 */
static bool
is_client_reading(struct websocket *ws, int64_t now_us, int64_t age_us)
{
    const struct gate *gate = ws->gate;
    int left = 0;

    if (gate->draining || age_us > gate->config->gate.slow_age_ms * 1000 ||
        !conn_unacked_bytes(ws->conn, &left))
        return false;
    if (ws->state == WEBSOCKET_CLOSED && left == 0)
        return false; /* all bytes were delivered */
    if (left != ws->unacked) {
        ws->unacked = left;
        ws->drained_us = now_us;
    }
    return now_us - ws->drained_us <= BYE_GRACE_US;
}

static void
check_conn(struct websocket *ws, int64_t now_us, int64_t wall_us)
{
    int64_t age_us = now_us - ws->state_since_us;

    switch (ws->state) {
    case WEBSOCKET_WAITING:
        if (age_us > ws->gate->config->gate.connect_timeout_ms * 1000)
            websocket_close(ws, GATE_CLOSE_NO_CONNECT, "timeout waiting for \"connect\"");
        break;
    case WEBSOCKET_OPEN:
        check_open(ws, now_us, wall_us);
        break;
    case WEBSOCKET_CLOSING: /* the bye is not yet written */
        websocket_detach(ws);
        if (age_us > BYE_GRACE_US && !is_client_reading(ws, now_us, age_us))
            websocket_kill(ws);
        break;
    case WEBSOCKET_CLOSED: /* the client has not closed yet */
        if (age_us > BYE_GRACE_US && !is_client_reading(ws, now_us, age_us))
            websocket_kill(ws);
        break;
    }
}

void
gate_ws_sweep(struct gate *gate, int64_t now_us, int64_t wall_us)
{
    struct websocket *ws;

    DL_FOREACH (gate->websockets->first, ws)
        check_conn(ws, now_us, wall_us);
}
