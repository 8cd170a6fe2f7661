/*
 * frame.h: parses the messages of a replication stream, the decoder's frames in them, and the JSON
 * of notifications. decoder/protocol/frame_format.h describes the format of the frames. Pure.
 */
#ifndef CLAIRON_WIRE_FRAME_H
#define CLAIRON_WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "decoder/protocol/frame_format.h"
#include "decoder/protocol/limits.h"
#include "decoder/protocol/traceparent.h"
#include "wire/bytes.h"

#define FRAME_UUID_TEXT 36 /* without the terminating zero */
/* 16 hex digits of the LSN and 16 of the ordinal; without the terminating zero */
#define FRAME_POSITION_TEXT 32
#define FRAME_TARGETS_MAX 1000000
#define FRAME_MEMBER_TEXT_MAX 255

struct frame_notification {
    unsigned char id[16];
    int64_t commit_us;
    int64_t expires_us; /* 0: does not expire */
    uint8_t priority;
    uint8_t type;
    uint8_t operation;
    uint16_t retry_limit;
    uint16_t attempts;
    uint64_t xid; /* top-level transaction; 0: not from WAL */
    struct bytes audience;
    struct bytes topic;
    struct bytes rule;    /* the rule's name; empty: not from a rule */
    bool is_live;         /* the rule is live */
    struct bytes targets; /* iterate with frame_next_target */
    uint32_t target_count;
    struct bytes web_push; /* text of the Web Push, with FRAME_WEB_PUSH (frame_has_web_push) */
    struct bytes head;     /* the part of the frame before the data */
    struct bytes data;     /* the JSON document */
};

/* False if the notification has no Web Push, or one without a title, or one that is too long. */
static inline bool
frame_has_web_push(const struct frame_notification *notification)
{
    return notification->web_push.len > 0 && notification->web_push.len <= LIMIT_WEB_PUSH;
}

struct frame_member {
    bool added;
    uint64_t xid; /* as in a notification */
    struct bytes audience;
    struct bytes target;
    struct bytes user;
};

/* The rows of a live rule changed without notifications. */
struct frame_reload {
    uint64_t xid; /* as in a notification */
    struct bytes source;
    struct bytes rule; /* empty: all live rules of the source */
};

struct frame_commit {
    uint64_t end_lsn;
    int64_t commit_us;
};

/* Points into the bytes from which it was parsed. */
struct frame {
    char kind;
    uint16_t flags;
    uint64_t commit_lsn;
    uint64_t ordinal;
    union {
        struct frame_notification notification;
        struct frame_member member;
        struct frame_reload reload;
        struct frame_commit commit;
    } as;
};

/*
 * Parses the frame at the start of `bytes`; *ret_len is its length. RC_BAD: not a frame of
 * FRAME_VERSION. Safe for any bytes.
 */
MUST_CHECK enum rc frame_parse(struct bytes bytes, struct frame *ret_frame, size_t *ret_len);

/* Parses a notification's frame header from the store; `data` is empty. */
MUST_CHECK enum rc frame_parse_header(struct bytes head, struct frame *ret_frame);

/* Removes the next target from *targets. RC_CLOSED after the last target. */
MUST_CHECK enum rc frame_next_target(struct bytes *targets, struct bytes *ret_target);

void frame_id_text(const unsigned char id[16], char ret_text[FRAME_UUID_TEXT + 1]);

/* Parses the output of frame_id_text, in upper or lower case. False if the string is invalid. */
MUST_CHECK bool frame_id_parse(const char *text, size_t len, unsigned char ret_id[16]);

/* True if `text` (any bytes) is a UUID of 36 characters. */
bool frame_is_uuid(const char *text, size_t len);

/* Copies a UUID in lower case, the canonical form of ids. False if `text` is not a UUID. */
bool frame_uuid_parse(const char *text, size_t len, char ret_text[FRAME_UUID_TEXT + 1]);

/* Returns the commit time from the first 48 bits of an id. `id`: a UUID. */
int64_t frame_uuid_ms(const char *id);

/* Formats a position so that the strings sort like the positions. */
void frame_position_text(uint64_t lsn, uint64_t ordinal, char ret_text[FRAME_POSITION_TEXT + 1]);

/* Parses the output of frame_position_text. */
MUST_CHECK enum rc frame_position_parse(const char *text, size_t len, uint64_t *ret_lsn,
                                        uint64_t *ret_ordinal);

/*
 * Returns the content of the array routing.audience.targets. It points into `json`, which the
 * decoder or publication_parse wrote. Empty: no targets, or only their number.
 */
struct bytes notification_targets(struct bytes json);

/*
 * Returns a string in the metadata of a notification, without the quotes. It points into `json` and
 * has no escapes. `before` is its ENVELOPE_..._TEXT. Empty: absent.
 */
struct bytes notification_metadata(struct bytes json, const char *before);

/*
 * Returns the digits of routing.retry.attempts, which the decoder wrote behind the payload. They
 * point into `json`. Empty: the document has another format.
 */
struct bytes notification_attempts(struct bytes json);

/* Copies the traceparent from the metadata of a notification. False if it is absent. */
bool notification_traceparent(struct bytes json, char ret_text[TRACEPARENT_LEN + 1]);

/* PostgreSQL documentation, "Streaming Replication Protocol": XLogData, Primary keepalive. */
enum walmsg_kind { WALMSG_DATA, WALMSG_KEEPALIVE };

struct walmsg {
    enum walmsg_kind kind;
    uint64_t wal_end; /* keepalive: the server's end of WAL */
    bool reply_requested;
    struct bytes data; /* WALMSG_DATA: the output of the plugin; points into the message */
};

#define WALMSG_STATUS_SIZE 34

/* Parses one CopyData payload. RC_BAD: any other message. */
MUST_CHECK enum rc walmsg_parse(struct bytes message, struct walmsg *ret_message);

/* Builds a standby status update that confirms everything up to `stored`. */
void walmsg_status(unsigned char ret_status[WALMSG_STATUS_SIZE], uint64_t received, uint64_t stored,
                   int64_t now_us);

#endif
