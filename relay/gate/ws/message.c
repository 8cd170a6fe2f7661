/* message.c: handles the messages of a client. */
#include "gate/ws/websocket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/log.h"
#include "base/memory.h"
#include "gate/http/auth.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "hub/hub.h"
#include "wire/client_message.h"
#include "wire/codes.h"

_Static_assert(TOKEN_USER_MAX == SESSION_USER_MAX, "a token's user fits a session");
_Static_assert(TOKEN_AUDIENCE_MAX == SESSION_AUDIENCE_MAX, "a token's audience fits a session");
_Static_assert(TOKEN_TARGET_MAX == SESSION_TARGET_MAX, "a token's target fits a session");
_Static_assert(TOKEN_GROUPS_MAX == SESSION_GROUPS_MAX, "a token's groups fit a session");
_Static_assert(CLIENT_MESSAGE_ACKS_MAX == SESSION_ACKS_MAX, "a message's acks fit a session");

_Static_assert(CLIENT_MESSAGE_TOPICS_MAX <= SESSION_TOPICS_MAX, "a message's topics fit a session");
_Static_assert(CLIENT_MESSAGE_TOPICS_BYTES_MAX <= SESSION_TOPICS_BYTES_MAX,
               "the bytes of a message's topics fit a session");

#define LINE_MAX_BYTES 2048
#define USER_FULL_MS 30000
#define RATE_RETRY_AFTER_MS 1000

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

void
gate_message_handle(struct websocket *ws, const char *line, size_t len)
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
