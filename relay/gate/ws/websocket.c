/* websocket.c: the lifecycle of WebSockets. */
#include "gate/ws/websocket.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"
#include "gate/http/auth.h"
#include "gate/net/gate_shared.h"
#include "gate/ws/backpressure.h"
#include "gate/ws/message.h"
#include "gate/ws/receive.h"
#include "hub/hub.h"

static struct pool pool = {.size = sizeof(struct websocket)};

void
gate_ws_open(struct gate *gate)
{
    gate->websockets = memory_new(sizeof(*gate->websockets));
    gate_backpressure_open(gate);
}

void
gate_ws_close(struct gate *gate)
{
    gate_backpressure_close(gate);
    free(gate->websockets);
    gate->websockets = NULL;
}

void
gate_ws_evict(void *owner)
{
    struct websocket *ws = owner;

    log_debug("gate", "connection evicted before \"connect\": max_connections reached");
    websocket_kill(ws);
}

static void
on_bytes(struct conn *conn, unsigned char *bytes, size_t len)
{
    gate_receive(conn->owner, bytes, len);
}

static void
on_writable(struct conn *conn)
{
    websocket_writable(conn->owner);
}

static void
on_closed(struct conn *conn)
{
    struct websocket *ws = conn->owner;
    struct gate *gate = ws->gate;

    gate_backpressure_remove(ws);
    websocket_set_state(ws, WEBSOCKET_CLOSED);
    websocket_detach(ws);
    DL_DELETE(gate->websockets->first, ws);
    gate_limits_remove_conn(gate, &ws->waiting);
    gate_message_cancel(ws);
    log_debug("gate", "connection closed", LOG_INT("code", ws->close_code), LOG_CONN(ws));
    buffer_free(&ws->in);
    out_free(&ws->unsent);
    buffer_free(&ws->out);
    buffer_free(&ws->control);
    free(ws->close_reason);
    free(ws->auth.bearer);
    free(ws->auth.ticket);
    free(ws->user);
    pool_release(&pool, ws);
}

static const struct conn_events EVENTS = {
    .on_bytes = on_bytes, .on_writable = on_writable, .on_closed = on_closed};

void
gate_ws_begin(struct conn *conn)
{
    struct gate *gate = conn->gate;
    struct websocket *ws = pool_alloc(&pool);
    char peer[64] = "";

    ws->gate = gate;
    ws->conn = conn;
    ws->auth.bearer = gate_request_bearer(conn->head);
    ws->auth.ticket = gate_request_ticket(conn->head);
    ws->waiting.owner = ws;
    buffer_init(&ws->in, (size_t)gate->config->gate.max_frame_bytes);
    ws->unsent.waiting_bytes = hub_waiting_bytes(gate->hub);
    buffer_init(&ws->out, WEBSOCKET_OUT_MAX);
    buffer_init(&ws->control, WEBSOCKET_CONTROL_MAX);
    ws->state_since_us = clock_monotonic_us();
    DL_APPEND(gate->websockets->first, ws);
    conn_enter(conn, CONN_WEBSOCKET, &EVENTS, ws);
    conn_resume(conn);
    gate_limits_add_conn(conn, &ws->waiting);
    stats_add(gate->stats, STAT_GATE_ACCEPTED, 1);
    (void)conn_address(conn, peer, sizeof(peer));
    log_debug("gate", "connection opened", LOG_TEXT("peer", peer));
}
