/* notification.c: render one notification of a row. */
#include "changes/notification.h"

#include "common/hashfn.h"
#include "utils/fmgrprotos.h"

#include "decoder.h"
#include "encode/envelope_json.h"
#include "encode/json.h"
#include "output/warning_throttle.h"
#include "plan/template.h"

/* The limits of clairon.watch and clairon.notify for the fields of a ttl, about 1000 years each. */
#define PART_MONTHS_MAX 12000
#define PART_DAYS_MAX 366000
#define PART_HOURS_MAX 8784000

/* A larger notification is rendered again with small values only. */
#define LINE_BYTES_MAX (32 * 1024 * 1024)

/* The value limit of that second rendering. */
#define STUB_VALUE_BYTES 512

/* A longer line stays minified: indentation grows with the depth. */
#define PRETTY_BYTES_MAX (256 * 1024 * 1024)

static void
put_fragment(StringInfo out, const struct fragment *fragment)
{
    encode_raw(out, fragment->bytes, fragment->len);
}

/* RFC 9562 version 8: 48 bits of commit time in ms, then 74 bits of a hash. */
static void
make_id(const struct decoder *decoder, const struct notification *notification, pg_uuid_t *ret_id)
{
    struct {
        uint64 change;
        uint64 part;
        uint64 rule;
    } origin = {decoder->change_number, notification->part, notification->plan->seed};
    uint64 ms = decoder->commit_us / 1000;
    uint64 hashes[2];

    for (int i = 0; i < 2; i++)
        hashes[i] =
            hash_bytes_extended((const unsigned char *)&origin, sizeof(origin), decoder->seeds[i]);
    for (int i = 0; i < 6; i++)
        ret_id->data[i] = ms >> (40 - 8 * i);
    memcpy(ret_id->data + 6, &hashes[0], 2);
    memcpy(ret_id->data + 8, &hashes[1], 8);
    ret_id->data[6] = (ret_id->data[6] & 0x0F) | 0x80;
    ret_id->data[8] = (ret_id->data[8] & 0x3F) | 0x80;
}

/* A single field may exceed the range of a timestamp even if the sum does not. */
static bool
can_be_added(const Interval *ttl)
{
    const int64 hours = ttl->time / USECS_PER_HOUR;

    return ttl->month >= -PART_MONTHS_MAX && ttl->month <= PART_MONTHS_MAX &&
           ttl->day >= -PART_DAYS_MAX && ttl->day <= PART_DAYS_MAX && hours >= -PART_HOURS_MAX &&
           hours <= PART_HOURS_MAX;
}

void
notification_set_expiration(struct decoder *decoder, struct notification_header *header,
                            const Interval *ttl)
{
    if (ttl == NULL)
        return;
    header->expires = DT_NOEND;
    if (can_be_added(ttl))
        header->expires = DatumGetTimestampTz(
            DirectFunctionCall2(timestamptz_pl_interval, TimestampTzGetDatum(decoder->commit_time),
                                IntervalPGetDatum(ttl)));
    header->expires = encode_clamp_time(header->expires);
    header->expires_us = decoder->commit_us + (header->expires - decoder->commit_time);
}

/* Writes a value, or null when it is too large or cannot be output. */
static void
put_value(StringInfo out, struct column *column, Datum value, bool is_null, Size value_limit)
{
    if (is_null) {
        encode_literal(out, "null");
    } else if (encode_raw_size(column->encoder, value) > value_limit) {
        column->state |= COLUMN_TRUNCATED;
        encode_literal(out, "null");
    } else if (column->encoder->risk == RISK_NONE) {
        column->encoder->write(column->encoder, out, value);
    } else if (!encode_guarded(column->encoder, out, value)) {
        column->state |= COLUMN_UNDECODABLE;
    }
}

/* Copies the column from the rendered `before`: copying is cheaper than rendering. */
static void
put_copy(StringInfo out, const struct column *column)
{
    char *dst = encode_reserve(out, column->rendered_len);

    memcpy(dst, out->data + column->rendered_at, column->rendered_len);
    out->len += column->rendered_len;
}

/* With `repeats`, copies unchanged columns from the first image in `out`. */
static void
put_image(StringInfo out, const struct plan *plan, const struct image *image, Size value_limit,
          bool repeats)
{
    int start;

    if (image == NULL) {
        encode_literal(out, "null");
        return;
    }
    encode_literal(out, "{");
    start = out->len;
    for (int i = 0; i < plan->column_count; i++) {
        struct column *column = &plan->columns[i];

        if (!image->whole && !column->is_key)
            continue;
        if (image_lacks(image, column->index, column->typlen)) {
            column->state |= COLUMN_UNCHANGED;
            continue;
        }
        if (out->len > start)
            encode_literal(out, ",");
        if (repeats && !(column->state & COLUMN_CHANGED)) {
            put_copy(out, column);
        } else {
            column->rendered_at = out->len;
            put_fragment(out, &column->name);
            put_value(out, column, image->values[column->index], image->nulls[column->index],
                      value_limit);
            column->rendered_len = out->len - column->rendered_at;
        }
        if (encode_is_over(column->encoder, out))
            return;
    }
    encode_literal(out, "}");
}

/* Writes the names of the columns that have the state. */
static void
put_names(StringInfo out, const struct plan *plan, const char *key, uint8 state)
{
    bool first = true;

    encode_raw(out, key, strlen(key));
    for (int i = 0; i < plan->column_count; i++) {
        const struct column *column = &plan->columns[i];

        if (!(column->state & state))
            continue;
        if (!first)
            encode_literal(out, ",");
        first = false;
        encode_raw(out, column->name.bytes, column->name.len - 1);
    }
    encode_literal(out, "]");
}

/* The rendered images. */
struct rendering {
    uint8 states; /* the union of the column states */
    int after;    /* offsets of `after` and of its end in the buffer */
    int after_end;
};

static struct rendering
put_images(StringInfo out, const struct notification *notification, Size value_limit)
{
    const struct plan *plan = notification->plan;
    bool compared = notification->operation == FRAME_OPERATION_UPDATE &&
                    notification->before != NULL && notification->before->whole;
    struct rendering rendering = {0};

    for (int i = 0; i < plan->column_count; i++)
        plan->columns[i].state &= COLUMN_CHANGED;
    encode_literal(out, "{\"before\":");
    put_image(out, plan, notification->before, value_limit, false);
    encode_literal(out, ",\"after\":");
    rendering.after = out->len;
    put_image(out, plan, notification->after, value_limit, compared);
    rendering.after_end = out->len;
    for (int i = 0; i < plan->column_count; i++)
        rendering.states |= plan->columns[i].state;
    if (rendering.states & COLUMN_UNCHANGED)
        put_names(out, plan, ",\"unchanged\":[", COLUMN_UNCHANGED);
    if (compared)
        put_names(out, plan, ",\"changed\":[", COLUMN_CHANGED);
    if (rendering.states & COLUMN_TRUNCATED)
        put_names(out, plan, ",\"truncated\":[", COLUMN_TRUNCATED);
    if (rendering.states & COLUMN_UNDECODABLE)
        put_names(out, plan, ",\"undecodable\":[", COLUMN_UNDECODABLE);
    return rendering;
}

/* Renders the payload, except its closing brace. */
static struct rendering
render_payload(struct decoder *decoder, StringInfo out, const struct notification *notification)
{
    const Size limits[] = {decoder->options.max_value_bytes,
                           Min(STUB_VALUE_BYTES, decoder->options.max_value_bytes), 0};
    int start = out->len;
    struct rendering rendering = {0};

    decoder->settings.limit = start + LINE_BYTES_MAX;
    for (size_t i = 0; i < lengthof(limits); i++) {
        out->len = start;
        rendering = put_images(out, notification, limits[i]);
        if (out->len <= decoder->settings.limit)
            break;
    }
    decoder->settings.limit = PG_INT32_MAX;
    return rendering;
}

/* Calls render_payload. Returns true when a value could not be output. */
static bool
put_payload(struct decoder *decoder, StringInfo out, const struct notification *notification)
{
    return (render_payload(decoder, out, notification).states & COLUMN_UNDECODABLE) != 0;
}

void
notification_put_times(struct decoder *decoder, StringInfo out,
                       const struct notification_header *header)
{
    encode_raw(out, decoder->commit_text, decoder->commit_text_len);
    if (header->expires_us != 0) {
        encode_literal(out, "\"" ENVELOPE_EXPIRATION_TEXT "\"");
        out->len = encode_instant(encode_reserve(out, 40), header->expires) - out->data;
    }
    encode_literal(out, "\"" ENVELOPE_PAYLOAD_TEXT);
}

/* Returns true when a value could not be output. */
static bool
put_notification_line(struct decoder *decoder, StringInfo out,
                      const struct notification *notification,
                      const struct notification_header *header)
{
    bool undecodable = notification->undecodable;

    encode_literal(out, ENVELOPE_ID_TEXT "\"");
    encode_put_uuid(out, &header->id);
    if (notification->emitter.bytes != NULL) {
        put_fragment(out, &notification->plan->metadata_start);
        put_fragment(out, &notification->emitter);
    }
    put_fragment(out, &notification->plan->metadata[notification->operation]);
    notification_put_times(decoder, out, header);
    if (notification->payload.bytes != NULL)
        put_fragment(out, &notification->payload);
    else
        undecodable = put_payload(decoder, out, notification);
    put_fragment(out, &notification->plan->routing);
    encode_targets(&decoder->settings, out, notification->targets, decoder->options.framed);
    put_fragment(out, &notification->plan->retry);
    return undecodable;
}

/* Sub-ordinals follow the order of update_column_targets. */
static uint32
sub_ordinal(const struct notification *notification)
{
    static const uint32 SUBS[] = {[PART_LOSERS] = 0, [PART_MAIN] = 1, [PART_GAINERS] = 2};

    return notification->plan->sub + SUBS[notification->part];
}

static void
fill_header(struct decoder *decoder, const struct notification *notification,
            struct notification_header *header)
{
    const struct plan *plan = notification->plan;
    const struct rule *rule = plan->rule;

    make_id(decoder, notification, &header->id);
    header->ordinal = FRAME_ORDINAL(decoder->change_number, sub_ordinal(notification));
    header->flags = rule_flags(rule);
    header->retry_limit = rule->retry_limit;
    header->ack_timeout = rule->ack_timeout;
    header->priority = rule->priority;
    header->type = rule->type;
    header->operation = notification->operation;
    header->backoff = rule->backoff;
    header->audience = (struct fragment){rule->audience, strlen(rule->audience)};
    header->topic = plan->topic;
    header->rule = plan->live_rule;
    header->targets = notification->targets;
    notification_set_expiration(decoder, header, rule->ttl);
}

static void
warn_undecodable(struct decoder *decoder, const struct plan *plan)
{
    for (int i = 0; i < plan->column_count; i++) {
        const struct column *column = &plan->columns[i];

        if (column->state & COLUMN_UNDECODABLE)
            warning_count_reason(
                decoder, plan->seed, plan->label,
                "sent as null, listed in payload.undecodable: could not output a value",
                column->encoder->fault);
    }
}

struct fragment
notification_render_row(struct decoder *decoder, StringInfo out, const struct plan *plan,
                        const struct image *row)
{
    const struct notification create = {
        .plan = plan, .operation = FRAME_OPERATION_CREATE, .after = row};
    struct rendering rendering;

    resetStringInfo(out);
    rendering = render_payload(decoder, out, &create);
    if (rendering.states & COLUMN_UNDECODABLE)
        warn_undecodable(decoder, plan);
    return (struct fragment){out->data + rendering.after, rendering.after_end - rendering.after};
}

static void
put_spool_targets(StringInfo out, const struct target_list *targets)
{
    for (int i = 0; i < targets->count; i++) {
        uint16 length = targets->lengths[i];

        encode_raw(out, (const char *)&length, sizeof(length));
        encode_raw(out, targets->texts[i], length);
    }
}

static void
put_spool_emitter(StringInfo out, const struct fragment *emitter)
{
    uint16 length = emitter->len;

    encode_raw(out, (const char *)&length, sizeof(length));
    encode_raw(out, emitter->bytes, length);
}

static void
spool_notification(struct decoder *decoder, const struct notification *notification)
{
    uint32 template = spool_template(decoder, notification->plan);
    struct spool_record record;
    StringInfo out = spool_open(decoder, SPOOL_NOTIFICATION, template, &record);

    record.operation = notification->operation;
    record.part = notification->part;
    record.target_count = notification->targets->count;
    if (notification->emitter.bytes != NULL) {
        record.flags |= SPOOL_EMITTER;
        put_spool_emitter(out, &notification->emitter);
    }
    if (notification->targets == &notification->plan->rule->literal)
        record.flags |= SPOOL_LITERAL;
    else
        put_spool_targets(out, notification->targets);
    if (put_payload(decoder, out, notification))
        record.flags |= SPOOL_UNDECODABLE;
    spool_close(decoder, &record);
    if (record.flags & SPOOL_UNDECODABLE)
        warn_undecodable(decoder, notification->plan);
}

void
notification_write(LogicalDecodingContext *ctx, const struct notification *notification)
{
    struct decoder *decoder = ctx->output_plugin_private;
    const struct options *options = &decoder->options;
    struct notification_header header = {0};
    bool undecodable;
    StringInfo out;
    int frame = 0;
    int line;

    if (decoder->spool != NULL) {
        spool_notification(decoder, notification);
        return;
    }
    out = frames_open(ctx);
    fill_header(decoder, notification, &header);
    if (options->framed)
        frame = frames_put_header(decoder, out, &header);
    line = out->len;
    undecodable = put_notification_line(decoder, out, notification, &header);
    /* The warning of a replayed notification is a separate record. */
    if (undecodable && notification->payload.bytes == NULL)
        warn_undecodable(decoder, notification->plan);
    if (undecodable && options->framed)
        frames_add_flags(out, frame, FRAME_UNDECODABLE);
    if (options->framed)
        frames_finish(out, frame);
    else if (options->pretty)
        notification_indent(out, line);
    frames_close(ctx);
}

void
notification_indent(StringInfo out, int start)
{
    int len = out->len - start;
    size_t indented = json_pretty_len(out->data + start, len);
    char *line;

    if (indented > PRETTY_BYTES_MAX)
        return;
    line = palloc(len);
    memcpy(line, out->data + start, len);
    out->len = start;
    (void)encode_reserve(out, indented);
    out->len = json_pretty(out->data + start, line, len) - out->data;
    pfree(line);
}
