/*
 * notify_message.h: the logical message that clairon.notify writes and the plugin reads.
 *
 * The content is base64, since other output plugins print messages as text. The layout below
 * describes the decoded bytes. Other versions than MESSAGE_VERSION are rejected.
 *
 * Any user can call pg_logical_emit_message with any prefix, so the content is signed by an HMAC
 * over the transaction's id and all bytes after the MAC, with a secret that only C code reads. The
 * id prevents a replay in another transaction. Integers are big-endian, strings UTF-8.
 *
 *    0  1  version        MESSAGE_VERSION
 *    1 16  mac            HMAC-SHA256, truncated
 *   17 16  id
 *   33  2  flags          FRAME_ACK_REQUIRED | FRAME_RETRY_ENABLED | FRAME_TRACED |
 *                         FRAME_ACK_TIMED
 *   35  1  type, 36 priority, 37 backoff: as in frame.h
 *   38  2  retry_limit
 *   40  1  has_ttl
 *   41  4  ttl months, 45 4 days, 49 8 microseconds
 *   57  2  audience_len
 *   59  2  source_len
 *   61  2  topic_len      MESSAGE_NO_TOPIC: derived from the source
 *   63  2  emitter_len
 *   65  4  target_count
 *   69  4  targets_len    bytes of all targets with their lengths (2 each)
 *   73     with FRAME_ACK_TIMED the acknowledgement timeout in ms (4); with FRAME_TRACED
 *          the traceparent, TRACEPARENT_LEN bytes; then audience, source, topic, emitter,
 *          targets, payload to the end
 */
#ifndef CLAIRON_MESSAGE_H
#define CLAIRON_MESSAGE_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "base/data.h"
#include "protocol/frame.h"
#include "protocol/traceparent.h"

#define SECRET_BYTES 32 /* length of clairon.secret */

#define MESSAGE_PREFIX "clairon"
/*
 * An empty message for each repeated key. The message only increments a counter, so it is not
 * signed.
 */
#define MESSAGE_REPEAT_PREFIX "clairon.repeat"
#define MESSAGE_VERSION 1
#define MESSAGE_MAC_AT 1
#define MESSAGE_MAC_BYTES 16
#define MESSAGE_SIGNED_AT (MESSAGE_MAC_AT + MESSAGE_MAC_BYTES)
#define MESSAGE_HEAD_SIZE 73
#define MESSAGE_NO_TOPIC 0xFFFF

struct message {
    pg_uuid_t id;
    uint16 flags;
    enum frame_type type;
    enum frame_priority priority;
    enum frame_backoff backoff;
    uint16 retry_limit;
    uint32 ack_timeout; /* in ms, with FRAME_ACK_TIMED */
    bool has_ttl;
    Interval ttl;
    const char *traceparent; /* TRACEPARENT_LEN bytes, with FRAME_TRACED */
    const char *audience;
    int audience_len;
    const char *source;
    int source_len;
    const char *topic; /* NULL: derived from the source */
    int topic_len;
    const char *emitter;
    int emitter_len;
    struct target_list targets;
    const char *payload;
    int payload_len;
};

/* Appends the signed message as base64. The caller limits each string to less than 65535 bytes. */
extern void message_build(StringInfo out, const struct message *message, TransactionId xid,
                          const uint8 secret[SECRET_BYTES]);

/*
 * Decodes the content of a logical message, in the current memory context. Returns NULL when the
 * content is not base64.
 */
extern const char *message_unpack(const char *content, Size size, Size *ret_size);

/*
 * Fills *ret_message, which points into `bytes`, as returned by message_unpack. Targets are
 * allocated. Returns false unless message_build created the message for this transaction.
 */
extern bool message_parse(struct message *ret_message, const char *bytes, Size size,
                          TransactionId xid, const uint8 secret[SECRET_BYTES]);

/* Like message_parse, for a message that message_parse has already verified. */
extern void message_read(struct message *ret_message, const char *bytes, Size size);

#endif
