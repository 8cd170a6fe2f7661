/* websocket.c: the lifecycle of WebSockets. */
#include "gate/ws/websocket.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"
#include "gate/http/credentials.h"
#include "gate/net/gate_shared.h"
#include "gate/ws/backpressure.h"
#include "gate/ws/message.h"
#include "gate/ws/receive.h"
#include "hub/hub.h"

static struct pool conns = {.size = sizeof(struct gate_conn)};

void
gate_ws_open(struct gate *gate)
{
    gate->conns = memory_new(sizeof(*gate->conns));
    gate_backpressure_open(gate);
}

void
gate_ws_close(struct gate *gate)
{
    gate_backpressure_close(gate);
    while (gate->conns->first != NULL)
        gate_ws_closed(gate->conns->first);
    free(gate->conns);
    gate->conns = NULL;
}

void
gate_ws_evict(void *owner)
{
    struct gate_conn *conn = owner;

    log_debug("gate", "connection evicted before \"connect\": max_connections reached");
    gate_conn_kill(conn);
}

int
gate_ws_connected(struct gate *gate, struct lws *wsi, void **ret_owner)
{
    struct gate_conn *conn = pool_alloc(&conns);
    char peer[64] = "";

    conn->gate = gate;
    conn->io = conn_io_of(wsi);
    conn->auth.bearer = gate_request_bearer(wsi);
    conn->auth.ticket = gate_request_ticket(wsi);
    conn->waiting.owner = conn;
    buffer_init(&conn->in, (size_t)gate->config->gate.max_frame_bytes);
    conn->unsent.waiting_bytes = hub_waiting_bytes(gate->hub);
    buffer_init(&conn->out, GATE_CONN_OUT_MAX);
    buffer_init(&conn->control, GATE_CONN_CONTROL_MAX);
    conn->state_since_us = clock_monotonic_us();
    DL_APPEND(gate->conns->first, conn);
    gate_limits_add_conn(gate, &conn->waiting, wsi);
    stats_add(gate->stats, STAT_GATE_ACCEPTED, 1);
    (void)conn_io_address(&conn->io, peer, sizeof(peer));
    log_debug("gate", "connection opened", LOG_TEXT("peer", peer));
    *ret_owner = conn;
    gate_receive_start(conn);
    return 0;
}

void
gate_ws_closed(void *owner)
{
    struct gate_conn *conn = owner;
    struct gate *gate = conn->gate;

    gate_stop_reading(conn);
    gate_conn_set_state(conn, GATE_CONN_CLOSED);
    gate_conn_detach(conn);
    DL_DELETE(gate->conns->first, conn);
    gate_limits_remove_conn(gate, &conn->waiting);
    gate_message_cancel(conn);
    log_debug("gate", "connection closed", LOG_INT("code", conn->close_code), LOG_CONN(conn));
    buffer_free(&conn->in);
    out_free(&conn->unsent);
    buffer_free(&conn->out);
    buffer_free(&conn->control);
    free(conn->close_reason);
    free(conn->auth.bearer);
    free(conn->auth.ticket);
    free(conn->user);
    pool_release(&conns, conn);
}
