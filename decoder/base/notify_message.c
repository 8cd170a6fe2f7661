/* notify_message.c: create and verify the signed message of clairon.notify. */
#include "base/notify_message.h"

#include "common/base64.h"
#include "common/hmac.h"
#include "common/sha2.h"
#include "libpq/pqformat.h"
#include "utils/memutils.h"

static void
sign(uint8 ret_mac[MESSAGE_MAC_BYTES], TransactionId xid, const char *bytes, Size size,
     const uint8 secret[SECRET_BYTES])
{
    pg_hmac_ctx *hmac = pg_hmac_create(PG_SHA256);
    uint8 digest[PG_SHA256_DIGEST_LENGTH];
    uint32 bound = pg_hton32(xid);

    if (hmac == NULL || pg_hmac_init(hmac, secret, SECRET_BYTES) < 0 ||
        pg_hmac_update(hmac, (const uint8 *)&bound, sizeof(bound)) < 0 ||
        pg_hmac_update(hmac, (const uint8 *)bytes, size) < 0 ||
        pg_hmac_final(hmac, digest, sizeof(digest)) < 0)
        elog(ERROR, "could not compute the HMAC of a clairon message");
    pg_hmac_free(hmac);
    memcpy(ret_mac, digest, MESSAGE_MAC_BYTES);
}

/* The pointer types differ between versions of PostgreSQL: the casts to void avoid a warning. */
static void
append_base64(StringInfo out, const StringInfoData *bytes)
{
    int room = pg_b64_enc_len(bytes->len);
    int len;

    enlargeStringInfo(out, room);
    len = pg_b64_encode((const void *)bytes->data, bytes->len, out->data + out->len, room);
    if (len < 0)
        elog(ERROR, "could not encode a clairon message");
    out->len += len;
    out->data[out->len] = '\0';
}

const char *
message_unpack(const char *content, Size size, Size *ret_size)
{
    void *bytes;
    int len;

    /*
     * A limit above the largest message of clairon.notify, and within the range of pg_b64_dec_len.
     */
    if (size == 0 || size > MaxAllocSize / 4)
        return NULL;
    bytes = palloc(pg_b64_dec_len((int)size) + 1);
    len = pg_b64_decode(content, (int)size, bytes, pg_b64_dec_len((int)size));
    if (len < 0)
        return NULL;
    *ret_size = len;
    return bytes;
}

static void
build_bytes(StringInfo out, const struct message *message, TransactionId xid,
            const uint8 secret[SECRET_BYTES])
{
    static const char no_mac[MESSAGE_MAC_BYTES] = {0};
    int targets_len = 0;

    for (int i = 0; i < message->targets.count; i++)
        targets_len += message->targets.lengths[i] + 2;
    pq_sendbyte(out, MESSAGE_VERSION);
    appendBinaryStringInfo(out, no_mac, MESSAGE_MAC_BYTES);
    appendBinaryStringInfo(out, (const char *)message->id.data, UUID_LEN);
    pq_sendint16(out, message->flags);
    pq_sendbyte(out, message->type);
    pq_sendbyte(out, message->priority);
    pq_sendbyte(out, message->backoff);
    pq_sendint16(out, message->retry_limit);
    pq_sendbyte(out, message->has_ttl);
    pq_sendint32(out, message->ttl.month);
    pq_sendint32(out, message->ttl.day);
    pq_sendint64(out, message->ttl.time);
    pq_sendint16(out, message->audience_len);
    pq_sendint16(out, message->source_len);
    pq_sendint16(out, message->topic == NULL ? MESSAGE_NO_TOPIC : message->topic_len);
    pq_sendint16(out, message->emitter_len);
    pq_sendint32(out, message->targets.count);
    pq_sendint32(out, targets_len);
    if ((message->flags & FRAME_ACK_TIMED) != 0)
        pq_sendint32(out, message->ack_timeout);
    if ((message->flags & FRAME_TRACED) != 0)
        appendBinaryStringInfo(out, message->traceparent, TRACEPARENT_LEN);
    appendBinaryStringInfo(out, message->audience, message->audience_len);
    appendBinaryStringInfo(out, message->source, message->source_len);
    if (message->topic != NULL)
        appendBinaryStringInfo(out, message->topic, message->topic_len);
    appendBinaryStringInfo(out, message->emitter, message->emitter_len);
    for (int i = 0; i < message->targets.count; i++) {
        pq_sendint16(out, message->targets.lengths[i]);
        appendBinaryStringInfo(out, message->targets.texts[i], message->targets.lengths[i]);
    }
    appendBinaryStringInfo(out, message->payload, message->payload_len);
    sign((uint8 *)out->data + MESSAGE_MAC_AT, xid, out->data + MESSAGE_SIGNED_AT,
         out->len - MESSAGE_SIGNED_AT, secret);
}

void
message_build(StringInfo out, const struct message *message, TransactionId xid,
              const uint8 secret[SECRET_BYTES])
{
    StringInfoData bytes;

    initStringInfo(&bytes);
    build_bytes(&bytes, message, xid, secret);
    append_base64(out, &bytes);
    pfree(bytes.data);
}

/* Constant time: the duration must not depend on the number of correct bytes in a guess. */
static bool
mac_equal(const uint8 *a, const uint8 *b)
{
    uint8 difference = 0;

    for (int i = 0; i < MESSAGE_MAC_BYTES; i++)
        difference |= a[i] ^ b[i];
    return difference == 0;
}

/* message_build wrote the signed bytes. pq_getmsg* raise an error past the end. */
static void
parse_signed(struct message *message, StringInfo in)
{
    int targets_len;

    memcpy(message->id.data, pq_getmsgbytes(in, UUID_LEN), UUID_LEN);
    message->flags = pq_getmsgint(in, 2);
    message->type = pq_getmsgbyte(in);
    message->priority = pq_getmsgbyte(in);
    message->backoff = pq_getmsgbyte(in);
    message->retry_limit = pq_getmsgint(in, 2);
    message->has_ttl = pq_getmsgbyte(in);
    message->ttl.month = pq_getmsgint(in, 4);
    message->ttl.day = pq_getmsgint(in, 4);
    message->ttl.time = pq_getmsgint64(in);
    message->audience_len = pq_getmsgint(in, 2);
    message->source_len = pq_getmsgint(in, 2);
    message->topic_len = pq_getmsgint(in, 2);
    message->emitter_len = pq_getmsgint(in, 2);
    message->targets.count = pq_getmsgint(in, 4);
    targets_len = pq_getmsgint(in, 4);
    if ((message->flags & FRAME_ACK_TIMED) != 0)
        message->ack_timeout = pq_getmsgint(in, 4);
    if ((message->flags & FRAME_TRACED) != 0)
        message->traceparent = pq_getmsgbytes(in, TRACEPARENT_LEN);
    message->audience = pq_getmsgbytes(in, message->audience_len);
    message->source = pq_getmsgbytes(in, message->source_len);
    if (message->topic_len != MESSAGE_NO_TOPIC)
        message->topic = pq_getmsgbytes(in, message->topic_len);
    message->emitter = pq_getmsgbytes(in, message->emitter_len);
    if (message->targets.count < 0 || message->targets.count > targets_len)
        elog(ERROR, "invalid clairon message: %d targets in %d bytes", message->targets.count,
             targets_len);
    target_list_reserve(&message->targets, message->targets.count);
    for (int i = 0; i < message->targets.count; i++) {
        message->targets.lengths[i] = pq_getmsgint(in, 2);
        message->targets.texts[i] = (char *)pq_getmsgbytes(in, message->targets.lengths[i]);
    }
    message->payload_len = in->len - in->cursor;
    message->payload = pq_getmsgbytes(in, message->payload_len);
}

void
message_read(struct message *ret_message, const char *bytes, Size size)
{
    struct message message = {0};
    StringInfoData in = {
        .data = (char *)bytes, .len = size, .maxlen = size, .cursor = MESSAGE_SIGNED_AT};

    parse_signed(&message, &in);
    *ret_message = message;
}

bool
message_parse(struct message *ret_message, const char *bytes, Size size, TransactionId xid,
              const uint8 secret[SECRET_BYTES])
{
    uint8 mac[MESSAGE_MAC_BYTES];

    if (size < MESSAGE_HEAD_SIZE || (uint8)bytes[0] != MESSAGE_VERSION)
        return false;
    sign(mac, xid, bytes + MESSAGE_SIGNED_AT, size - MESSAGE_SIGNED_AT, secret);
    if (!mac_equal(mac, (const uint8 *)bytes + MESSAGE_MAC_AT))
        return false;
    message_read(ret_message, bytes, size);
    return true;
}
