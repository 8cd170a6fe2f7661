/* liveness.c: closes WebSockets that timed out: no "connect", no pong, slow, or token expired. */
#include "gate/ws/liveness.h"

#include <utlist.h>

#include "gate/net/gate_shared.h"
#include "gate/ws/conn.h"
#include "hub/session/session.h"

#define BYE_GRACE_US (2 * 1000000) /* time for a full socket to accept the bye */

static void
check_expiry(struct gate_conn *conn, int64_t wall_us)
{
    char line[GATE_EXPIRING_MAX];
    int len = gate_expiry_check(&conn->expiry, conn->gate->config, wall_us, line);

    if (len < 0)
        gate_conn_close(conn, GATE_CLOSE_EXPIRED, "token expired");
    else if (len > 0)
        gate_conn_send(conn, line, (size_t)len);
}

static void
check_life(struct gate_conn *conn, int64_t now_us)
{
    static const char PING[] = "{\"t\":\"ping\"}";
    const struct config *config = conn->gate->config;

    if (conn->pinged_us != 0) {
        if (now_us - conn->pinged_us > config->gate.pong_timeout_ms * 1000)
            gate_conn_close(conn, GATE_CLOSE_NO_PONG, "no pong");
        return;
    }
    if (now_us < conn->ping_due_us)
        return;
    conn->pinged_us = now_us;
    conn->ping_due_us = now_us + config->gate.ping_ms * 1000;
    gate_conn_send(conn, PING, sizeof(PING) - 1);
}

static void
check_open(struct gate_conn *conn, int64_t now_us, int64_t wall_us)
{
    const struct config *config = conn->gate->config;
    const char *slow = session_slow(conn->session, now_us);

    if (conn->unwritable_us != 0 && now_us - conn->unwritable_us > config->gate.slow_age_ms * 1000)
        slow = "client does not read";
    if (slow != NULL)
        gate_conn_close(conn, GATE_CLOSE_SLOW, slow);
    else
        check_expiry(conn, wall_us);
    if (conn->state == GATE_CONN_OPEN)
        check_life(conn, now_us);
}

/*
 * Whether the client still reads. A slow client has unread bytes before the bye, and an early close
 * would discard both.
 */
static bool
is_client_reading(struct gate_conn *conn, int64_t now_us, int64_t age_us)
{
    const struct gate *gate = conn->gate;
    int left = 0;

    if (gate->draining || age_us > gate->config->gate.slow_age_ms * 1000 ||
        !conn_io_unacked_bytes(&conn->io, &left))
        return false;
    if (conn->state == GATE_CONN_CLOSED && left == 0)
        return false; /* all bytes were delivered */
    if (left != conn->unacked) {
        conn->unacked = left;
        conn->drained_us = now_us;
    }
    return now_us - conn->drained_us <= BYE_GRACE_US;
}

static void
check_conn(struct gate_conn *conn, int64_t now_us, int64_t wall_us)
{
    int64_t age_us = now_us - conn->state_since_us;

    switch (conn->state) {
    case GATE_CONN_WAITING:
        if (age_us > conn->gate->config->gate.connect_timeout_ms * 1000)
            gate_conn_close(conn, GATE_CLOSE_NO_CONNECT, "timeout waiting for \"connect\"");
        break;
    case GATE_CONN_OPEN:
        check_open(conn, now_us, wall_us);
        break;
    case GATE_CONN_CLOSING: /* the bye is not yet written */
        gate_conn_detach(conn);
        if (age_us > BYE_GRACE_US && !is_client_reading(conn, now_us, age_us))
            gate_conn_kill(conn);
        break;
    case GATE_CONN_CLOSED: /* the client has not closed yet */
        if (age_us > BYE_GRACE_US && !is_client_reading(conn, now_us, age_us))
            gate_conn_kill(conn);
        break;
    }
}

void
gate_ws_sweep(struct gate *gate, int64_t now_us, int64_t wall_us)
{
    struct gate_conn *conn;

    DL_FOREACH (gate->conns->first, conn)
        check_conn(conn, now_us, wall_us);
}
