/* client_message.h: parses one client message into a validated struct. Pure: no clock, no log. */
#ifndef CLAIRON_WIRE_CLIENT_MESSAGE_H
#define CLAIRON_WIRE_CLIENT_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decoder/protocol/limits.h"
#include "base/rc.h"
#include "wire/rows_conditions.h"
#include "wire/snapshot.h"

#define CLIENT_MESSAGE_ACKS_MAX 1024
#define CLIENT_MESSAGE_WINDOW_MAX 65536 /* larger values are reduced to this */
#define CLIENT_MESSAGE_POS_MAX 511
#define CLIENT_MESSAGE_ERROR_MAX WIRE_ERROR_MAX
#define CLIENT_MESSAGE_TOPICS_MAX 256 /* maximum number of topics in a message */
#define CLIENT_MESSAGE_TOPIC_MAX 255  /* maximum bytes of a topic */
#define CLIENT_MESSAGE_TOPICS_BYTES_MAX 8192
#define CLIENT_MESSAGE_DELAY_MAX 86400000 /* larger values are reduced to this */
#define CLIENT_MESSAGE_SOURCE_MAX 255
#define CLIENT_MESSAGE_RULE_MAX LIMIT_RULE
#define CLIENT_MESSAGE_ENTRY_MAX 42 /* two 64-bit numbers, a dash and the terminating zero */

enum client_message_kind {
    CLIENT_MESSAGE_CONNECT,
    CLIENT_MESSAGE_ACK,
    CLIENT_MESSAGE_NACK,
    CLIENT_MESSAGE_SUBSCRIBE,
    CLIENT_MESSAGE_UNSUBSCRIBE,
    CLIENT_MESSAGE_REFRESH,
    CLIENT_MESSAGE_PONG,
    CLIENT_MESSAGE_PING,
    CLIENT_MESSAGE_ROWS,
    CLIENT_MESSAGE_BARRIER,
};

struct client_message {
    enum client_message_kind kind;
    bool has_request_id; /* "r" */
    int64_t request_id;
    char *token;      /* connect: NULL if absent; refresh: required */
    size_t token_len; /* bytes */
    char *pos;        /* connect: NULL if absent */
    int window;       /* connect: 0 if absent */
    bool wants_ends;  /* connect: "ends" is true */
    char **ids;       /* ack, nack: lower case UUIDs */
    size_t id_count;
    int64_t delay_ms; /* nack: 0 if absent */
    char **topics;    /* connect, subscribe, unsubscribe: '*' only at the end */
    size_t topic_count;
    char *source;                      /* rows */
    char *rule;                        /* rows: "default" if absent */
    struct rows_conditions conditions; /* rows */
    bool has_snapshot;
    struct snapshot snapshot; /* rows: only checks whether this snapshot is new enough */
    uint64_t xid;             /* barrier: 0 if absent */
};

/*
 * Parses one message. RC_OK: the caller frees *ret_message with client_message_free. RC_CLOSED: not
 * JSON; the caller closes the connection (4000). RC_BAD: JSON, but not a valid message (err 107);
 * *ret_message then contains only the request id, if present. `error` names the invalid field.
 */
MUST_CHECK enum rc client_message_parse(const char *line, size_t len,
                                        struct client_message *ret_message,
                                        char error[CLIENT_MESSAGE_ERROR_MAX]);

/*
 * Like client_message_parse, for the body of POST /v1/ack, {"ids":[...]}. Returns RC_BAD instead of
 * RC_CLOSED.
 */
MUST_CHECK enum rc client_message_parse_ack(const char *text, size_t len,
                                            struct client_message *ret_message,
                                            char error[CLIENT_MESSAGE_ERROR_MAX]);

/* Parses {"ticket":".."}, the ticket of a Web Push: 32 hexadecimal digits. */
#define PUSH_TICKET_TEXT 32
bool client_message_parse_push_ticket(const char *text, size_t len,
                                      char ret_ticket[PUSH_TICKET_TEXT + 1]);

/* Like client_message_parse_ack, for the body of POST /v1/nack, {"ids":[...],"delay":30000}. */
MUST_CHECK enum rc client_message_parse_nack(const char *text, size_t len,
                                             struct client_message *ret_message,
                                             char error[CLIENT_MESSAGE_ERROR_MAX]);

/* Parses {"on":true}. RC_BAD: `error` describes the valid form. */
MUST_CHECK enum rc client_message_parse_switch(const char *text, size_t len, bool *ret_on,
                                               char error[CLIENT_MESSAGE_ERROR_MAX]);

/* Parses {"entry":"..."}, an entry of the error log. RC_BAD: `error` describes the valid form. */
MUST_CHECK enum rc client_message_parse_entry(const char *text, size_t len,
                                              char ret_entry[CLIENT_MESSAGE_ENTRY_MAX],
                                              char error[CLIENT_MESSAGE_ERROR_MAX]);

/*
 * Parses {"until":"2026-12-01T00:40:00Z","jti":".."}. Members, and the whole body, may be missing:
 * *ret_until_s is then 0 (Unix seconds), and *ret_jti NULL. The caller frees *ret_jti. RC_BAD:
 * `error` describes the valid form.
 */
MUST_CHECK enum rc client_message_parse_cutoff(const char *text, size_t len, int64_t *ret_until_s,
                                               char **ret_jti,
                                               char error[CLIENT_MESSAGE_ERROR_MAX]);

/* Parses a transaction id: a decimal number from 1 to 2^64-1, without leading zeros. */
bool client_message_parse_xid(const char *text, size_t len, uint64_t *ret_xid);

/* Frees and resets. Accepts a zeroed message. */
void client_message_free(struct client_message *message);

#endif
