/*
 * notify.c: clairon.notify, from the SQL function through a logical message to the notification.
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
 *                         FRAME_ACK_TIMED | FRAME_RECEIPTS | FRAME_WEB_PUSH
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
 *   73     with FRAME_ACK_TIMED the acknowledgement timeout in ms (4); with FRAME_RECEIPTS
 *          receipts (1) and escalations (2 times 4), as in frame.h; with FRAME_TRACED
 *          the traceparent, TRACEPARENT_LEN bytes; with FRAME_WEB_PUSH the text of the Web Push
 *          as length (2) + bytes; then audience, source, topic, emitter, targets, payload to the
 *          end
 */
#include "changes/changes.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "common/base64.h"
#include "common/hmac.h"
#include "common/sha2.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
#include "replication/message.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "decoder.h"
#include "encode/encode.h"
#include "encode/json.h"
#include "output/output.h"
#include "plan/plan.h"
#include "protocol/frame.h"
#include "protocol/limits.h"
#include "protocol/traceparent.h"

#define PAYLOAD_BYTES_MAX (1024 * 1024)
#define TEXT_BYTES_MAX 1024

/* Arguments of clairon_emit that may be NULL. */
#define EMIT_TOPIC 7
#define EMIT_TTL 9
#define EMIT_ACK_TIMEOUT 13
#define EMIT_RECEIPTS 14
#define EMIT_ESCALATIONS 15
#define EMIT_WEB_PUSH 16

PG_FUNCTION_INFO_V1(clairon_emit);

#define MESSAGE_VERSION 1
#define MESSAGE_MAC_AT 1
#define MESSAGE_MAC_BYTES 16
#define MESSAGE_SIGNED_AT (MESSAGE_MAC_AT + MESSAGE_MAC_BYTES)
#define MESSAGE_HEAD_SIZE 73
#define MESSAGE_NO_TOPIC 0xFFFF

struct message {
    pg_uuid_t id;
    uint16 flags;
    struct delivery delivery; /* without ack_required: see `flags` */
    bool has_ttl;
    Interval ttl;
    const char *traceparent;  /* TRACEPARENT_LEN bytes, with FRAME_TRACED */
    struct fragment web_push; /* with FRAME_WEB_PUSH */
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

/* Appends the signed message. The caller limits each string to less than 65535 bytes. */
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
    pq_sendbyte(out, message->delivery.type);
    pq_sendbyte(out, message->delivery.priority);
    pq_sendbyte(out, message->delivery.backoff);
    pq_sendint16(out, message->delivery.retry_limit);
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
        pq_sendint32(out, message->delivery.ack_timeout);
    if ((message->flags & FRAME_RECEIPTS) != 0) {
        pq_sendbyte(out, message->delivery.receipts);
        for (int i = 0; i < FRAME_ESCALATIONS; i++)
            pq_sendint32(out, message->delivery.escalations[i]);
    }
    if ((message->flags & FRAME_TRACED) != 0)
        appendBinaryStringInfo(out, message->traceparent, TRACEPARENT_LEN);
    if ((message->flags & FRAME_WEB_PUSH) != 0) {
        pq_sendint16(out, message->web_push.len);
        appendBinaryStringInfo(out, message->web_push.bytes, message->web_push.len);
    }
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

static const char *
utf8_argument(FunctionCallInfo fcinfo, int number, const char *parameter, int bytes_max,
              int *ret_len)
{
    char *plain = text_to_cstring(PG_GETARG_TEXT_PP(number));
    const char *utf8 = encode_to_utf8(plain, strlen(plain), ret_len);

    if (*ret_len > bytes_max)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("parameter \"%s\" is longer than %d bytes", parameter, bytes_max)));
    return utf8;
}

static void
read_targets(struct target_list *list, ArrayType *array, int bytes_max)
{
    encode_read_targets(list, array);
    for (int i = 0; i < list->count; i++)
        if (list->lengths[i] > bytes_max)
            ereport(ERROR,
                    (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                     errmsg("parameter \"targets\" has a value longer than %d bytes", bytes_max)));
}

static void
read_payload(struct message *message, Datum payload)
{
    const struct encode_settings settings = {.limit = PAYLOAD_BYTES_MAX};
    struct encoder encoder = {.settings = &settings};
    StringInfoData text;

    initStringInfo(&text);
    encode_jsonb(&encoder, &text, payload);
    if (text.len > PAYLOAD_BYTES_MAX)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("parameter \"payload\" is larger than 1 MB")));
    message->payload = text.data;
    message->payload_len = text.len;
}

/*
 * Reads the setting clairon.traceparent. Tracing code sets it for a session or a transaction,
 * without changes in the code that calls notify. An invalid value causes a warning, not an error.
 */
static void
read_traceparent(struct message *message)
{
    const char *given = GetConfigOption("clairon.traceparent", true, false);
    char *parsed = palloc(TRACEPARENT_LEN + 1);

    if (given == NULL || given[0] == '\0')
        return;
    if (!traceparent_read(given, strlen(given), parsed)) {
        ereport(WARNING,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                 errmsg("invalid value for parameter \"clairon.traceparent\": \"%s\"", given),
                 errdetail("The notification is sent without a traceparent."),
                 errhint("The format is " TRACEPARENT_VALID ".")));
        return;
    }
    message->traceparent = parsed;
    message->flags |= FRAME_TRACED;
}

/* The message is in the WAL, but it cannot be decoded. */
static void
warn_wal_level(void)
{
    if (XLogLogicalInfoActive())
        return;
    ereport(WARNING,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("wal_level is insufficient for logical decoding"),
             errdetail("The notification is lost."),
             errhint("Set wal_level = logical in postgresql.conf and restart the server.")));
}

static void
write_message(const struct message *message)
{
    TransactionId xid = GetTopTransactionId();
    uint8 secret[SECRET_BYTES];
    StringInfoData bytes;
    StringInfoData content;

    if (!rules_read_secret(get_namespace_oid("clairon", false), secret))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("table \"clairon.secret\" is empty")));
    initStringInfo(&bytes);
    initStringInfo(&content);
    build_bytes(&bytes, message, xid, secret);
    append_base64(&content, &bytes);
#if PG_VERSION_NUM >= 170000
    (void)LogLogicalMessage(MESSAGE_PREFIX, content.data, content.len, true, false);
#else
    (void)LogLogicalMessage(MESSAGE_PREFIX, content.data, content.len, true);
#endif
}

/* clairon.notify has checked the arguments. A direct call of emit must not crash the server. */
static void
check_arguments(FunctionCallInfo fcinfo)
{
    for (int i = 0; i < PG_NARGS(); i++)
        if (PG_ARGISNULL(i) && i != EMIT_TOPIC && i != EMIT_TTL && i != EMIT_ACK_TIMEOUT &&
            i != EMIT_ESCALATIONS && i != EMIT_WEB_PUSH)
            ereport(ERROR,
                    (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                     errmsg("argument %d of function clairon_internal.emit() must not be null",
                            i + 1)));
    if (!frame_values_are_valid(PG_GETARG_INT16(4), PG_GETARG_INT16(5), PG_GETARG_INT16(12)))
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                 errmsg("arguments type, priority and backoff of function clairon_internal.emit() "
                        "must be between 0 and 2")));
    if (PG_GETARG_INT16(EMIT_RECEIPTS) < FRAME_RECEIPTS_NONE ||
        PG_GETARG_INT16(EMIT_RECEIPTS) > FRAME_RECEIPTS_USER)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("argument receipts of function clairon_internal.emit() must be "
                               "between 0 and 2")));
}

static void
read_receipts(struct message *message, FunctionCallInfo fcinfo)
{
    message->delivery.receipts = PG_GETARG_INT16(EMIT_RECEIPTS);
    if (!PG_ARGISNULL(EMIT_ESCALATIONS))
        rule_read_escalations(&message->delivery, PG_GETARG_ARRAYTYPE_P(EMIT_ESCALATIONS));
    if (delivery_has_receipts(&message->delivery))
        message->flags |= FRAME_RECEIPTS;
}

/*
 * emit(id uuid, audience text, targets text[], payload jsonb, type int2, priority int2, source
 * text, topic text, emitter text, ttl interval, ack_required bool, retry_limit int4, backoff int2,
 * ack_timeout int8, receipts int2, escalations int8[], web_push text). Only topic, ttl,
 * ack_timeout, escalations and web_push may be NULL.
 */
Datum
clairon_emit(PG_FUNCTION_ARGS)
{
    struct message message = {0};

    PreventCommandDuringRecovery("clairon.notify()");
    check_arguments(fcinfo);
    message.id = *PG_GETARG_UUID_P(0);
    message.audience = utf8_argument(fcinfo, 1, "audience", TEXT_BYTES_MAX, &message.audience_len);
    read_targets(&message.targets, PG_GETARG_ARRAYTYPE_P(2),
                 strchr(message.audience, '+') != NULL ? LIMIT_COMPOSITE : LIMIT_TARGET);
    read_payload(&message, PG_GETARG_DATUM(3));
    message.delivery.type = PG_GETARG_INT16(4);
    message.delivery.priority = PG_GETARG_INT16(5);
    message.source = utf8_argument(fcinfo, 6, "source", TEXT_BYTES_MAX, &message.source_len);
    if (!PG_ARGISNULL(EMIT_TOPIC))
        message.topic =
            utf8_argument(fcinfo, EMIT_TOPIC, "topic", TEXT_BYTES_MAX, &message.topic_len);
    message.emitter = utf8_argument(fcinfo, 8, "emitter", TEXT_BYTES_MAX, &message.emitter_len);
    message.has_ttl = !PG_ARGISNULL(EMIT_TTL);
    if (message.has_ttl)
        message.ttl = *PG_GETARG_INTERVAL_P(EMIT_TTL);
    message.flags = PG_GETARG_BOOL(10) ? FRAME_ACK_REQUIRED | FRAME_RETRY_ENABLED : 0;
    if (PG_GETARG_BOOL(10) && !PG_ARGISNULL(EMIT_ACK_TIMEOUT)) {
        message.delivery.ack_timeout = (uint32)PG_GETARG_INT64(EMIT_ACK_TIMEOUT);
        message.flags |= FRAME_ACK_TIMED;
    }
    if (PG_GETARG_BOOL(10))
        read_receipts(&message, fcinfo);
    read_traceparent(&message);
    if (!PG_ARGISNULL(EMIT_WEB_PUSH)) {
        message.web_push.bytes =
            utf8_argument(fcinfo, EMIT_WEB_PUSH, "web_push", LIMIT_WEB_PUSH, &message.web_push.len);
        message.flags |= FRAME_WEB_PUSH;
    }
    message.delivery.retry_limit = PG_GETARG_INT32(11);
    message.delivery.backoff = PG_GETARG_INT16(12);
    write_message(&message);
    warn_wal_level();
    PG_RETURN_VOID();
}

/*
 * Decodes the content of a logical message, in the current memory context. Returns NULL when the
 * content is not base64.
 */
static const char *
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

/* Constant time: the duration must not depend on the number of correct bytes in a guess. */
static bool
mac_equal(const uint8 *a, const uint8 *b)
{
    uint8 difference = 0;

    for (int i = 0; i < MESSAGE_MAC_BYTES; i++)
        difference |= a[i] ^ b[i];
    return difference == 0;
}

/* build_bytes wrote the signed bytes. pq_getmsg* raise an error past the end. */
static void
parse_signed(struct message *message, StringInfo in)
{
    int targets_len;

    memcpy(message->id.data, pq_getmsgbytes(in, UUID_LEN), UUID_LEN);
    message->flags = pq_getmsgint(in, 2);
    message->delivery.type = pq_getmsgbyte(in);
    message->delivery.priority = pq_getmsgbyte(in);
    message->delivery.backoff = pq_getmsgbyte(in);
    message->delivery.retry_limit = pq_getmsgint(in, 2);
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
        message->delivery.ack_timeout = pq_getmsgint(in, 4);
    if ((message->flags & FRAME_RECEIPTS) != 0) {
        message->delivery.receipts = pq_getmsgbyte(in);
        for (int i = 0; i < FRAME_ESCALATIONS; i++)
            message->delivery.escalations[i] = pq_getmsgint(in, FRAME_ESCALATION_SIZE);
    }
    if ((message->flags & FRAME_TRACED) != 0)
        message->traceparent = pq_getmsgbytes(in, TRACEPARENT_LEN);
    if ((message->flags & FRAME_WEB_PUSH) != 0) {
        message->web_push.len = pq_getmsgint(in, 2);
        message->web_push.bytes = pq_getmsgbytes(in, message->web_push.len);
    }
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

/* Like message_parse, for a message that message_parse has already verified. */
static void
message_read(struct message *ret_message, const char *bytes, Size size)
{
    struct message message = {0};
    StringInfoData in = {
        .data = (char *)bytes, .len = size, .maxlen = size, .cursor = MESSAGE_SIGNED_AT};

    parse_signed(&message, &in);
    *ret_message = message;
}

/*
 * Fills *ret_message, which points into `bytes`, as returned by message_unpack. Targets are
 * allocated. Returns false unless write_message wrote the message in this transaction.
 */
static bool
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

/* Derives the topic like the topic of a rule, with the topic_prefix of this decoding session. */
static struct fragment
topic_of(struct decoder *decoder, const struct message *message)
{
    StringInfoData topic;
    const char *prefix = decoder->options.topic_prefix;
    char *utf8;
    int len;

    if (message->topic != NULL)
        return (struct fragment){message->topic, message->topic_len};
    initStringInfo(&topic);
    utf8 = encode_to_utf8(pstrdup(prefix), strlen(prefix), &len);
    appendBinaryStringInfo(&topic, utf8, len);
    if (len > 0)
        appendStringInfoChar(&topic, '.');
    appendBinaryStringInfo(&topic, message->source, message->source_len);
    return (struct fragment){topic.data, topic.len};
}

static void
put_message_line(struct decoder *decoder, StringInfo out, const struct message *message,
                 const struct notification_header *header)
{
    struct envelope envelope = {
        .priority = message->delivery.priority,
        .type = message->delivery.type,
        .operation = FRAME_OPERATION_NOTIFY,
        .backoff = message->delivery.backoff,
        .emitter = {message->emitter, message->emitter_len},
        .source = {message->source, message->source_len},
        .topic = {header->topic.bytes, header->topic.len},
        .traceparent = {message->traceparent, TRACEPARENT_LEN},
        .audience = {message->audience, message->audience_len},
        .ack_required = (message->flags & FRAME_ACK_REQUIRED) != 0,
        .retry_enabled = (message->flags & FRAME_RETRY_ENABLED) != 0,
        .retry_limit = message->delivery.retry_limit,
    };
    char *dst;

    encode_literal(out, ENVELOPE_ID_TEXT "\"");
    encode_put_uuid(out, &header->id);
    encode_literal(out, "\"");
    encode_envelope(&decoder->settings, out, &envelope, ENVELOPE_PRIORITY, ENVELOPE_TRACEPARENT);
    encode_literal(out, ENVELOPE_TIMESTAMP_TEXT "\"");
    notification_put_times(decoder, out, header);
    dst = encode_reserve(out, JSON_ESCAPE_GROWTH * message->payload_len);
    out->len = json_compact(dst, message->payload, message->payload_len, decoder->settings.ascii) -
               out->data;
    encode_envelope(&decoder->settings, out, &envelope, ENVELOPE_AUDIENCE, ENVELOPE_TARGETS);
    encode_targets(&decoder->settings, out, &message->targets, decoder->options.framed);
    encode_envelope(&decoder->settings, out, &envelope, ENVELOPE_ACK_REQUIRED, ENVELOPE_END);
}

static void
write_notification(LogicalDecodingContext *ctx, const struct message *message,
                   struct fragment topic)
{
    struct decoder *decoder = ctx->output_plugin_private;
    StringInfo out = frames_open(ctx);
    struct notification_header header = {.id = message->id,
                                         .ordinal = FRAME_ORDINAL(decoder->change_number, 0),
                                         .flags = message->flags,
                                         .delivery = message->delivery,
                                         .operation = FRAME_OPERATION_NOTIFY,
                                         .audience = {message->audience, message->audience_len},
                                         .topic = topic,
                                         .rule = {"", 0},
                                         .targets = &message->targets,
                                         .web_push = message->web_push};
    int frame = 0;
    int line;

    notification_set_expiration(decoder, &header, message->has_ttl ? &message->ttl : NULL);
    if (decoder->options.framed)
        frame = frames_put_header(decoder, out, &header);
    line = out->len;
    put_message_line(decoder, out, message, &header);
    if (decoder->options.framed)
        frames_finish(out, frame);
    else if (decoder->options.pretty)
        notification_indent(out, line);
    frames_close(ctx);
}

static void
spool_message(struct decoder *decoder, struct fragment topic, const char *bytes, Size size)
{
    struct spool_record record;
    StringInfo out = spool_open(decoder, SPOOL_MESSAGE, topic.len, &record);

    encode_raw(out, topic.bytes, topic.len);
    encode_raw(out, bytes, size);
    spool_close(decoder, &record);
}

void
notify_write(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, const char *content, Size size)
{
    struct decoder *decoder = ctx->output_plugin_private;
    const char *bytes = message_unpack(content, size, &size);
    struct message message;
    struct fragment topic;

    relation_refresh_rules(decoder, txn->xid);
    if (bytes == NULL || !decoder->rules->has_secret ||
        !message_parse(&message, bytes, size, txn->xid, decoder->rules->secret)) {
        warning_count(decoder, 0, "notify",
                      "rejected: the message was not created by clairon.notify()");
        return;
    }
    topic = topic_of(decoder, &message);
    if (decoder->spool != NULL)
        spool_message(decoder, topic, bytes, size);
    else
        write_notification(ctx, &message, topic);
}

void
notify_replay(LogicalDecodingContext *ctx, const char *bytes, int topic_len, Size size)
{
    struct message message;

    message_read(&message, bytes + topic_len, size - topic_len);
    write_notification(ctx, &message, (struct fragment){bytes, topic_len});
}

void
notify_count_repeat(struct decoder *decoder)
{
    struct spool_record record;

    if (decoder->spool == NULL) {
        decoder->repeats++;
        return;
    }
    (void)spool_open(decoder, SPOOL_REPEAT, 0, &record);
    spool_close(decoder, &record);
}
