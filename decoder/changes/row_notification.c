/* row_notification.c: render one notification of a row. */
#include "changes/changes.h"

#include "common/hashfn.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"

#include "decoder.h"
#include "encode/encode.h"
#include "encode/json.h"
#include "output/output.h"
#include "plan/plan.h"

/* The limits of clairon.watch and clairon.notify for the fields of a ttl, about 1000 years each. */
#define PART_MONTHS_MAX 12000
#define PART_DAYS_MAX 366000
#define PART_HOURS_MAX 8784000

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

/*
 * Writes a value, or null when it is too large or cannot be output. A column may contain as much
 * memory as a row: nothing but its JSON is kept.
 */
static void
put_value(StringInfo out, struct column *column, Datum value, bool is_null, Size value_limit)
{
    MemoryContext values = column->encoder->encoders->values;
    MemoryContext old = MemoryContextSwitchTo(values);

    if (is_null) {
        encode_literal(out, "null");
    } else if (encode_raw_size(column->encoder, value) > value_limit) {
        column->state |= COLUMN_TRUNCATED;
        encode_literal(out, "null");
    } else if (column->encoder->risk == RISK_NONE) {
        column->encoder->write(column->encoder, out, value);
    } else if (!encode_guarded(column->encoder, out, value)) {
        column->state |= COLUMN_UNDECODABLE;
        column->encoder->fault = MemoryContextStrdup(old, column->encoder->fault);
    }
    MemoryContextSwitchTo(old);
    MemoryContextReset(values);
}

/* Copies the column from the rendered `before`: copying is cheaper than rendering. */
static void
put_copy(StringInfo out, struct column *column)
{
    char *dst = encode_reserve(out, column->rendered_len);

    memcpy(dst, out->data + column->rendered_at, column->rendered_len);
    column->rendered_at = out->len;
    out->len += column->rendered_len;
}

/* An image while it is rendered, from `start` in the buffer. */
struct row_json {
    const struct plan *plan;
    const struct image *image;
    int start;
    int dropped; /* bytes of values that fit_row will remove */
    int limit;
};

/* True for a column that the image contains. */
static bool
has_value(const struct row_json *row, const struct column *column)
{
    return (row->image->whole || column->is_key) &&
           !image_lacks(row->image, column->index, column->typlen);
}

/* Removes the dropped values, up to the column `count`, from the buffer. */
static void
remove_dropped(StringInfo out, struct row_json *row, int count)
{
    const struct plan *plan = row->plan;
    int end = row->start;

    for (int i = 0; i < count; i++) {
        struct column *column = &plan->columns[plan->picks[i]];
        char *dst;

        if (!has_value(row, column))
            continue;
        if (end > row->start)
            out->data[end++] = ',';
        dst = out->data + end;
        if (column->state & COLUMN_DROPPED && column->rendered_len > column->name.len + 4) {
            memmove(dst, out->data + column->rendered_at, column->name.len);
            memcpy(dst + column->name.len, "null", 4);
            column->rendered_len = column->name.len + 4;
        } else {
            memmove(dst, out->data + column->rendered_at, column->rendered_len);
        }
        column->rendered_at = end;
        end += column->rendered_len;
    }
    out->len = end;
    row->dropped = 0;
}

/* Returns the first of the longest values up to the column `count`; NULL: all are short. */
static struct column *
find_longest(const struct row_json *row, int count)
{
    const struct plan *plan = row->plan;
    struct column *longest = NULL;
    int max = 4; /* the length of null */

    for (int i = 0; i < count; i++) {
        struct column *column = &plan->columns[plan->picks[i]];
        int len = column->rendered_len - column->name.len;

        if (len > max && !(column->state & COLUMN_DROPPED) && has_value(row, column)) {
            max = len;
            longest = column;
        }
    }
    return longest;
}

/*
 * Drops the longest values rendered so far until the rest fits. The result is the same as if all
 * values had been rendered first: after each drop the free space is less than the dropped value. So
 * a later value that fits is shorter than all dropped values. The buffer never contains more than
 * three times the limit: dropped values are removed when they take as much as the limit, and at the
 * end of the row. Returns the bytes of the newly dropped values.
 */
static int
fit_row(StringInfo out, struct row_json *row, int count)
{
    int start = row->dropped;
    int added;

    while (out->len - row->start - row->dropped > row->limit) {
        struct column *longest = find_longest(row, count);

        if (longest == NULL)
            break;
        longest->state |= COLUMN_TRUNCATED | COLUMN_DROPPED;
        row->dropped += longest->rendered_len - longest->name.len - 4;
    }
    added = row->dropped - start;
    if (row->dropped > row->limit)
        remove_dropped(out, row, count);
    return added;
}

/*
 * After this number of rows of max_row_bytes was dropped from a notification, longer values than
 * LATE_VALUE_BYTES are dropped without rendering the rest: a row of 8 kB may contain a hundred
 * values that print several MB each.
 */
#define DROPPED_ROWS_MAX 8
#define LATE_VALUE_BYTES 65536

/* Renders a column. `limit` is that of its image. Returns the bytes of a value that is dropped. */
static int
put_column(struct decoder *decoder, StringInfo out, struct column *column, Datum value,
           bool is_null, int limit, bool is_late)
{
    int start;

    if (unlikely(column->state & COLUMN_DROPPED))
        column->state &= ~COLUMN_DROPPED;
    column->rendered_at = out->len;
    put_fragment(out, &column->name);
    start = out->len;
    decoder->settings.limit = is_late ? Min(limit, start + LATE_VALUE_BYTES) : limit;
    put_value(out, column, value, is_null, decoder->options.max_value_bytes);
    if (unlikely(is_late && out->len > start + LATE_VALUE_BYTES)) {
        int dropped = out->len - start;

        out->len = start;
        encode_literal(out, "null");
        column->state |= COLUMN_TRUNCATED;
        column->rendered_len = out->len - column->rendered_at;
        return dropped;
    }
    column->rendered_len = out->len - column->rendered_at;
    return 0;
}

/*
 * With `repeats`, copies unchanged columns from the first image in `out`. Adds the bytes of dropped
 * values to *dropped_bytes. Returns the union of the columns' states.
 */
static uint8
put_image(struct decoder *decoder, StringInfo out, const struct plan *plan,
          const struct image *image, bool repeats, int64 *dropped_bytes)
{
    struct row_json row = {plan, image, 0, 0, 0};
    int max = decoder->options.max_row_bytes;
    uint8 states = 0;
    int limit;

    if (image == NULL) {
        encode_literal(out, "null");
        return 0;
    }
    encode_literal(out, "{");
    row.start = out->len;
    row.limit = max - 2; /* braces */
    /* A value above the limit may be cut off here, since it will be dropped. */
    limit = out->len + 3 * max;
    for (int i = 0; i < plan->pick_count; i++) {
        struct column *column = &plan->columns[plan->picks[i]];

        if (!image->whole && !column->is_key)
            continue;
        if (image_lacks(image, column->index, column->typlen)) {
            column->state |= COLUMN_UNCHANGED;
            states |= COLUMN_UNCHANGED;
            continue;
        }
        if (out->len > row.start)
            encode_literal(out, ",");
        if (repeats && !(column->state & (COLUMN_CHANGED | COLUMN_DROPPED))) {
            put_copy(out, column);
        } else {
            bool is_late = *dropped_bytes > (int64)DROPPED_ROWS_MAX * max;

            *dropped_bytes += put_column(decoder, out, column, image->values[column->index],
                                         image->nulls[column->index], limit, is_late);
            states |= column->state;
        }
        if (unlikely(out->len - row.start - row.dropped > row.limit)) {
            int added = fit_row(out, &row, i + 1);

            *dropped_bytes += added;
            if (added > 0)
                states |= COLUMN_TRUNCATED;
        }
    }
    if (row.dropped > 0)
        remove_dropped(out, &row, plan->pick_count);
    encode_literal(out, "}");
    return states;
}

/* Writes the names of the columns that have the state. */
static void
put_names(StringInfo out, const struct plan *plan, const char *key, uint8 state)
{
    bool first = true;

    encode_raw(out, key, strlen(key));
    for (int i = 0; i < plan->pick_count; i++) {
        const struct column *column = &plan->columns[plan->picks[i]];

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
    int64 dropped_bytes; /* of values that were rendered, but are not in the buffer */
};

/* Renders the payload, except its closing brace. */
static struct rendering
put_payload(struct decoder *decoder, StringInfo out, const struct notification *notification)
{
    const struct plan *plan = notification->plan;
    bool compared = notification->operation == FRAME_OPERATION_UPDATE &&
                    notification->before != NULL && notification->before->whole;
    struct rendering rendering = {0};

    for (int i = 0; i < plan->pick_count; i++)
        plan->columns[plan->picks[i]].state &= COLUMN_CHANGED;
    encode_literal(out, "{\"before\":");
    rendering.states =
        put_image(decoder, out, plan, notification->before, false, &rendering.dropped_bytes);
    encode_literal(out, ",\"after\":");
    rendering.after = out->len;
    rendering.states |=
        put_image(decoder, out, plan, notification->after, compared, &rendering.dropped_bytes);
    rendering.after_end = out->len;
    decoder->settings.limit = PG_INT32_MAX;
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

void
notification_put_times(struct decoder *decoder, StringInfo out,
                       const struct notification_header *header, const struct fragment *data)
{
    encode_raw(out, decoder->commit_text, decoder->commit_text_len);
    if (header->expires_us != 0) {
        encode_literal(out, "\"" ENVELOPE_EXPIRATION_TEXT "\"");
        out->len = encode_instant(encode_reserve(out, 40), header->expires) - out->data;
    }
    encode_literal(out, "\"");
    if (data != NULL)
        put_fragment(out, data);
    encode_literal(out, ENVELOPE_PAYLOAD_TEXT);
}

/* Writes the metadata from the priority to the timestamp, unless the transaction is annotated. */
static void
put_metadata(StringInfo out, const struct notification *notification)
{
    if (notification->emitter.bytes != NULL) {
        put_fragment(out, &notification->plan->metadata_start);
        put_fragment(out, &notification->emitter);
    }
    put_fragment(out, &notification->plan->metadata[notification->operation]);
}

/* Returns the text from `from`, after which the literal begins, up to it. */
static struct fragment
split_before(const struct fragment *text, int from, const char *literal, int literal_len)
{
    const char *found = memmem(text->bytes + from, text->len - from, literal, literal_len);

    if (found == NULL)
        elog(ERROR, "could not find %s in the metadata of a rule", literal);
    return (struct fragment){text->bytes + from, found - text->bytes - from};
}

/* Like put_metadata. User text cannot match the literals, because its quotes are escaped. */
static void
put_annotated_metadata(StringInfo out, const struct notification *notification,
                       const struct annotation *annotation)
{
    static const char timestamp[] = ENVELOPE_TIMESTAMP_TEXT "\"";
    const struct fragment *text = &notification->plan->metadata[notification->operation];
    struct fragment front = notification->plan->metadata_start;
    struct fragment emitter = notification->emitter;
    int from = 0;

    if (emitter.bytes == NULL) {
        front = split_before(text, 0, ENVELOPE_EMITTER_TEXT, strlen(ENVELOPE_EMITTER_TEXT));
        front.len += strlen(ENVELOPE_EMITTER_TEXT);
        emitter = split_before(text, front.len, ENVELOPE_SOURCE_TEXT, strlen(ENVELOPE_SOURCE_TEXT));
        from = front.len + emitter.len;
    }
    put_fragment(out, &front);
    put_fragment(out, annotation->emitter.len > 0 ? &annotation->emitter : &emitter);
    encode_raw(out, text->bytes + from, text->len - from - (int)strlen(timestamp));
    put_fragment(out, &annotation->traceparent);
    encode_raw(out, timestamp, strlen(timestamp));
}

static struct rendering
put_notification_line(struct decoder *decoder, StringInfo out,
                      const struct notification *notification,
                      const struct notification_header *header)
{
    struct rendering rendering = {.states = notification->undecodable ? COLUMN_UNDECODABLE : 0};
    const struct annotation *annotation = decoder->annotation;

    encode_literal(out, ENVELOPE_ID_TEXT "\"");
    encode_put_uuid(out, &header->id);
    if (likely(annotation == NULL))
        put_metadata(out, notification);
    else
        put_annotated_metadata(out, notification, annotation);
    notification_put_times(decoder, out, header, annotation != NULL ? &annotation->data : NULL);
    if (notification->payload.bytes != NULL)
        put_fragment(out, &notification->payload);
    else
        rendering = put_payload(decoder, out, notification);
    put_fragment(out, &notification->plan->routing);
    encode_targets(&decoder->settings, out, notification->targets, decoder->options.framed);
    put_fragment(out, &notification->plan->retry);
    return rendering;
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
    header->delivery = rule->delivery;
    header->operation = notification->operation;
    header->audience = (struct fragment){rule->audience, strlen(rule->audience)};
    header->topic = plan->topic;
    header->rule = plan->rule_name;
    header->targets = notification->targets;
    if (notification->web_push.bytes != NULL)
        header->flags |= FRAME_WEB_PUSH;
    header->web_push = notification->web_push;
    if (decoder->annotation != NULL && decoder->annotation->traceparent.len > 0)
        header->flags |= FRAME_TRACED;
    header->owner = plan_limited_owner(plan);
    notification_set_expiration(decoder, header, rule->ttl);
}

static void
warn_undecodable(struct decoder *decoder, const struct plan *plan)
{
    for (int i = 0; i < plan->pick_count; i++) {
        const struct column *column = &plan->columns[plan->picks[i]];

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
    rendering = put_payload(decoder, out, &create);
    if (rendering.states & COLUMN_UNDECODABLE)
        warn_undecodable(decoder, plan);
    return (struct fragment){out->data + rendering.after, rendering.after_end - rendering.after};
}

static void
put_spool_text(StringInfo out, const char *text, uint16 length)
{
    encode_raw(out, (const char *)&length, sizeof(length));
    encode_raw(out, text, length);
}

/* A notification from a spool was charged when it was rendered. */
static void
charge_notification(const struct notification *notification, int64 bytes)
{
    if (notification->payload.bytes == NULL)
        account_charge_notification(notification->plan->account, bytes);
}

/*
 * Returns the bytes that the replay will write besides the payload. Rendered at the end of the
 * buffer and removed again: names and targets may be much longer than what is spooled.
 */
static int64
envelope_bytes(struct decoder *decoder, StringInfo out, const struct notification *notification)
{
    struct notification envelope = *notification;
    struct notification_header header = {0};
    int start = out->len;
    int64 bytes;

    envelope.payload = (struct fragment){"", 0};
    fill_header(decoder, &envelope, &header);
    if (decoder->options.framed)
        (void)frames_put_header(decoder, out, &header);
    (void)put_notification_line(decoder, out, &envelope, &header);
    bytes = out->len - start + spool_annotation_bytes(decoder);
    out->len = start;
    return bytes;
}

static void
spool_notification(struct decoder *decoder, const struct notification *notification)
{
    uint32 template = spool_template(decoder, notification->plan);
    struct spool_record record;
    struct rendering rendering;
    StringInfo out = spool_open(decoder, SPOOL_NOTIFICATION, template, &record);
    int64 bytes;
    int start;

    record.operation = notification->operation;
    record.part = notification->part;
    record.target_count = notification->targets->count;
    if (notification->emitter.bytes != NULL) {
        record.flags |= SPOOL_EMITTER;
        put_spool_text(out, notification->emitter.bytes, notification->emitter.len);
    }
    if (notification->web_push.bytes != NULL) {
        record.flags |= SPOOL_WEB_PUSH;
        put_spool_text(out, notification->web_push.bytes, notification->web_push.len);
    }
    if (notification->targets == &notification->plan->rule->literal)
        record.flags |= SPOOL_LITERAL;
    else
        for (int i = 0; i < notification->targets->count; i++)
            put_spool_text(out, notification->targets->texts[i], notification->targets->lengths[i]);
    start = out->len;
    rendering = put_payload(decoder, out, notification);
    bytes = out->len - start + rendering.dropped_bytes;
    if (!notification->plan->account->is_trusted)
        bytes += envelope_bytes(decoder, out, notification);
    if (rendering.states & COLUMN_UNDECODABLE)
        record.flags |= SPOOL_UNDECODABLE;
    spool_close(decoder, &record);
    charge_notification(notification, bytes);
    if (record.flags & SPOOL_UNDECODABLE)
        warn_undecodable(decoder, notification->plan);
}

void
notification_write(LogicalDecodingContext *ctx, const struct notification *notification)
{
    struct decoder *decoder = ctx->output_plugin_private;
    const struct options *options = &decoder->options;
    struct notification_header header = {0};
    struct rendering rendering;
    bool undecodable;
    StringInfo out;
    int frame = 0;
    int start;
    int line;

    if (decoder->spool != NULL) {
        spool_notification(decoder, notification);
        return;
    }
    out = frames_open(ctx);
    start = out->len;
    fill_header(decoder, notification, &header);
    if (options->framed)
        frame = frames_put_header(decoder, out, &header);
    line = out->len;
    rendering = put_notification_line(decoder, out, notification, &header);
    undecodable = (rendering.states & COLUMN_UNDECODABLE) != 0;
    charge_notification(notification, out->len - start + rendering.dropped_bytes);
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
