/*
 * notify_message.h: what clairon.notify writes to the WAL, and the plugin reads.
 *
 * The content of the logical message is base64: other output plugins of the
 * database print messages as text, and so print ASCII in every encoding. Below is
 * what it encodes. Older versions wrote these bytes as they are; those messages
 * begin with their version, a control character, and are still read.
 *
 * Anyone may call pg_logical_emit_message, with any prefix: so the content is
 * authenticated by an HMAC over the transaction's id and all that follows the
 * MAC, with a secret that only C code reads. The id binds it to its transaction,
 * a copy in another one is refused. Integers are big-endian, texts UTF-8.
 *
 *    0  1  version        MESSAGE_VERSION, MESSAGE_VERSION_TRACED with FRAME_TRACED alone,
 *                         MESSAGE_VERSION_TIMED with FRAME_ACK_TIMED
 *    1 16  mac            HMAC-SHA256, cut
 *   17 16  id
 *   33  2  flags          FRAME_ACK_REQUIRED | FRAME_RETRY_ENABLED | FRAME_TRACED |
 *                         FRAME_ACK_TIMED
 *   35  1  type, 36 priority, 37 backoff: as in frame.h
 *   38  2  retry_limit
 *   40  1  has_ttl
 *   41  4  ttl months, 45 4 days, 49 8 microseconds
 *   57  2  audience_len
 *   59  2  source_len
 *   61  2  topic_len      MESSAGE_NO_TOPIC: the plugin makes it of the source
 *   63  2  emitter_len
 *   65  4  target_count
 *   69  4  targets_len    bytes of all targets with their lengths (2 each)
 *   73     with FRAME_ACK_TIMED the time for an acknowledgement in ms (4); with FRAME_TRACED
 *          the traceparent, TRACEPARENT_LEN bytes; then audience, source, topic, emitter,
 *          targets, payload to the end
 */
#ifndef CLAIRON_MESSAGE_H
#define CLAIRON_MESSAGE_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "base/target_list.h"
#include "protocol/frame.h"
#include "protocol/traceparent.h"

#define SECRET_BYTES 32 /* of clairon.secret */

#define MESSAGE_PREFIX "clairon"
/* An empty message for each repeat of a key: for a counter alone, so it is not authenticated. */
#define MESSAGE_REPEAT_PREFIX "clairon.repeat"
#define MESSAGE_VERSION 1
#define MESSAGE_VERSION_TRACED 2 /* apart, so that a plugin of before refuses it */
#define MESSAGE_VERSION_TIMED 3  /* likewise */
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
    const char *topic; /* NULL: made of the source */
    int topic_len;
    const char *emitter;
    int emitter_len;
    struct target_list targets;
    const char *payload;
    int payload_len;
};

/* Appends the signed message as base64; the caller checks texts (each below 65535 bytes). */
extern void message_build(StringInfo out, const struct message *message, TransactionId xid,
                          const uint8 secret[SECRET_BYTES]);

/*
 * Decodes the content of a logical message, in the current memory context if it must; NULL when it
 * is neither base64 nor the bytes of an older version.
 */
extern const char *message_unpack(const char *content, Size size, Size *ret_size);

/*
 * Fills *ret_message, which points into `bytes`, as message_unpack returns them;
 * targets are allocated. False when the message is not one that message_build made
 * for this transaction.
 */
extern bool message_parse(struct message *ret_message, const char *bytes, Size size,
                          TransactionId xid, const uint8 secret[SECRET_BYTES]);

/* The same for one that message_parse took before. */
extern void message_read(struct message *ret_message, const char *bytes, Size size);

#endif
