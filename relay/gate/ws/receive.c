/*
 * receive.c: reads a WebSocket's frames and reassembles its messages, bypassing lws
 * (lws_workarounds.h).
 */
#include "gate/ws/receive.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "gate/net/gate_shared.h"
#include "gate/net/lws_workarounds.h"
#include "gate/ws/backpressure.h"
#include "gate/ws/message.h"

#define SECOND_US INT64_C(1000000)
/* budget units per allowed message; a unit is one frame or 512 bytes */
#define COST_UNITS_PER_MESSAGE 4
#define COST_UNITS_MIN 1000 /* minimum units per second, for any message_rate */
#define COST_UNIT_BYTES 512
#define FLOOD_MAX_US (5 * SECOND_US)
#define CONTROL_PENDING_MAX (8 * 1024) /* maximum bytes of unsent pongs */
/*
 * Size limit of the frame with "connect": a token, topics and a cursor, including escapes. It
 * limits the memory that an unauthenticated client can occupy.
 */
#define GATE_FIRST_FRAME_MAX (20 * 1024)

static void
protocol_error(struct gate_conn *conn, int code, const char *why)
{
    stats_add(conn->gate->stats, STAT_GATE_PROTOCOL_ERRORS, 1);
    gate_conn_close(conn, code, why);
}

static void
reject_text(struct gate_conn *conn)
{
    protocol_error(conn, GATE_CLOSE_UTF8, "text frame is not valid UTF-8");
}

/* Rejects an invalid message early, without reading all of it. */
static void
check_begin(struct gate_conn *conn)
{
    size_t len = 0;

    if (conn->in.len == 0)
        return;
    if (utf8_is_prefix(conn->in.bytes + conn->in_valid, conn->in.len - conn->in_valid, &len))
        conn->in_valid += len;
    else
        reject_text(conn);
}

static void
handle_text(struct gate_conn *conn, const char *text, size_t len)
{
    const char *end = text + len;
    size_t valid_len = 0;

    if (!utf8_is_prefix(text, len, &valid_len) || valid_len < len) {
        reject_text(conn);
        return;
    }
    if (len == 0) {
        gate_message_handle(conn, text, len);
        return;
    }
    while (text < end && conn->state < GATE_CONN_CLOSING) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t line_len = (size_t)((stop != NULL ? stop : end) - text);

        if (line_len > 0)
            gate_message_handle(conn, text, line_len);
        text += line_len + 1;
    }
}

/* Returns a close code and its reason; 0: valid so far. */
static int
check_piece(const struct gate_conn *conn, const struct ws_event *event, const char **ret_why)
{
    size_t max = (size_t)conn->gate->config->gate.max_frame_bytes;
    size_t room;

    if (conn->state == GATE_CONN_WAITING && max > GATE_FIRST_FRAME_MAX)
        max = GATE_FIRST_FRAME_MAX;
    room = max - conn->in.len;

    if (event->is_binary) {
        *ret_why = "binary frames not supported";
        return GATE_CLOSE_BINARY;
    }
    /* rejects an excessive length without reading the frame */
    if (event->len > room || event->left > room - event->len) {
        *ret_why = conn->state == GATE_CONN_WAITING
                       ? "frame before \"connect\" exceeds 20 kB or max_frame_bytes"
                       : "frame exceeds max_frame_bytes";
        return GATE_CLOSE_TOO_LONG;
    }
    return 0;
}

/* Buffers a fragment. Handles the message after its last fragment. */
static void
handle_data(struct gate_conn *conn, const struct ws_event *event)
{
    const char *bytes = event->len > 0 ? (const char *)event->at : "";
    const char *why = NULL;
    int code = check_piece(conn, event, &why);

    if (code != 0) {
        protocol_error(conn, code, why);
    } else if (event->is_last && conn->in.len == 0) {
        handle_text(conn, bytes, event->len);
    } else if (buffer_add(&conn->in, bytes, event->len) != RC_OK) {
        gate_conn_kill(conn);
    } else if (!event->is_last) {
        check_begin(conn);
    } else {
        struct buffer whole = conn->in;

        buffer_init(&conn->in, (size_t)conn->gate->config->gate.max_frame_bytes);
        conn->in_valid = 0;
        handle_text(conn, whole.bytes, whole.len);
        buffer_free(&whole);
    }
}

static void
handle_close(struct gate_conn *conn, const struct ws_event *event)
{
    const char *why;
    int code = ws_close_reply_code(event->at, event->len, &why);

    if (why != NULL)
        protocol_error(conn, code, why);
    else
        gate_conn_reply_close(conn, code);
}

static void
handle_ping(struct gate_conn *conn, const struct ws_event *event)
{
    if (conn->control.len + event->len > CONTROL_PENDING_MAX)
        return; /* a client that pings without reading receives fewer pongs */
    gate_conn_control(conn, WS_PONG, event->at, event->len);
}

static void
handle_event(struct gate_conn *conn, const struct ws_event *event)
{
    switch (event->kind) {
    case WS_DATA:
        handle_data(conn, event);
        break;
    case WS_PING:
        handle_ping(conn, event);
        break;
    case WS_CLOSE:
        handle_close(conn, event);
        break;
    case WS_BROKEN:
        protocol_error(conn, GATE_CLOSE_BROKEN, event->why);
        break;
    case WS_PONG: /* any frame proves that the client is alive */
    case WS_NOTHING:
        break;
    }
}

/* After the start of the close, input is discarded. Returns the number of events. */
static int64_t
handle_bytes(struct gate_conn *conn, unsigned char *bytes, size_t len)
{
    int64_t count = 0;

    for (; len > 0 && conn->state < GATE_CONN_CLOSING; count++) {
        size_t used = 0;
        struct ws_event event = ws_reader_next(&conn->reader, bytes, len, &used);

        handle_event(conn, &event);
        bytes += used;
        len -= used;
    }
    return count;
}

/*
 * Closes a client that exceeds its rate for FLOOD_MAX_US. It may even have disconnected, with
 * megabytes left in the kernel's buffer.
 */
static void
check_flood(struct gate_conn *conn, int64_t now_us)
{
    if (now_us - conn->inbound.paused_us > SECOND_US)
        conn->inbound.flood_since_us = now_us;
    conn->inbound.paused_us = now_us;
    if (now_us - conn->inbound.flood_since_us > FLOOD_MAX_US)
        gate_conn_close(conn, GATE_CLOSE_OVERLOADED, "inbound rate exceeded");
}

/* Also charges frames and bytes that are not messages: pings, empty fragments, long frames. */
static void
charge(struct gate_conn *conn, int64_t events, size_t bytes)
{
    int64_t rate = conn->gate->config->gate.message_rate * COST_UNITS_PER_MESSAGE;
    int64_t now_us = clock_monotonic_us();

    if (rate == 0 || conn->is_killed)
        return;
    if (rate < COST_UNITS_MIN)
        rate = COST_UNITS_MIN;
    if (conn->inbound.budget_until_us < now_us)
        conn->inbound.budget_until_us = now_us;
    conn->inbound.budget_until_us +=
        (events + (int64_t)(bytes / COST_UNIT_BYTES)) * SECOND_US / rate;
    if (conn->inbound.budget_until_us <= now_us + GATE_BURST_US)
        return;
    check_flood(conn, now_us);
    if (!conn->is_killed)
        gate_pause_reading(conn);
}

/* One read per iteration, for fairness. TLS may buffer more bytes than poll(2) reports. */
static void
on_readable(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct gate_conn *conn = io->data;
    struct gate *gate = conn->gate;
    ssize_t got;

    (void)loop;
    (void)events;
    do {
        got = conn_io_read(&conn->io, gate->received, sizeof(gate->received));
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0) {
            gate_conn_kill(conn);
            return;
        }
        conn->pinged_us = 0;
        charge(conn, handle_bytes(conn, gate->received, (size_t)got), (size_t)got);
    } while (conn_io_has_buffered(&conn->io) && !conn->inbound.is_paused);
}

void
gate_receive_start(struct gate_conn *conn)
{
    workaround_read_past(&conn->io);
    ev_io_init(&conn->readable, on_readable, conn->io.fd, EV_READ);
    conn->readable.data = conn;
    ev_io_start(conn->gate->loop, &conn->readable);
}
