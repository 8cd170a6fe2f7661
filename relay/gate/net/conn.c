/* conn.c: the phases of a connection, from accept to close. */
#include "gate/net/conn.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/states.h"
#include "gate/net/gate_shared.h"
#include "gate/net/limits.h"
#include "gate/net/listen.h"

#define LINGER_US (5 * INT64_C(1000000))
#define LINGERING_MAX 256

/* All connections of the process. */
static struct pool pool = {.size = sizeof(struct conn)};

static void
list_remove(struct conn *conn)
{
    struct conns *conns = conn->gate->conns;

    DL_DELETE(conns->in[conn->phase].first, conn);
    conns->in[conn->phase].count--;
}

static void
list_append(struct conn *conn, enum conn_phase phase)
{
    struct conns *conns = conn->gate->conns;

    conn->phase = phase;
    conn->since_us = clock_monotonic_us();
    DL_APPEND(conns->in[phase].first, conn);
    conns->in[phase].count++;
}

/* A connection that waits for its next request counts as a client. */
static void
limit_kept(struct gate *gate)
{
    if (gate_limits_clients(gate) + gate->conns->in[CONN_KEPT].count >
        gate->config->gate.max_connections)
        (void)conns_evict_kept(gate);
}

void
conn_enter(struct conn *conn, enum conn_phase phase, const struct conn_events *events, void *owner)
{
    static const struct states PHASES = {
        .object = "connection",
        .names = {"hello", "queued", "handshake", "head", "request", "kept", "websocket",
                  "lingering", "closing"},
        .before = {[CONN_QUEUED] = 1u << CONN_HELLO,
                   [CONN_HANDSHAKE] = 1u << CONN_QUEUED,
                   [CONN_HEAD] = 1u << CONN_HANDSHAKE | 1u << CONN_REQUEST | 1u << CONN_KEPT,
                   [CONN_REQUEST] = 1u << CONN_HEAD,
                   [CONN_KEPT] = 1u << CONN_REQUEST,
                   [CONN_WEBSOCKET] = 1u << CONN_HEAD,
                   [CONN_LINGERING] = 1u << CONN_REQUEST},
    };
    struct gate *gate = conn->gate;

    if (conn->phase == CONN_CLOSING)
        return;
    conn->events = events;
    conn->owner = owner;
    if (!states_allow(&PHASES, conn->phase, phase, gate->stats)) {
        conn_close(conn);
        return;
    }
    list_remove(conn);
    list_append(conn, phase);
    if (phase == CONN_REQUEST || phase == CONN_WEBSOCKET)
        hello_end(conn);
    else if (phase == CONN_KEPT)
        limit_kept(gate);
    else if (phase == CONN_LINGERING && gate->conns->in[CONN_LINGERING].count > LINGERING_MAX)
        conn_close(gate->conns->in[CONN_LINGERING].first);
}

void
conn_close(struct conn *conn)
{
    struct gate *gate = conn->gate;

    if (conn->phase == CONN_CLOSING)
        return;
    list_remove(conn);
    list_append(conn, CONN_CLOSING);
    hello_end(conn);
    ev_feed_event(gate->loop, &gate->conns->reaper, EV_CUSTOM);
}

void
conn_closed(struct conn *conn)
{
    hello_end(conn);
    if (conn->events != NULL)
        conn->events->on_closed(conn);
    list_remove(conn);
    buffer_free(&conn->in);
    pool_release(&pool, conn);
}

void
conn_close_now(struct conn *conn)
{
    hello_end(conn);
    if (!conn_close_socket(conn))
        conn_closed(conn);
}

static void
on_reap(struct ev_loop *loop, struct ev_io *reaper, int events)
{
    struct gate *gate = reaper->data;

    (void)loop;
    (void)events;
    while (gate->conns->in[CONN_CLOSING].first != NULL)
        conn_close_now(gate->conns->in[CONN_CLOSING].first);
}

void
conn_begin(struct gate *gate, int fd, bool is_admin)
{
    struct conn *conn = pool_alloc(&pool);

    conn->gate = gate;
    conn->fd = fd;
    conn->is_admin = is_admin;
    buffer_init(&conn->in, 2 * GATE_RECEIVED_MAX);
    if (carrier_tls(gate) != NULL) {
        list_append(conn, CONN_HELLO);
        hello_begin(conn);
    } else {
        conn->events = gate->conns->first_events;
        list_append(conn, CONN_HEAD);
        if (!conn_adopt(conn))
            conn_close_now(conn);
    }
}

void
conn_keep_bytes(struct conn *conn, const void *bytes, size_t len)
{
    if (len > 0 && buffer_add(&conn->in, bytes, len) != RC_OK)
        conn_close(conn);
}

bool
conn_is_unix(const struct conn *conn)
{
    const struct config *config = conn->gate->config;

    return gate_listens_on_unix(conn->is_admin ? config->gate.admin_listen : config->gate.listen);
}

void
conns_open(struct gate *gate, const struct conn_events *first_events)
{
    gate->conns = memory_new(sizeof(*gate->conns));
    gate->conns->first_events = first_events;
    hellos_open(gate);
    ev_init(&gate->conns->reaper, on_reap);
    gate->conns->reaper.data = gate;
}

void
conns_close(struct gate *gate)
{
    for (int phase = 0; phase < CONN_PHASES; phase++) {
        while (gate->conns->in[phase].first != NULL)
            conn_close_now(gate->conns->in[phase].first);
    }
    ev_clear_pending(gate->loop, &gate->conns->reaper);
    hellos_close(gate);
    free(gate->conns);
    gate->conns = NULL;
}

static void
close_older(struct gate *gate, enum conn_phase phase, int64_t timeout_us, int64_t now_us)
{
    struct conn *conn;

    while ((conn = gate->conns->in[phase].first) != NULL && now_us - conn->since_us > timeout_us)
        conn_close(conn);
}

void
conns_sweep(struct gate *gate, int64_t now_us)
{
    int64_t connect_us = gate->config->gate.connect_timeout_ms * 1000;

    close_older(gate, CONN_HELLO, connect_us, now_us);
    close_older(gate, CONN_HANDSHAKE, connect_us, now_us);
    close_older(gate, CONN_KEPT, gate->config->gate.keepalive_ms * 1000, now_us);
    close_older(gate, CONN_LINGERING, LINGER_US, now_us);
    hello_resume(gate);
}

bool
conns_evict_oldest(struct gate *gate)
{
    static const enum conn_phase IDLE[] = {CONN_HELLO, CONN_QUEUED, CONN_HANDSHAKE,
                                           CONN_HEAD,  CONN_KEPT,   CONN_LINGERING};
    struct conn *oldest = NULL;

    for (size_t i = 0; i < sizeof(IDLE) / sizeof(IDLE[0]); i++) {
        struct conn *conn = gate->conns->in[IDLE[i]].first;

        if (conn != NULL && (oldest == NULL || conn->since_us < oldest->since_us))
            oldest = conn;
    }
    if (oldest != NULL)
        conn_close_now(oldest);
    return oldest != NULL;
}

bool
conns_evict_kept(struct gate *gate)
{
    struct conn *oldest = gate->conns->in[CONN_KEPT].first;

    if (oldest != NULL)
        conn_close(oldest);
    return oldest != NULL;
}
