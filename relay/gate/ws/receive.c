/* receive.c: reads a WebSocket's frames and reassembles its messages. */
#include "gate/ws/receive.h"

#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "gate/net/gate_shared.h"
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
protocol_error(struct websocket *ws, int code, const char *why)
{
    stats_add(ws->gate->stats, STAT_GATE_PROTOCOL_ERRORS, 1);
    websocket_close(ws, code, why);
}

static void
reject_text(struct websocket *ws)
{
    protocol_error(ws, GATE_CLOSE_UTF8, "text frame is not valid UTF-8");
}

/* Rejects an invalid message early, without reading all of it. */
static void
check_begin(struct websocket *ws)
{
    size_t len = 0;

    if (ws->in.len == 0)
        return;
    if (utf8_is_prefix(ws->in.bytes + ws->in_valid, ws->in.len - ws->in_valid, &len))
        ws->in_valid += len;
    else
        reject_text(ws);
}

static void
handle_text(struct websocket *ws, const char *text, size_t len)
{
    const char *end = text + len;
    size_t valid_len = 0;

    if (!utf8_is_prefix(text, len, &valid_len) || valid_len < len) {
        reject_text(ws);
        return;
    }
    if (len == 0) {
        gate_message_handle(ws, text, len);
        return;
    }
    while (text < end && ws->state < WEBSOCKET_CLOSING) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t line_len = (size_t)((stop != NULL ? stop : end) - text);

        if (line_len > 0)
            gate_message_handle(ws, text, line_len);
        text += line_len + 1;
    }
}

/* Returns a close code and its reason; 0: valid so far. */
static int
check_piece(const struct websocket *ws, const struct ws_event *event, const char **ret_why)
{
    size_t max = (size_t)ws->gate->config->gate.max_frame_bytes;
    size_t room;

    if (ws->state == WEBSOCKET_WAITING && max > GATE_FIRST_FRAME_MAX)
        max = GATE_FIRST_FRAME_MAX;
    room = max - ws->in.len;

    if (event->is_binary) {
        *ret_why = "binary frames not supported";
        return GATE_CLOSE_BINARY;
    }
    /* rejects an excessive length without reading the frame */
    if (event->len > room || event->left > room - event->len) {
        *ret_why = ws->state == WEBSOCKET_WAITING
                       ? "frame before \"connect\" exceeds 20 kB or max_frame_bytes"
                       : "frame exceeds max_frame_bytes";
        return GATE_CLOSE_TOO_LONG;
    }
    return 0;
}

/* Buffers a fragment. Handles the message after its last fragment. */
static void
handle_data(struct websocket *ws, const struct ws_event *event)
{
    const char *bytes = event->len > 0 ? (const char *)event->at : "";
    const char *why = NULL;
    int code = check_piece(ws, event, &why);

    if (code != 0) {
        protocol_error(ws, code, why);
    } else if (event->is_last && ws->in.len == 0) {
        handle_text(ws, bytes, event->len);
    } else if (buffer_add(&ws->in, bytes, event->len) != RC_OK) {
        websocket_kill(ws);
    } else if (!event->is_last) {
        check_begin(ws);
    } else {
        struct buffer whole = ws->in;

        buffer_init(&ws->in, (size_t)ws->gate->config->gate.max_frame_bytes);
        ws->in_valid = 0;
        handle_text(ws, whole.bytes, whole.len);
        buffer_free(&whole);
    }
}

static void
handle_close(struct websocket *ws, const struct ws_event *event)
{
    const char *why;
    int code = ws_close_reply_code(event->at, event->len, &why);

    if (why != NULL)
        protocol_error(ws, code, why);
    else
        websocket_reply_close(ws, code);
}

static void
handle_ping(struct websocket *ws, const struct ws_event *event)
{
    if (ws->control.len + event->len > CONTROL_PENDING_MAX)
        return; /* a client that pings without reading receives fewer pongs */
    websocket_control(ws, WS_PONG, event->at, event->len);
}

static void
handle_event(struct websocket *ws, const struct ws_event *event)
{
    switch (event->kind) {
    case WS_DATA:
        handle_data(ws, event);
        break;
    case WS_PING:
        handle_ping(ws, event);
        break;
    case WS_CLOSE:
        handle_close(ws, event);
        break;
    case WS_BROKEN:
        protocol_error(ws, GATE_CLOSE_BROKEN, event->why);
        break;
    case WS_PONG: /* any frame proves that the client is alive */
    case WS_NOTHING:
        break;
    }
}

/* After the start of the close, input is discarded. Returns the number of events. */
static int64_t
handle_bytes(struct websocket *ws, unsigned char *bytes, size_t len)
{
    int64_t count = 0;

    for (; len > 0 && ws->state < WEBSOCKET_CLOSING; count++) {
        size_t used = 0;
        struct ws_event event = ws_reader_next(&ws->reader, bytes, len, &used);

        handle_event(ws, &event);
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
check_flood(struct websocket *ws, int64_t now_us)
{
    if (now_us - ws->inbound.paused_us > SECOND_US)
        ws->inbound.flood_since_us = now_us;
    ws->inbound.paused_us = now_us;
    if (now_us - ws->inbound.flood_since_us > FLOOD_MAX_US)
        websocket_close(ws, GATE_CLOSE_OVERLOADED, "inbound rate exceeded");
}

/* Also charges frames and bytes that are not messages: pings, empty fragments, long frames. */
static void
charge(struct websocket *ws, int64_t events, size_t bytes)
{
    int64_t rate = ws->gate->config->gate.message_rate * COST_UNITS_PER_MESSAGE;
    int64_t now_us = clock_monotonic_us();

    if (rate == 0 || ws->conn->phase == CONN_CLOSING)
        return;
    if (rate < COST_UNITS_MIN)
        rate = COST_UNITS_MIN;
    if (ws->inbound.budget_until_us < now_us)
        ws->inbound.budget_until_us = now_us;
    ws->inbound.budget_until_us += (events + (int64_t)(bytes / COST_UNIT_BYTES)) * SECOND_US / rate;
    if (ws->inbound.budget_until_us <= now_us + GATE_BURST_US)
        return;
    check_flood(ws, now_us);
    if (ws->conn->phase != CONN_CLOSING)
        gate_pause_reading(ws);
}

void
gate_receive(struct websocket *ws, unsigned char *bytes, size_t len)
{
    ws->pinged_us = 0;
    charge(ws, handle_bytes(ws, bytes, len), len);
}
