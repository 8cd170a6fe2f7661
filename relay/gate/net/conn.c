/*
 * conn.c: the phases of a connection, from accept to close.
 *
 * A TLS handshake costs a signature and 50 kB in OpenSSL. So a client must first send a complete
 * ClientHello, which is only peeked at, and few clients may be between their ClientHello and their
 * first request. Each address has its turn.
 */
#include "gate/net/conn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <uthash.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/addresses.h"
#include "base/states.h"
#include "gate/net/gate_shared.h"
#include "gate/net/listen.h"

#define LINGER_US (5 * INT64_C(1000000))
#define LINGERING_MAX 256

#define TLS_HANDSHAKE 0x16
#define TLS_RECORD_HEAD 5
#define TLS_HELLO_MAX 4096 /* bytes; enough for any ClientHello */
#define PEEK_RETRY_S 0.01
#define HELLOS_PER_TURN 16
#define HANDSHAKES_MAX 1024 /* maximum connections between ClientHello and request */
#define CANDIDATES 64
/* Minimum age for eviction, so that the connections of a burst do not evict each other. */
#define EVICTION_AGE_US (3 * INT64_C(1000000))

/* All connections of the process. */
static struct pool pool = {.size = sizeof(struct conn)};

/* The clients of one address that wait for a handshake, or are between ClientHello and request. */
struct hello_source {
    UT_hash_handle hh;
    struct hello_source *prev; /* link of hellos->waiting, while the queue is not empty */
    struct hello_source *next;
    struct hello *queue; /* clients in QUEUED, oldest first */
    int handshakes;      /* clients after QUEUED */
    char address[NETWORKS_ADDRESS_MAX];
};

/* Allocated in HELLO and QUEUED. */
struct hello {
    struct conn *conn;
    struct hello *prev; /* link of the queue of conn->http->source, in QUEUED */
    struct hello *next;
    struct ev_io readable;
    struct ev_timer again; /* retries a peek when poll(2) cannot report new bytes */
    size_t len;            /* bytes peeked at */
};

struct hellos {
    struct hello_source *sources; /* by address */
    struct hello_source *waiting; /* the first has the next turn */
    struct ev_timer turn;         /* runs in the next loop iteration */
};

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

/* Handshakes start in the next loop iteration: none may start in a callback of another. */
static void
hello_resume(struct gate *gate)
{
    struct hellos *hellos = gate->conns->hellos;

    if (hellos->waiting != NULL && !ev_is_active(&hellos->turn)) {
        ev_timer_set(&hellos->turn, 0., 0.);
        ev_timer_start(gate->loop, &hellos->turn);
    }
}

/* The client leaves HELLO or QUEUED. */
static void
hello_free(struct conn *conn)
{
    struct hello *hello = conn->http->hello;

    if (conn->http->source != NULL) {
        DL_DELETE(conn->http->source->queue, hello);
        if (conn->http->source->queue == NULL)
            DL_DELETE(conn->gate->conns->hellos->waiting, conn->http->source);
    }
    ev_io_stop(conn->gate->loop, &hello->readable);
    ev_timer_stop(conn->gate->loop, &hello->again);
    free(hello);
    conn->http->hello = NULL;
}

static void
hello_end(struct conn *conn)
{
    struct hello_source *source;

    if (conn->http == NULL)
        return;
    source = conn->http->source;
    if (conn->http->hello != NULL)
        hello_free(conn);
    else if (source != NULL)
        source->handshakes--;
    conn->http->source = NULL;
    if (source == NULL)
        return;
    if (source->queue == NULL && source->handshakes == 0) {
        HASH_DEL(conn->gate->conns->hellos->sources, source);
        free(source);
    }
    hello_resume(conn->gate);
}

static void
write_end(struct conn *conn)
{
    if (conn->is_writing)
        DL_DELETE2(conn->gate->conns->writes, conn, http->write_prev, http->write_next);
    conn->is_writing = false;
}

/* HTTP ends. Accepts a connection without it. */
static void
http_end(struct conn *conn)
{
    if (conn->http == NULL)
        return;
    hello_end(conn);
    write_end(conn);
    buffer_free(&conn->http->in);
    free(conn->http->partial);
    free(conn->http);
    conn->http = NULL;
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
    if (phase == CONN_WEBSOCKET)
        http_end(conn);
    else if (phase == CONN_REQUEST)
        hello_end(conn);
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

/* A client that pipelines many requests must not occupy the loop with their responses. */
void
conn_write_soon(struct conn *conn)
{
    struct conns *conns = conn->gate->conns;

    if (conns->is_writing) {
        conn_want_writable(conn);
    } else if (!conn->is_writing) {
        conn->is_writing = true;
        DL_APPEND2(conns->writes, conn, http->write_prev, http->write_next);
        ev_feed_event(conn->gate->loop, &conns->writer, EV_CUSTOM);
    }
}

static void
on_write(struct ev_loop *loop, struct ev_io *writer, int events)
{
    struct conns *conns = ((struct gate *)writer->data)->conns;
    struct conn *conn;

    (void)loop;
    (void)events;
    conns->is_writing = true;
    while ((conn = conns->writes) != NULL) {
        write_end(conn);
        if (conn->phase != CONN_CLOSING)
            conn->events->on_writable(conn);
    }
    conns->is_writing = false;
}

static void
conn_closed(struct conn *conn)
{
    if (conn->events != NULL)
        conn->events->on_closed(conn);
    http_end(conn);
    list_remove(conn);
    pool_release(&pool, conn);
}

/* Closes and frees it. Not from a callback of this connection. */
static void
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

static bool
set_low_water(const struct conn *conn, size_t len)
{
    int mark = (int)len;

    return setsockopt(conn->fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof(mark)) == 0;
}

static void
join_source(struct conn *conn)
{
    struct hellos *hellos = conn->gate->conns->hellos;
    struct hello_source *source = NULL;
    char address[NETWORKS_ADDRESS_MAX];

    if (!conn_address(conn, address, sizeof(address)))
        snprintf(address, sizeof(address), "%s", NETWORKS_UNIX);
    networks_aggregate(address);
    HASH_FIND_STR(hellos->sources, address, source);
    if (source == NULL) {
        source = memory_new(sizeof(*source));
        snprintf(source->address, sizeof(source->address), "%s", address);
        HASH_ADD_STR(hellos->sources, address, source);
    }
    if (source->queue == NULL)
        DL_APPEND(hellos->waiting, source);
    DL_APPEND(source->queue, conn->http->hello);
    conn->http->source = source;
}

/*
 * Returns a client without a request that may be closed for a client of `source`: the oldest, if it
 * had enough time; otherwise one of the address with the most such clients, so that no address can
 * use all handshakes. NULL: none.
 */
static struct conn *
find_victim(struct gate *gate, const struct hello_source *source)
{
    static const enum conn_phase PHASES[] = {CONN_HANDSHAKE, CONN_HEAD};
    struct conn *oldest = NULL, *victim = NULL;

    for (size_t i = 0; i < sizeof(PHASES) / sizeof(PHASES[0]); i++) {
        struct conn *conn = gate->conns->in[PHASES[i]].first;

        if (conn != NULL && (oldest == NULL || conn->since_us < oldest->since_us))
            oldest = conn;
        for (int left = CANDIDATES; conn != NULL && left > 0; conn = conn->next, left--) {
            if (conn->http->source != NULL &&
                (victim == NULL ||
                 conn->http->source->handshakes > victim->http->source->handshakes))
                victim = conn;
        }
    }
    if (oldest != NULL && clock_monotonic_us() - oldest->since_us > EVICTION_AGE_US)
        return oldest;
    return victim != NULL && victim->http->source->handshakes > source->handshakes + 1 ? victim
                                                                                       : NULL;
}

/* False: the handshake must wait until another ends. */
static bool
make_room(struct gate *gate, const struct hello_source *source)
{
    struct conn *victim;

    if (gate->conns->in[CONN_HANDSHAKE].count + gate->conns->in[CONN_HEAD].count < HANDSHAKES_MAX)
        return true;
    victim = find_victim(gate, source);
    if (victim == NULL)
        return false;
    log_debug("gate", "closing a TLS connection without a request",
              LOG_INT("count", HANDSHAKES_MAX));
    conn_close(victim);
    return true;
}

static void
start_handshake(struct conn *conn)
{
    hello_free(conn);
    conn->http->source->handshakes++;
    conn_enter(conn, CONN_HANDSHAKE, conn->gate->conns->first_events, NULL);
    if (!conn_adopt(conn))
        conn_close_now(conn);
}

/* Each address has one turn. Their number is limited, because each handshake costs a signature. */
static void
on_turn(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct gate *gate = timer->data;
    struct hellos *hellos = gate->conns->hellos;

    (void)loop;
    (void)events;
    for (int left = HELLOS_PER_TURN; left > 0 && hellos->waiting != NULL; left--) {
        struct hello_source *source = hellos->waiting;
        struct conn *conn = source->queue->conn;

        if (conn_is_half_closed(conn)) { /* the client has disconnected: no signature is needed */
            conn_close(conn);
            continue;
        }
        if (!make_room(gate, source))
            return;
        DL_DELETE(hellos->waiting, source);
        DL_APPEND(hellos->waiting, source);
        start_handshake(conn);
    }
    hello_resume(gate);
}

static void
queue(struct conn *conn)
{
    (void)set_low_water(conn, 1);
    ev_io_stop(conn->gate->loop, &conn->http->hello->readable);
    ev_timer_stop(conn->gate->loop, &conn->http->hello->again);
    join_source(conn);
    conn_enter(conn, CONN_QUEUED, NULL, NULL);
    hello_resume(conn->gate);
}

/*
 * Waits with a low-water mark: poll(2) then reports the socket only when it has more bytes. A timer
 * replaces the mark where it has no effect: on a Unix socket, and under memory pressure.
 */
static void
wait_for_more(struct conn *conn, size_t len)
{
    struct hello *hello = conn->http->hello;
    bool is_longer = len > hello->len;

    hello->len = len;
    /* After a half-close, no more bytes will arrive. */
    if (conn_is_half_closed(conn)) {
        if (is_longer)
            ev_feed_event(conn->gate->loop, &hello->readable, EV_READ);
        else
            conn_close(conn);
        return;
    }
    if (is_longer && !conn_is_unix(conn) && set_low_water(conn, len + 1))
        return;
    ev_io_stop(conn->gate->loop, &hello->readable);
    ev_timer_again(conn->gate->loop, &hello->again);
}

/* RC_OK: the first TLS record has arrived, or TLS_HELLO_MAX bytes of it. */
static enum rc
check_hello(const unsigned char *bytes, size_t len)
{
    size_t whole;

    if (bytes[0] != TLS_HANDSHAKE)
        return RC_BAD;
    if (len < TLS_RECORD_HEAD)
        return RC_AGAIN;
    whole = TLS_RECORD_HEAD + ((size_t)bytes[3] << 8 | bytes[4]);
    return len < whole && len < TLS_HELLO_MAX ? RC_AGAIN : RC_OK;
}

/* Only in HELLO: hello_free and queue stop both watchers. */
static void
peek(struct conn *conn)
{
    struct gate *gate = conn->gate;
    unsigned char bytes[TLS_HELLO_MAX];
    ssize_t got = recv(conn->fd, bytes, sizeof(bytes), MSG_PEEK);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        conn_close(conn);
        return;
    }
    switch (check_hello(bytes, (size_t)got)) {
    case RC_OK:
        queue(conn);
        break;
    case RC_AGAIN:
        wait_for_more(conn, (size_t)got);
        break;
    default:
        log_debug("gate", "connection closed: not a TLS handshake");
        stats_add(gate->stats, STAT_GATE_PROTOCOL_ERRORS, 1);
        conn_close(conn);
        break;
    }
}

static void
on_readable(struct ev_loop *loop, struct ev_io *io, int events)
{
    (void)loop;
    (void)events;
    peek(io->data);
}

static void
on_retry(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    peek(timer->data);
}

static void
hello_begin(struct conn *conn)
{
    struct hello *hello = memory_new(sizeof(*hello));

    conn->http->hello = hello;
    hello->conn = conn;
    ev_io_init(&hello->readable, on_readable, conn->fd, EV_READ);
    ev_init(&hello->again, on_retry);
    hello->again.repeat = PEEK_RETRY_S;
    hello->readable.data = hello->again.data = conn;
    ev_io_start(conn->gate->loop, &hello->readable);
}

void
conn_begin(struct gate *gate, int fd, bool is_admin)
{
    struct conn *conn = pool_alloc(&pool);

    conn->gate = gate;
    conn->http = memory_new(sizeof(*conn->http));
    conn->fd = fd;
    conn->is_admin = is_admin;
    buffer_init(&conn->http->in, 2 * GATE_RECEIVED_MAX);
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
    if (len > 0 && buffer_add(&conn->http->in, bytes, len) != RC_OK)
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
    gate->conns->on_socket_closed = conn_closed;
    gate->conns->hellos = memory_new(sizeof(*gate->conns->hellos));
    ev_init(&gate->conns->hellos->turn, on_turn);
    gate->conns->hellos->turn.data = gate;
    ev_init(&gate->conns->reaper, on_reap);
    ev_init(&gate->conns->writer, on_write);
    gate->conns->reaper.data = gate->conns->writer.data = gate;
}

void
conns_close(struct gate *gate)
{
    for (int phase = 0; phase < CONN_PHASES; phase++) {
        while (gate->conns->in[phase].first != NULL)
            conn_close_now(gate->conns->in[phase].first);
    }
    ev_clear_pending(gate->loop, &gate->conns->reaper);
    ev_clear_pending(gate->loop, &gate->conns->writer);
    ev_timer_stop(gate->loop, &gate->conns->hellos->turn);
    free(gate->conns->hellos);
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
