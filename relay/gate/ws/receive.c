/*
 * receive.c: what arrives for a WebSocket: its upgrade request, then frames, which are reassembled
 * to messages.
 */
#include "gate/ws/websocket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/sha.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "gate/http/auth.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "gate/net/client_limits.h"
#include "wire/http_head.h"

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
#define KEY_LEN 24 /* 16 bytes in base64 */
#define SPACES ", \t"

static const struct conn_events EVENTS;

/* Whether our subprotocol is in the list. */
static bool
names_protocol(const char *list)
{
    for (const char *at = list + strspn(list, SPACES); *at != '\0'; at += strspn(at, SPACES)) {
        size_t len = strcspn(at, SPACES);

        if (len == strlen(GATE_PROTOCOL) && strncmp(at, GATE_PROTOCOL, len) == 0)
            return true;
        at += len;
    }
    return false;
}

/* A request without a subprotocol is accepted: only browsers require one. */
static bool
offers_protocol(const struct http_head *head)
{
    char *list = NULL;
    bool is_offered = http_head_text(head, "sec-websocket-protocol", SIZE_MAX, &list) == RC_OK &&
                      (list == NULL || names_protocol(list));

    free(list);
    return is_offered;
}

/* 16 bytes in base64 (RFC 6455, 4.2.1). */
static bool
read_key(const struct http_head *head, char ret_key[KEY_LEN + 1])
{
    static const char ALPHABET[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *key = NULL;
    bool is_good = http_head_text(head, "sec-websocket-key", KEY_LEN, &key) == RC_OK &&
                   key != NULL && strlen(key) == KEY_LEN && strspn(key, ALPHABET) == KEY_LEN - 2 &&
                   strcmp(key + KEY_LEN - 2, "==") == 0;

    if (is_good)
        memcpy(ret_key, key, KEY_LEN + 1);
    free(key);
    return is_good;
}

/* Checks for a valid RFC 6455 upgrade to our subprotocol. False: *ret is the reason. */
static bool
check_handshake(const struct conn *conn, char ret_key[KEY_LEN + 1], struct gate_rejection *ret)
{
    static const char PATH[] = "/v1/ws";
    const struct http_head *head = conn->head;

    if (head->path_len != strlen(PATH) ||
        memcmp(head->bytes + head->target, PATH, head->path_len) != 0)
        *ret = (struct gate_rejection){404, 0, NULL, "no WebSocket at this path, use /v1/ws"};
    else if (conn->is_admin)
        *ret = (struct gate_rejection){404, 0, NULL, "no WebSocket on gate.admin_listen"};
    else if (head->method != HTTP_GET)
        *ret = (struct gate_rejection){405, 0, "Allow: GET", "method not allowed, use GET"};
    else if (!head->is_1_1)
        *ret = (struct gate_rejection){400, 0, NULL, "upgrade requires HTTP/1.1"};
    else if (!http_head_is(head, "sec-websocket-version", "13"))
        *ret = (struct gate_rejection){426, 0, "Sec-WebSocket-Version: 13",
                                       "Sec-WebSocket-Version must be 13"};
    else if (!read_key(head, ret_key) ||
             (head->authority_len == 0 && http_head_is(head, "host", "")))
        *ret =
            (struct gate_rejection){400, 0, NULL, "missing or invalid Host or Sec-WebSocket-Key"};
    else if (!offers_protocol(head))
        *ret = (struct gate_rejection){400, 0, NULL, "missing subprotocol " GATE_PROTOCOL};
    else if (head->is_chunked || head->content_length > 0)
        *ret = (struct gate_rejection){400, 0, NULL, "upgrade with a body"};
    else
        return true;
    return false;
}

/* Checks what a page and its user may do. False: *ret is the reason. */
static bool
check_client(struct conn *conn, struct gate_rejection *ret)
{
    char *origin = NULL;
    bool is_allowed = gate_origin_read(conn, conn->gate->config->gate.origins, &origin);

    free(origin);
    if (!is_allowed)
        *ret = (struct gate_rejection){403, 0, NULL, GATE_ORIGIN_NOT_ALLOWED};
    else if (gate_request_has_both(conn->head))
        *ret = (struct gate_rejection){400, 0, NULL, GATE_TWO_CREDENTIALS};
    else if (!gate_admits_request(conn))
        *ret = (struct gate_rejection){429, 0, GATE_RETRY_SOON, GATE_RATE_EXCEEDED};
    else
        return gate_admits(conn, true, ret);
    return false;
}

/* RFC 6455, 4.2.2. The socket has room: earlier responses are written. */
static void
accept_upgrade(struct conn *conn, const char *key)
{
    static const char GUID[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    const bool has_protocol = http_head_has(conn->head, "sec-websocket-protocol");
    unsigned char hash[SHA_DIGEST_LENGTH];
    char accept_key[4 * SHA_DIGEST_LENGTH / 3 + 4];
    char text[KEY_LEN + sizeof(GUID)];
    char response[256];
    int len;

    memcpy(text, key, KEY_LEN);
    memcpy(text + KEY_LEN, GUID, sizeof(GUID));
    SHA1((const unsigned char *)text, strlen(text), hash);
    EVP_EncodeBlock((unsigned char *)accept_key, hash, sizeof(hash));
    len = snprintf(response, sizeof(response),
                   "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                   "Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n%s\r\n",
                   accept_key, has_protocol ? "Sec-WebSocket-Protocol: " GATE_PROTOCOL "\r\n" : "");
    gate_ws_begin(conn, &EVENTS);
    if (conn_write(conn, response, (size_t)len) != len)
        conn_close(conn);
}

void
gate_ws_upgrade(struct conn *conn)
{
    struct gate_rejection rejection;
    struct response response;
    char key[KEY_LEN + 1];

    if (check_handshake(conn, key, &rejection) && check_client(conn, &rejection)) {
        accept_upgrade(conn, key);
        return;
    }
    stats_add(conn->gate->stats, STAT_GATE_REJECTED, 1);
    log_info("gate", "upgrade rejected", LOG_INT("status", rejection.status),
             LOG_TEXT("detail", rejection.detail));
    response_problem_with(&response, rejection.status, 0, rejection.header, rejection.detail);
    gate_request_reply(conn, &response);
}

void
gate_ws_upgrade_required(struct conn *conn, struct response *ret_response)
{
    (void)conn;
    response_problem(ret_response, 426, 0,
                     "WebSocket only, send Upgrade: websocket and Connection: Upgrade");
}

static void
protocol_error(struct websocket *ws, int code, const char *why)
{
    stats_add(websocket_gate(ws)->stats, STAT_GATE_PROTOCOL_ERRORS, 1);
    websocket_close(ws, code, why);
}

static void
reject_text(struct websocket *ws)
{
    protocol_error(ws, GATE_CLOSE_UTF8, "text frame is not valid UTF-8");
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
    size_t max = (size_t)websocket_gate(ws)->config->gate.max_frame_bytes;
    size_t room;

    if (ws->state == WEBSOCKET_WAITING && max > GATE_FIRST_FRAME_MAX)
        max = GATE_FIRST_FRAME_MAX;
    room = max - (ws->in != NULL ? ws->in->bytes.len : 0);

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

/* Buffers a piece of a message. Handles the message after its last piece. */
static void
handle_piece(struct websocket *ws, const char *bytes, const struct ws_event *event)
{
    struct websocket_fragments *in = ws->in;
    size_t valid_len = 0;

    if (in == NULL) {
        in = ws->in = memory_new(sizeof(*in));
        buffer_init(&in->bytes, (size_t)websocket_gate(ws)->config->gate.max_frame_bytes);
    }
    if (buffer_add(&in->bytes, bytes, event->len) != RC_OK) {
        websocket_kill(ws);
    } else if (event->is_last) {
        ws->in = NULL;
        handle_text(ws, in->bytes.bytes, in->bytes.len);
        buffer_free(&in->bytes);
        free(in);
    } else if (utf8_is_prefix(in->bytes.bytes + in->valid_len, in->bytes.len - in->valid_len,
                              &valid_len)) {
        in->valid_len += valid_len;
    } else {
        reject_text(ws); /* early, without reading all of it */
    }
}

static void
handle_data(struct websocket *ws, const struct ws_event *event)
{
    const char *bytes = event->len > 0 ? (const char *)event->at : "";
    const char *why = NULL;
    int code = check_piece(ws, event, &why);

    if (code != 0)
        protocol_error(ws, code, why);
    else if (event->is_last && ws->in == NULL)
        handle_text(ws, bytes, event->len);
    else if (event->is_last || event->len > 0)
        handle_piece(ws, bytes, event);
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
handle_event(struct websocket *ws, const struct ws_event *event)
{
    switch (event->kind) {
    case WS_DATA:
        handle_data(ws, event);
        break;
    case WS_PING:
        /* a client that pings without reading receives fewer pongs */
        if (websocket_control_len(ws) + event->len <= CONTROL_PENDING_MAX)
            websocket_control(ws, WS_PONG, event->at, event->len);
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
 * Also charges frames and bytes that are not messages: pings, empty fragments, long frames. Closes
 * a client that exceeds its rate for FLOOD_MAX_US. It may even have disconnected, with megabytes
 * left in the kernel's buffer.
 */
static void
charge(struct websocket *ws, int64_t events, size_t bytes)
{
    int64_t rate = websocket_gate(ws)->config->gate.message_rate * COST_UNITS_PER_MESSAGE;
    int64_t now_us = clock_monotonic_us();
    struct websocket_flood *flood;

    if (rate == 0 || ws->conn->phase == CONN_CLOSING)
        return;
    if (rate < COST_UNITS_MIN)
        rate = COST_UNITS_MIN;
    if (ws->budget_until_us < now_us)
        ws->budget_until_us = now_us;
    ws->budget_until_us += (events + (int64_t)(bytes / COST_UNIT_BYTES)) * SECOND_US / rate;
    if (ws->budget_until_us <= now_us + GATE_BURST_US)
        return;
    flood = websocket_flood(ws);
    if (now_us - flood->paused_us > SECOND_US)
        flood->since_us = now_us;
    flood->paused_us = now_us;
    if (now_us - flood->since_us > FLOOD_MAX_US)
        websocket_close(ws, GATE_CLOSE_OVERLOADED, "inbound rate exceeded");
    if (ws->conn->phase != CONN_CLOSING)
        websocket_pause_reading(ws);
}

static void
on_bytes(struct conn *conn, unsigned char *bytes, size_t len)
{
    struct websocket *ws = conn->owner;

    if (ws->is_pinged && ws->state == WEBSOCKET_OPEN) { /* later, ping_us is another time */
        ws->is_pinged = false;
        ws->ping_us += websocket_gate(ws)->config->gate.ping_ms * 1000;
    }
    charge(ws, handle_bytes(ws, bytes, len), len);
}

static const struct conn_events EVENTS = {
    .on_bytes = on_bytes, .on_writable = websocket_writable, .on_closed = websocket_closed};
