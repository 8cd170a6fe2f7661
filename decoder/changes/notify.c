/* notify.c: convert messages of clairon.notify to notifications. */
#include "changes/changes.h"

#include "base/notify_message.h"
#include "decoder.h"
#include "encode/encode.h"
#include "encode/json.h"
#include "output/output.h"
#include "plan/plan.h"

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
        .priority = message->priority,
        .type = message->type,
        .operation = FRAME_OPERATION_NOTIFY,
        .backoff = message->backoff,
        .emitter = {message->emitter, message->emitter_len},
        .source = {message->source, message->source_len},
        .topic = {header->topic.bytes, header->topic.len},
        .traceparent = {message->traceparent, TRACEPARENT_LEN},
        .audience = {message->audience, message->audience_len},
        .ack_required = (message->flags & FRAME_ACK_REQUIRED) != 0,
        .retry_enabled = (message->flags & FRAME_RETRY_ENABLED) != 0,
        .retry_limit = message->retry_limit,
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
                                         .retry_limit = message->retry_limit,
                                         .ack_timeout = message->ack_timeout,
                                         .priority = message->priority,
                                         .type = message->type,
                                         .operation = FRAME_OPERATION_NOTIFY,
                                         .backoff = message->backoff,
                                         .audience = {message->audience, message->audience_len},
                                         .topic = topic,
                                         .rule = {"", 0},
                                         .targets = &message->targets};
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
