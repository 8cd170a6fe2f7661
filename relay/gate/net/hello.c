/*
 * hello.c: TLS connections before libwebsockets owns them: waits for a complete ClientHello, then
 * for a turn.
 *
 * A handshake costs a signature and 50 kB in OpenSSL. So a client must first send a complete
 * ClientHello, which is only peeked at, and few clients may be between their ClientHello and their
 * first request.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gate/net/conn.h"
#include "gate/net/gate_shared.h"

#define TLS_HANDSHAKE 0x16
#define TLS_RECORD_HEAD 5
#define TLS_HELLO_MAX 4096 /* bytes; enough for any ClientHello */
#define PEEK_RETRY_S 0.01
#define HELLOS_PER_TURN 16
#define HANDSHAKES_MAX 1024 /* maximum connections between ClientHello and first request */
/* Minimum age for eviction, so that the connections of a burst do not evict each other. */
#define EVICTION_AGE_US (3 * INT64_C(1000000))

struct hello {
    struct ev_io readable;
    struct ev_timer again; /* retries a peek when poll(2) cannot report new bytes */
    size_t len;            /* bytes peeked at */
};

static bool
set_low_water(const struct conn *conn, size_t len)
{
    int mark = (int)len;

    return setsockopt(conn->fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof(mark)) == 0;
}

static struct conn *
oldest_handshake(const struct gate *gate)
{
    struct conn *first = gate->conns->in[CONN_HANDSHAKE].first;
    struct conn *head = gate->conns->in[CONN_HEAD].first;

    return first == NULL || (head != NULL && head->since_us < first->since_us) ? head : first;
}

static bool
has_room(const struct gate *gate)
{
    return gate->conns->in[CONN_HANDSHAKE].count + gate->conns->in[CONN_HEAD].count <
               HANDSHAKES_MAX ||
           clock_monotonic_us() - oldest_handshake(gate)->since_us > EVICTION_AGE_US;
}

/* In the next loop iteration. Their number is limited, because each handshake costs a signature. */
void
hello_resume(struct gate *gate)
{
    struct conn *conn = gate->conns->in[CONN_QUEUED].first;

    if (conn == NULL || !has_room(gate))
        return;
    for (int left = HELLOS_PER_TURN; conn != NULL && left > 0; conn = conn->next, left--)
        ev_io_start(gate->loop, &conn->hello->readable);
}

void
hello_free(struct conn *conn)
{
    if (conn->hello == NULL)
        return;
    ev_io_stop(conn->gate->loop, &conn->hello->readable);
    ev_timer_stop(conn->gate->loop, &conn->hello->again);
    free(conn->hello);
    conn->hello = NULL;
}

static void
start_handshake(struct conn *conn)
{
    struct gate *gate = conn->gate;

    if (gate->conns->in[CONN_HANDSHAKE].count + gate->conns->in[CONN_HEAD].count >=
        HANDSHAKES_MAX) {
        log_debug("gate", "closing the oldest TLS connection without a request",
                  LOG_INT("count", HANDSHAKES_MAX));
        conn_close(oldest_handshake(gate));
    }
    hello_free(conn);
    conn_enter(conn, CONN_HANDSHAKE, gate->conns->first_events, NULL);
    if (!conn_adopt(conn))
        conn_close_now(conn);
}

static void
on_queued(struct conn *conn)
{
    if (conn_is_half_closed(conn))
        conn_close(conn); /* the client has disconnected: no signature is needed */
    else if (has_room(conn->gate))
        start_handshake(conn);
    else
        ev_io_stop(conn->gate->loop, &conn->hello->readable);
}

static void
queue(struct conn *conn)
{
    (void)set_low_water(conn, 1);
    ev_io_stop(conn->gate->loop, &conn->hello->readable);
    ev_timer_stop(conn->gate->loop, &conn->hello->again);
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
    struct hello *hello = conn->hello;
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
    struct conn *conn = io->data;

    (void)loop;
    (void)events;
    if (conn->phase == CONN_HELLO)
        peek(conn);
    else if (conn->phase == CONN_QUEUED)
        on_queued(conn);
}

static void
on_retry(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct conn *conn = timer->data;

    (void)loop;
    (void)events;
    if (conn->phase == CONN_HELLO)
        peek(conn);
}

void
hello_begin(struct conn *conn)
{
    struct hello *hello = memory_new(sizeof(*hello));

    conn->hello = hello;
    ev_io_init(&hello->readable, on_readable, conn->fd, EV_READ);
    ev_init(&hello->again, on_retry);
    hello->again.repeat = PEEK_RETRY_S;
    hello->readable.data = hello->again.data = conn;
    ev_io_start(conn->gate->loop, &hello->readable);
}
