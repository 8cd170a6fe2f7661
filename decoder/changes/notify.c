/*
 * notify.c: clairon.notify, from the SQL function through a logical message to the notification.
 *
 * The layout of the content after its MAC (logical_message.c):
 *
 *   17 16  id
 *   33  2  flags          FRAME_ACK_REQUIRED | FRAME_RETRY_ENABLED | FRAME_TRACED |
 *                         FRAME_ACK_TIMED | FRAME_RECEIPTS | FRAME_WEB_PUSH
 *   35  1  type, 36 priority, 37 backoff: as in frame_format.h
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
 *          receipts (1) and escalations (2 times 4), as in frame_format.h; with FRAME_TRACED
 *          the traceparent, TRACEPARENT_LEN bytes; with FRAME_WEB_PUSH the text of the Web Push
 *          as length (2) + bytes; then audience, source, topic, emitter, targets, payload to the
 *          end
 */
#include "changes/changes.h"

#include "access/xlog.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
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
#include "protocol/frame_format.h"
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

/* The caller limits each string to less than 65535 bytes. */
static void
append_message(StringInfo out, const struct message *message)
{
    int targets_len = 0;

    for (int i = 0; i < message->targets.count; i++)
        targets_len += message->targets.lengths[i] + 2;
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
    StringInfoData bytes;

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
    message_begin(&bytes);
    append_message(&bytes, &message);
    message_write(MESSAGE_PREFIX, &bytes);
    warn_wal_level();
    PG_RETURN_VOID();
}

/* append_message wrote the bytes. pq_getmsg* raise an error past the end. */
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

/* Fills *ret_message, which points into the verified `bytes`. Targets are allocated. */
static void
message_read(struct message *ret_message, const char *bytes, Size size)
{
    struct message message = {0};
    StringInfoData in = {
        .data = (char *)bytes, .len = size, .maxlen = size, .cursor = MESSAGE_SIGNED_AT};

    parse_signed(&message, &in);
    *ret_message = message;
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
    notification_put_times(decoder, out, header, NULL);
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
    const char *bytes = message_verify(decoder, txn->xid, content, size, MESSAGE_HEAD_SIZE, &size);
    struct message message;
    struct fragment topic;

    if (bytes == NULL) {
        warning_count(decoder, 0, "notify",
                      "rejected: the message was not created by clairon.notify()");
        return;
    }
    /*
     * Other messages are not counted: one that directly precedes a row of another subtransaction
     * may be decoded after it, depending on streaming (logical_message.c).
     */
    decoder->change_number++;
    message_read(&message, bytes, size);
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
