/* gate_read.c: reads a WebSocket's bytes: libwebsockets would let through what RFC 6455 forbids. */
#include "gate/gate_conn.h"

#include <errno.h>
#include <sys/socket.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

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
    switch (SSL_get_error(ssl, got)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        return -1;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    default:
        errno = EIO;
        return -1;
    }
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

/* Once the end has begun, what still comes is only taken off the socket. */
static void
take_bytes(struct gate_conn *conn, unsigned char *bytes, size_t len)
{
    while (len > 0 && conn->state < GATE_CONN_CLOSING) {
        size_t used = 0;
        struct ws_event event = ws_reader_next(&conn->reader, bytes, len, &used);

        take_event(conn, &event);
        bytes += used;
        len -= used;
    }
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
        take_bytes(conn, gate->received, (size_t)got);
    } while (ssl != NULL && SSL_pending(ssl) > 0);
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
}

void
gate_read_linger(struct gate_conn *conn)
{
    SSL *ssl = lws_get_ssl(conn->wsi);

    if (ssl != NULL) {
        ERR_clear_error();
        (void)SSL_shutdown(ssl);
    }
    /* A close with unread bytes would be a reset, which may take our close frame with it. */
    if (shutdown(conn->readable.fd, SHUT_WR) != 0)
        gate_conn_kill(conn);
}
