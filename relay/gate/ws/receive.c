/*
 * receive.c: what arrives for a WebSocket: its upgrade request, then frames, which are reassembled
 * to messages, and what the client requests in them.
 */
#include "gate/ws/websocket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/sha.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "gate/http/auth.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "gate/net/client_limits.h"
#include "hub/hub.h"
#include "wire/client_message.h"
#include "wire/codes.h"
#include "wire/http_head.h"

_Static_assert(TOKEN_USER_MAX == SESSION_USER_MAX, "a token's user fits a session");
_Static_assert(TOKEN_AUDIENCE_MAX == SESSION_AUDIENCE_MAX, "a token's audience fits a session");
_Static_assert(TOKEN_TARGET_MAX == SESSION_TARGET_MAX, "a token's target fits a session");
_Static_assert(TOKEN_GROUPS_MAX == SESSION_GROUPS_MAX, "a token's groups fit a session");
_Static_assert(CLIENT_MESSAGE_ACKS_MAX == SESSION_ACKS_MAX, "a message's acks fit a session");

_Static_assert(CLIENT_MESSAGE_TOPICS_MAX <= SESSION_TOPICS_MAX, "a message's topics fit a session");
_Static_assert(CLIENT_MESSAGE_TOPICS_BYTES_MAX <= SESSION_TOPICS_BYTES_MAX,
               "the bytes of a message's topics fit a session");

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
#define LINE_MAX_BYTES 2048
#define USER_FULL_MS 30000
#define RATE_RETRY_AFTER_MS 1000

static const struct conn_events EVENTS;

/* ---- the upgrade */

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

/* ---- the messages of a client */

/* after_ms: retry delay; -1: do not retry. */
static void
send_err_after(struct websocket *ws, const struct client_message *message, enum gate_err code,
               const char *sentence, int64_t after_ms)
{
    const struct error_frame frame = {message->has_request_id, message->request_id, code, sentence,
                                      after_ms};
    struct buffer line;

    buffer_init(&line, LINE_MAX_BYTES);
    if (error_frame_write(&line, &frame) == RC_OK)
        websocket_send(ws, line.bytes, line.len);
    buffer_free(&line);
}

static void
send_err(struct websocket *ws, const struct client_message *message, enum gate_err code,
         const char *sentence)
{
    send_err_after(ws, message, code, sentence, -1);
}

static void
send_rate(struct websocket *ws, const struct client_message *message, const char *sentence,
          int64_t after_ms)
{
    send_err_after(ws, message, GATE_ERR_RATE, sentence, after_ms);
}

/* Acks arrive in bursts: at most one `err` per second for all messages without a reply. */
static bool
is_warned_already(struct websocket *ws, const struct client_message *message, int64_t now_us)
{
    bool is_unanswered = !message->has_request_id && (message->kind == CLIENT_MESSAGE_ACK ||
                                                      message->kind == CLIENT_MESSAGE_NACK ||
                                                      message->kind == CLIENT_MESSAGE_PONG);
    struct websocket_flood *flood;

    if (!is_unanswered)
        return false;
    flood = websocket_flood(ws);
    if (now_us < flood->rate_warned_until_us)
        return true;
    flood->rate_warned_until_us = now_us + RATE_RETRY_AFTER_MS * 1000;
    return false;
}

static void
reject_token(struct websocket *ws, const struct client_message *message, enum rc rc,
             const char *sentence)
{
    bool expired = rc == RC_CLOSED;

    if (rc == RC_LIMIT) {
        websocket_close(ws, GATE_CLOSE_BANNED, sentence);
        return;
    }
    gate_log_rejected_token(websocket_gate(ws), "/v1/ws", sentence);
    send_err(ws, message, expired ? GATE_ERR_EXPIRED : GATE_ERR_UNAUTHORISED, sentence);
    websocket_close(ws, expired ? GATE_CLOSE_EXPIRED : GATE_CLOSE_TOKEN, sentence);
}

/* The keys of the token's issuer are not available. The client reconnects later. */
static void
defer_token(struct websocket *ws, const char *sentence)
{
    gate_log_rejected_token(websocket_gate(ws), "/v1/ws", sentence);
    websocket_close_retry(ws, GATE_CLOSE_OVERLOADED, sentence, GATE_KEYS_RETRY_S * 1000);
}

/* Keeps the message while its token is verified. */
static void
keep_message(struct websocket *ws, struct client_message *message)
{
    ws->auth->connect = memory_new(sizeof(*ws->auth->connect));
    *ws->auth->connect = *message;
    *message = (struct client_message){0};
}

/* Detects changed groups. Independent of the order, which may differ between tokens. */
static uint64_t
hash_groups(const struct token *token)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < token->group_count; i++) {
        const struct token_group *group = &token->groups[i];
        uint64_t hash = hash_bytes(HASH_START, group->audience, strlen(group->audience) + 1);

        sum += hash_bytes(hash, group->target, strlen(group->target) + 1);
    }
    return sum;
}

static struct session_topics
topics_of(const struct client_message *message)
{
    return (struct session_topics){(const char *const *)message->topics, message->topic_count};
}

static void
ws_attach(struct websocket *ws, const struct client_message *message, const struct token *token)
{
    struct session_group *groups = gate_groups_of(token);
    struct session_request request = {
        .user = token->user,
        .groups = groups,
        .group_count = token->group_count,
        .pos = message->pos,
        .window = message->window,
        .expires_s = token->expires_s,
        .has_request_id = message->has_request_id,
        .request_id = message->request_id,
        .topics = topics_of(message),
        .wants_ends = message->wants_ends,
    };

    websocket_set_state(ws, WEBSOCKET_OPEN);
    ws->session = hub_attach(websocket_gate(ws)->hub, &request, gate_transport(ws), ws);
    free(groups);
    gate_expiry_begin(&ws->expiry, websocket_gate(ws)->config, token->expires_s);
    ws->groups_hash = hash_groups(token);
    ws->marks = token->marks;
    ws->ping_us = clock_monotonic_us() + websocket_gate(ws)->config->gate.ping_ms * 1000;
    log_debug("gate", "session connected", LOG_INT("token_expires_s", token->expires_s),
              LOG_CONN(ws));
}

/* The token is valid: attaches a session unless the user has too many. */
static void
ws_admit(struct websocket *ws, const struct client_message *message, const struct token *token)
{
    gate_refund_upgrade(websocket_gate(ws), ws->peer);
    if (gate_admits_user(websocket_gate(ws), token->user)) {
        ws_attach(ws, message, token);
        return;
    }
    send_rate(ws, message, "per-user connection limit reached", USER_FULL_MS);
    websocket_close_retry(ws, GATE_CLOSE_OVERLOADED, "max_per_user reached", USER_FULL_MS);
}

static void
on_redeemed(void *owner, enum rc rc, struct token *token, const char *error)
{
    struct websocket *ws = owner;

    ws->auth->redeem = NULL;
    if (ws->state != WEBSOCKET_WAITING)
        return;
    if (rc == RC_OK)
        ws_admit(ws, ws->auth->connect, token);
    else if (rc == RC_IO)
        websocket_close(ws, GATE_CLOSE_RESTART, error);
    else if (rc == RC_AGAIN)
        defer_token(ws, error);
    else
        reject_token(ws, ws->auth->connect, rc, error);
    websocket_end_auth(ws);
}

static void
handle_ticket(struct websocket *ws, struct client_message *message)
{
    keep_message(ws, message); /* until the store replies */
    ws->auth->redeem = gate_ticket_redeem(websocket_gate(ws), ws->auth->ticket, on_redeemed, ws);
    if (ws->auth->redeem == NULL)
        websocket_close(ws, GATE_CLOSE_RESTART, "store does not reply");
}

static void
handle_token(struct websocket *ws, struct client_message *message, const char *text, size_t len)
{
    char error[TOKEN_ERROR_MAX];
    struct token token = {0};
    enum rc rc = gate_token_verify(websocket_gate(ws), text, len, &token, error);

    if (rc == RC_AGAIN)
        ws->auth->redeem = gate_token_wait(websocket_gate(ws), text, len, on_redeemed, ws);
    if (ws->auth->redeem != NULL) {
        keep_message(ws, message); /* until the keys are fetched */
        return;
    }
    if (rc == RC_AGAIN)
        defer_token(ws, error);
    else if (rc != RC_OK)
        reject_token(ws, message, rc, error);
    else
        ws_admit(ws, message, &token);
    token_free(&token);
    websocket_end_auth(ws);
}

static void
handle_connect(struct websocket *ws, struct client_message *message)
{
    const char *text = message->token != NULL ? message->token : ws->auth->bearer;

    if (text == NULL && ws->auth->ticket != NULL)
        handle_ticket(ws, message);
    else if (ws->auth->ticket != NULL)
        reject_token(ws, message, RC_BAD, GATE_TWO_CREDENTIALS);
    else if (text == NULL)
        reject_token(ws, message, RC_BAD, "missing token");
    else
        handle_token(ws, message, text, message->token != NULL ? message->token_len : strlen(text));
}

/* The token of "refresh" was verified, or was not. */
static void
refresh(struct websocket *ws, const struct client_message *message, enum rc rc,
        const struct token *token, const char *error)
{
    char line[128];
    char request_id[40] = "";
    int len;

    if (rc == RC_AGAIN) { /* the former token remains valid until it expires */
        gate_log_rejected_token(websocket_gate(ws), "/v1/ws", error);
        send_rate(ws, message, error, GATE_KEYS_RETRY_S * 1000);
    } else if (rc != RC_OK) {
        reject_token(ws, message, rc, error);
    } else if (strcmp(token->user, websocket_user(ws)) != 0) {
        reject_token(ws, message, RC_BAD, "token of another user");
    } else if (hash_groups(token) != ws->groups_hash) {
        /* a session's groups are fixed, so the client must reconnect */
        websocket_close_retry(ws, GATE_CLOSE_RESTART, "token groups changed, reconnect", 0);
    } else {
        gate_expiry_begin(&ws->expiry, websocket_gate(ws)->config, token->expires_s);
        ws->marks = token->marks;
        if (message->has_request_id)
            snprintf(request_id, sizeof(request_id), "\"r\":%lld,", (long long)message->request_id);
        len = snprintf(line, sizeof(line), "{\"t\":\"refreshed\",%s\"exp\":%lld}", request_id,
                       (long long)token->expires_s);
        websocket_send(ws, line, (size_t)len);
    }
}

static void
on_refresh_verified(void *owner, enum rc rc, struct token *token, const char *error)
{
    struct websocket *ws = owner;

    ws->auth->redeem = NULL;
    if (ws->state == WEBSOCKET_OPEN)
        refresh(ws, ws->auth->connect, rc, token, error);
    websocket_end_auth(ws);
}

static void
handle_refresh(struct websocket *ws, struct client_message *message)
{
    char error[TOKEN_ERROR_MAX];
    struct token token = {0};
    struct gate_redeem *redeem = NULL;
    enum rc rc;

    if (ws->auth != NULL) {
        stats_add(websocket_gate(ws)->stats, STAT_GATE_PROTOCOL_ERRORS, 1);
        send_err(ws, message, GATE_ERR_BAD_REQUEST, "\"refresh\" in progress");
        return;
    }
    rc = gate_token_verify(websocket_gate(ws), message->token, message->token_len, &token, error);
    if (rc == RC_AGAIN)
        redeem = gate_token_wait(websocket_gate(ws), message->token, message->token_len,
                                 on_refresh_verified, ws);
    if (redeem != NULL) {
        ws->auth = memory_new(sizeof(*ws->auth));
        ws->auth->redeem = redeem;
        keep_message(ws, message); /* until the keys are fetched */
    } else {
        refresh(ws, message, rc, &token, error);
    }
    token_free(&token);
}

/* A reply lists all topics, so a burst of requests can fill the control queue. */
static void
handle_topics(struct websocket *ws, const struct client_message *message)
{
    struct session_topics topics = topics_of(message);
    enum rc rc =
        message->kind == CLIENT_MESSAGE_SUBSCRIBE
            ? session_subscribe(ws->session, &topics, message->has_request_id, message->request_id)
            : session_unsubscribe(ws->session, &topics, message->has_request_id,
                                  message->request_id);

    if (rc == RC_AGAIN)
        send_rate(ws, message, "too many unsent replies", RATE_RETRY_AFTER_MS);
    else if (rc != RC_OK)
        send_err(ws, message, GATE_ERR_BAD_REQUEST,
                 "subscription limit reached: 256 topics or 8 kB");
}

/*
 * With a snapshot, reports whether it is new enough for this connection. Otherwise the hub sends
 * the rows.
 */
static void
handle_rows(struct websocket *ws, const struct client_message *message)
{
    char error[WIRE_ERROR_MAX];
    char line[128];
    bool is_accepted;
    int len;

    if (rows_conditions_check_limit(&message->conditions, websocket_gate(ws)->config->rows.max_rows,
                                    error) != RC_OK) {
        stats_add(websocket_gate(ws)->stats, STAT_GATE_PROTOCOL_ERRORS, 1);
        send_err(ws, message, GATE_ERR_BAD_REQUEST, error);
        return;
    }
    if (!message->has_snapshot) {
        /*
         * The rows bypass the control queue, but the gate closes a client that does not read them.
         */
        if (!session_request_rows(ws->session, message->source, message->rule, &message->conditions,
                                  message->request_id))
            send_rate(ws, message, "too many requests for rows by this connection",
                      RATE_RETRY_AFTER_MS);
        return;
    }
    is_accepted =
        session_accepts_snapshot(ws->session, message->source, message->rule, &message->snapshot);
    len = snprintf(line, sizeof(line), "{\"t\":\"rows\",\"r\":%lld,\"ok\":%s}",
                   (long long)message->request_id, is_accepted ? "true" : "false");
    websocket_send(ws, line, (size_t)len);
}

static void
handle_open(struct websocket *ws, struct client_message *message)
{
    static const char PONG[] = "{\"t\":\"pong\"}";

    switch (message->kind) {
    case CLIENT_MESSAGE_CONNECT:
        stats_add(websocket_gate(ws)->stats, STAT_GATE_PROTOCOL_ERRORS, 1);
        send_err(ws, message, GATE_ERR_BAD_REQUEST, "duplicate \"connect\"");
        break;
    case CLIENT_MESSAGE_ACK:
        session_ack(ws->session, (const char *const *)message->ids, message->id_count);
        break;
    case CLIENT_MESSAGE_NACK:
        session_nack(ws->session, (const char *const *)message->ids, message->id_count,
                     message->delay_ms);
        break;
    case CLIENT_MESSAGE_SUBSCRIBE:
    case CLIENT_MESSAGE_UNSUBSCRIBE:
        handle_topics(ws, message);
        break;
    case CLIENT_MESSAGE_REFRESH:
        handle_refresh(ws, message);
        break;
    case CLIENT_MESSAGE_ROWS:
        handle_rows(ws, message);
        break;
    case CLIENT_MESSAGE_BARRIER:
        if (!session_barrier(ws->session, message->xid, message->request_id))
            send_rate(ws, message, "too many barriers", RATE_RETRY_AFTER_MS);
        break;
    case CLIENT_MESSAGE_PING:
        websocket_send(ws, PONG, sizeof(PONG) - 1);
        break;
    case CLIENT_MESSAGE_PONG: /* any frame proves that the client is alive */
        break;
    }
}

static void
handle_first(struct websocket *ws, struct client_message *message)
{
    if (ws->auth->connect != NULL) {
        stats_add(websocket_gate(ws)->stats, STAT_GATE_PROTOCOL_ERRORS, 1);
        send_err(ws, message, GATE_ERR_BAD_REQUEST, "\"connect\" in progress");
        return;
    }
    if (message->kind == CLIENT_MESSAGE_CONNECT) {
        handle_connect(ws, message);
        return;
    }
    stats_add(websocket_gate(ws)->stats, STAT_GATE_PROTOCOL_ERRORS, 1);
    websocket_close(ws, GATE_CLOSE_PROTOCOL, "first message must be \"connect\"");
}

static void
handle_message(struct websocket *ws, const char *line, size_t len)
{
    char error[CLIENT_MESSAGE_ERROR_MAX];
    struct client_message message = {0};
    enum rc rc = client_message_parse(line, len, &message, error);
    int64_t now_us = clock_monotonic_us();

    if (!rate_bucket_consume(&ws->lines, websocket_gate(ws)->config->gate.message_rate, now_us)) {
        if (rc != RC_OK || !is_warned_already(ws, &message, now_us))
            send_rate(ws, &message, "message_rate exceeded", RATE_RETRY_AFTER_MS);
    } else if (rc == RC_OK && ws->state == WEBSOCKET_OPEN) {
        handle_open(ws, &message);
    } else if (rc == RC_OK) {
        handle_first(ws, &message);
    } else {
        stats_add(websocket_gate(ws)->stats, STAT_GATE_PROTOCOL_ERRORS, 1);
        if (rc == RC_CLOSED)
            websocket_close(ws, GATE_CLOSE_PROTOCOL, error);
        else
            send_err(ws, &message, GATE_ERR_BAD_REQUEST, error);
    }
    client_message_free(&message);
}

/* ---- frames, which are reassembled to messages */

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
        handle_message(ws, text, len);
        return;
    }
    while (text < end && ws->state < WEBSOCKET_CLOSING) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t line_len = (size_t)((stop != NULL ? stop : end) - text);

        if (line_len > 0)
            handle_message(ws, text, line_len);
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
