/* read.c: reads a WebSocket's bytes: libwebsockets would let through what RFC 6455 forbids. */
#include "gate/gate_conn.h"

#include <errno.h>
#include <sys/socket.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/clock.h"

#define SECOND_US INT64_C(1000000)
#define UNITS_A_LINE 4   /* frames, or half kilobytes: so many for each line that may come */
#define UNITS_LEAST 1000 /* a second, whatever message_rate is */
#define UNIT_BYTES 512
#define FLOOD_MAX_US (5 * SECOND_US)
#define UNHOLD_S 0.02
#define CONTROL_PENDING_MAX (8 * 1024) /* pongs that the socket has not taken yet */

/* As read(2) with EAGAIN for all that only takes time. */
static ssize_t
read_tls(SSL *ssl, unsigned char *bytes, size_t len)
{
    int got;

    ERR_clear_error();
    got = SSL_read(ssl, bytes, (int)len);
    if (got > 0)
        return got;
    if (SSL_get_error(ssl, got) == SSL_ERROR_ZERO_RETURN)
        return 0;
    errno = gate_tls_errno(ssl, got);
    return -1;
}

ssize_t
gate_read_some(struct lws *wsi, unsigned char *bytes, size_t len)
{
    SSL *ssl = lws_get_ssl(wsi);

    if (ssl != NULL)
        return read_tls(ssl, bytes, len);
    return recv(lws_get_socket_fd(wsi), bytes, len, 0);
}

static void
break_with(struct gate_conn *conn, int code, const char *why)
{
    stats_add(conn->gate->stats, STAT_GATE_PROTOCOL_ERRORS, 1);
    gate_conn_close(conn, code, why);
}

static void
take_close(struct gate_conn *conn, const struct ws_event *event)
{
    const char *why;
    int code = ws_close_answer(event->at, event->len, &why);

    if (why != NULL)
        break_with(conn, code, why);
    else
        gate_conn_answer_close(conn, code);
}

static void
take_ping(struct gate_conn *conn, const struct ws_event *event)
{
    if (conn->control.len + event->len > CONTROL_PENDING_MAX)
        return; /* who pings without reading is answered less */
    gate_conn_control(conn, WS_PONG, event->at, event->len);
}

static void
take_event(struct gate_conn *conn, const struct ws_event *event)
{
    switch (event->kind) {
    case WS_DATA:
        gate_ws_received(conn, event);
        break;
    case WS_PING:
        take_ping(conn, event);
        break;
    case WS_CLOSE:
        take_close(conn, event);
        break;
    case WS_BROKEN:
        break_with(conn, GATE_CLOSE_BROKEN, event->why);
        break;
    case WS_PONG: /* any frame is a sign of life */
    case WS_NOTHING:
        break;
    }
}

/* Once the end has begun, what still comes is only taken off the socket. How many events it was. */
static int64_t
take_bytes(struct gate_conn *conn, unsigned char *bytes, size_t len)
{
    int64_t count = 0;

    for (; len > 0 && conn->state < GATE_CONN_CLOSING; count++) {
        size_t used = 0;
        struct ws_event event = ws_reader_next(&conn->reader, bytes, len, &used);

        take_event(conn, &event);
        bytes += used;
        len -= used;
    }
    return count;
}

/* Its client may be gone for long, with megabytes in the kernel that it had said before. */
static void
check_flood(struct gate_conn *conn, int64_t now_us)
{
    if (now_us - conn->held_us > SECOND_US)
        conn->flood_since_us = now_us;
    conn->held_us = now_us;
    if (now_us - conn->flood_since_us > FLOOD_MAX_US)
        gate_conn_close(conn, GATE_CLOSE_OVERLOADED, "frames come without end");
}

static void
hold(struct gate_conn *conn)
{
    struct gate *gate = conn->gate;

    ev_io_stop(gate->loop, &conn->readable);
    conn->is_held = true;
    conn->next_held = gate->held;
    gate->held = conn;
    if (!ev_is_active(&gate->unhold))
        ev_timer_again(gate->loop, &gate->unhold);
}

/* No line, but a ping, an empty fragment or a long one: TCP lets its client wait. */
static void
charge(struct gate_conn *conn, int64_t events, size_t bytes)
{
    int64_t rate = conn->gate->config->gate.message_rate * UNITS_A_LINE;
    int64_t now_us = clock_monotonic_us();

    if (rate == 0 || conn->is_killed)
        return;
    if (rate < UNITS_LEAST)
        rate = UNITS_LEAST;
    if (conn->paid_until_us < now_us)
        conn->paid_until_us = now_us;
    conn->paid_until_us += (events + (int64_t)(bytes / UNIT_BYTES)) * SECOND_US / rate;
    if (conn->paid_until_us <= now_us + SECOND_US)
        return;
    check_flood(conn, now_us);
    if (!conn->is_killed)
        hold(conn);
}

static void
unhold(struct gate_conn *conn)
{
    struct gate *gate = conn->gate;
    struct gate_conn **at = &gate->held;

    if (!conn->is_held)
        return;
    while (*at != conn)
        at = &(*at)->next_held;
    *at = conn->next_held;
    conn->is_held = false;
}

static void
on_unhold(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct gate *gate = timer->data;
    int64_t now_us = clock_monotonic_us();

    (void)events;
    for (struct gate_conn *conn = gate->held, *next; conn != NULL; conn = next) {
        next = conn->next_held;
        if (conn->paid_until_us > now_us + SECOND_US)
            continue;
        unhold(conn);
        ev_io_start(loop, &conn->readable);
        if (conn->is_tls) /* poll does not see what OpenSSL has read already */
            ev_feed_event(loop, &conn->readable, EV_READ);
    }
    if (gate->held == NULL)
        ev_timer_stop(loop, timer);
}

void
gate_read_init(struct gate *gate)
{
    ev_init(&gate->unhold, on_unhold);
    gate->unhold.repeat = UNHOLD_S;
    gate->unhold.data = gate;
}

void
gate_read_end(struct gate *gate)
{
    ev_timer_stop(gate->loop, &gate->unhold);
}

/* One piece a turn, so that nobody holds up the others; TLS may hold more than poll can see. */
static void
on_readable(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct gate_conn *conn = io->data;
    struct gate *gate = conn->gate;
    SSL *ssl = lws_get_ssl(conn->wsi);
    ssize_t got;

    (void)loop;
    (void)events;
    do {
        got = gate_read_some(conn->wsi, gate->received, sizeof(gate->received));
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0) {
            gate_conn_kill(conn);
            return;
        }
        conn->pinged_us = 0;
        charge(conn, take_bytes(conn, gate->received, (size_t)got), (size_t)got);
    } while (ssl != NULL && SSL_pending(ssl) > 0 && !conn->is_held);
}

void
gate_read_start(struct gate_conn *conn)
{
    lws_rx_flow_control(conn->wsi, 0); /* for good: from here on its bytes are ours */
    ev_io_init(&conn->readable, on_readable, lws_get_socket_fd(conn->wsi), EV_READ);
    conn->readable.data = conn;
    ev_io_start(conn->gate->loop, &conn->readable);
}

void
gate_read_stop(struct gate_conn *conn)
{
    ev_io_stop(conn->gate->loop, &conn->readable);
    unhold(conn);
}

void
gate_read_linger(struct gate_conn *conn)
{
    if (!gate_say_no_more(conn->wsi))
        gate_conn_kill(conn);
}
