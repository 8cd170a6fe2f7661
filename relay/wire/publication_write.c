/* publication_write.c: encodes a notification as the decoder does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/clock.h"
#include "decoder/protocol/envelope.h"
#include "decoder/protocol/limits.h"
#include "wire/bytes.h"
#include "wire/frame.h"
#include "wire/publication_private.h"

/* Creates a UUID of version 7 (RFC 9562). */
static void
make_id(const struct publication_origin *origin, unsigned char id[16])
{
    unsigned char ms[8];

    bytes_put_u64(ms, (uint64_t)(origin->now_us / 1000));
    memcpy(id, ms + 2, 6);
    memcpy(id + 6, origin->random, 10);
    id[6] = (unsigned char)(0x70u | (id[6] & 0x0fu));
    id[8] = (unsigned char)(0x80u | (id[8] & 0x3fu));
}

/* The JSON document, and the first error while writing it. */
struct line {
    struct buffer *out;
    enum rc rc;
};

static void
line_add(void *to, const char *bytes, size_t len)
{
    struct line *line = to;

    if (line->rc == RC_OK)
        line->rc = buffer_add(line->out, bytes, len);
}

static void
line_add_text(void *to, const char *utf8, size_t len)
{
    struct line *line = to;

    if (line->rc == RC_OK)
        line->rc = buffer_add_json(line->out, utf8, len);
}

static struct envelope_text
text_of(const char *text)
{
    return (struct envelope_text){text, strlen(text)};
}

/* As encode_targets of the decoder: recipients are sent the number of targets of a long list. */
static void
add_targets(struct line *line, const struct publication *publication)
{
    if (publication->target_count > LIMIT_TARGETS_SENT) {
        static const char EMPTY[] = "[]" ENVELOPE_RECIPIENTS_TEXT;

        line_add(line, EMPTY, strlen(EMPTY));
        if (line->rc == RC_OK)
            line->rc = buffer_addf(line->out, "%zu", publication->target_count);
        return;
    }
    line_add(line, "[", 1);
    for (size_t i = 0; i < publication->target_count; i++) {
        const char *target = publication->targets[i];

        if (i > 0)
            line_add(line, ",", 1);
        line_add_text(line, target, strlen(target));
    }
    line_add(line, "]", 1);
}

/* Skips the string at `at`; returns its end. */
static const char *
behind_text(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++) {
        if (*at == '\\')
            at++;
    }
    return at < end ? at + 1 : end;
}

static bool
is_json_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

/* Returns +1 for an opening bracket and -1 for a closing bracket. */
static int
step_of(char byte)
{
    if (byte == '{' || byte == '[')
        return 1;
    return byte == '}' || byte == ']' ? -1 : 0;
}

/* Returns the position of the payload's `{`. NULL: the name "payload" is written with escapes. */
static const char *
find_payload(const char *at, const char *end)
{
    static const char NAME[] = "\"payload\"";
    int depth = 0;

    while (at < end) {
        const char *text = at;

        if (*at != '"') {
            depth += step_of(*at++);
            continue;
        }
        at = behind_text(at, end);
        if (depth != 1 || (size_t)(at - text) != strlen(NAME) ||
            memcmp(text, NAME, strlen(NAME)) != 0)
            continue;
        while (at < end && (is_json_blank(*at) || *at == ':'))
            at++;
        if (at < end && *at == '{') /* the string value "payload" is not followed by a colon */
            return at;
    }
    return NULL;
}

/* Copies the object that starts at `at`, without white space between its tokens. */
static enum rc
add_object(const char *at, const char *end, struct buffer *out)
{
    enum rc rc = RC_OK;
    int depth = 0;

    do {
        const char *from = at;

        if (*at == '"')
            at = behind_text(at, end);
        else
            depth += step_of(*at++);
        if (!is_json_blank(*from))
            rc = buffer_add(out, from, (size_t)(at - from));
    } while (rc == RC_OK && depth > 0 && at < end);
    return rc;
}

/*
 * Copies the payload from the body, so that its numbers and escapes remain unchanged. json_loadb
 * has accepted the whole body.
 */
static enum rc
add_payload(const struct publication_draft *draft, struct buffer *out)
{
    const char *end = draft->text + draft->len;
    const char *payload = find_payload(draft->text, end);
    char *text;
    enum rc rc;

    if (payload != NULL)
        return add_object(payload, end, out);
    text = json_dumps(draft->payload, JSON_COMPACT);
    rc = text != NULL ? buffer_add(out, text, strlen(text)) : RC_BAD;
    free(text);
    return rc;
}

static enum rc
write_line(const struct publication_draft *draft, const char *topic)
{
    const struct publication *publication = draft->publication;
    char now[CLOCK_TEXT_MAX];
    char expires[CLOCK_TEXT_MAX];
    struct envelope envelope = {.id = publication->id,
                                .priority = (enum frame_priority)draft->priority,
                                .type = (enum frame_type)draft->type,
                                .operation = FRAME_OPERATION_NOTIFY,
                                .backoff = (enum frame_backoff)draft->backoff,
                                .emitter = text_of(draft->origin->emitter),
                                .source = text_of(draft->source),
                                .topic = text_of(topic),
                                .audience = text_of(publication->audience),
                                .timestamp = now,
                                .expiration = draft->expires_us != 0 ? expires : NULL,
                                .ack_required = publication->needs_ack,
                                .retry_enabled = draft->is_retried,
                                .retry_limit = (unsigned)draft->limit};
    struct line line = {&draft->publication->data, RC_OK};
    const struct envelope_writer writer = {&line, line_add, line_add_text};

    if (publication->traceparent[0] != '\0')
        envelope.traceparent = text_of(publication->traceparent);
    clock_text_us(draft->origin->now_us, now);
    clock_text_us(draft->expires_us, expires);
    envelope_write(&writer, &envelope, ENVELOPE_ID, ENVELOPE_PAYLOAD);
    if (line.rc == RC_OK)
        line.rc = add_payload(draft, line.out);
    envelope_write(&writer, &envelope, ENVELOPE_AUDIENCE, ENVELOPE_TARGETS);
    add_targets(&line, publication);
    envelope_write(&writer, &envelope, ENVELOPE_ACK_REQUIRED, ENVELOPE_END);
    return line.rc;
}

static size_t
targets_len(const struct publication *publication)
{
    size_t len = 0;

    for (size_t i = 0; i < publication->target_count; i++)
        len += 2 + strlen(publication->targets[i]);
    return len;
}

static uint16_t
flags_of(const struct publication_draft *draft)
{
    const struct publication *publication = draft->publication;

    return (uint16_t)((publication->needs_ack ? FRAME_ACK_REQUIRED : 0) |
                      (draft->is_retried ? FRAME_RETRY_ENABLED : 0) |
                      (publication->traceparent[0] != '\0' ? FRAME_TRACED : 0));
}

static void
fill_head(const struct publication_draft *draft, const unsigned char id[16], size_t topic_len,
          unsigned char head[FRAME_NOTIFICATION_HEAD_SIZE])
{
    const struct publication *publication = draft->publication;
    size_t names = strlen(publication->audience) + topic_len + targets_len(publication);

    bytes_put_u32(head, (uint32_t)(FRAME_NOTIFICATION_HEAD_SIZE + names + publication->data.len));
    head[FRAME_AT_KIND] = FRAME_KIND_NOTIFICATION;
    head[FRAME_AT_VERSION] = FRAME_VERSION;
    bytes_put_u16(head + FRAME_AT_FLAGS, flags_of(draft));
    memcpy(head + FRAME_NOTIFICATION_AT_ID, id, 16);
    bytes_put_u64(head + FRAME_NOTIFICATION_AT_COMMIT_US, (uint64_t)draft->origin->now_us);
    bytes_put_u64(head + FRAME_NOTIFICATION_AT_EXPIRES_US, (uint64_t)draft->expires_us);
    head[FRAME_NOTIFICATION_AT_PRIORITY] = (unsigned char)draft->priority;
    head[FRAME_NOTIFICATION_AT_TYPE] = (unsigned char)draft->type;
    head[FRAME_NOTIFICATION_AT_OPERATION] = FRAME_OPERATION_NOTIFY;
    head[FRAME_NOTIFICATION_AT_BACKOFF] = (unsigned char)draft->backoff;
    bytes_put_u16(head + FRAME_NOTIFICATION_AT_RETRY_LIMIT, (uint16_t)draft->limit);
    bytes_put_u16(head + FRAME_NOTIFICATION_AT_AUDIENCE_LEN,
                  (uint16_t)strlen(publication->audience));
    bytes_put_u16(head + FRAME_NOTIFICATION_AT_TOPIC_LEN, (uint16_t)topic_len);
    bytes_put_u32(head + FRAME_NOTIFICATION_AT_TARGETS_LEN, (uint32_t)targets_len(publication));
    bytes_put_u32(head + FRAME_NOTIFICATION_AT_TARGET_COUNT, (uint32_t)publication->target_count);
}

static enum rc
write_head(const struct publication_draft *draft, const unsigned char id[16], const char *topic)
{
    struct publication *publication = draft->publication;
    unsigned char head[FRAME_NOTIFICATION_HEAD_SIZE] = {0};
    enum rc rc;

    fill_head(draft, id, strlen(topic), head);
    rc = buffer_add(&publication->head, head, sizeof(head));
    if (rc == RC_OK)
        rc = buffer_add(&publication->head, publication->audience, strlen(publication->audience));
    if (rc == RC_OK)
        rc = buffer_add(&publication->head, topic, strlen(topic));
    for (size_t i = 0; i < publication->target_count && rc == RC_OK; i++) {
        unsigned char len[2];

        bytes_put_u16(len, (uint16_t)strlen(publication->targets[i]));
        rc = buffer_add(&publication->head, len, sizeof(len));
        if (rc == RC_OK)
            rc = buffer_add(&publication->head, publication->targets[i],
                            strlen(publication->targets[i]));
    }
    return rc;
}

enum rc
publication_write(const struct publication_draft *draft)
{
    struct publication *publication = draft->publication;
    const char *prefix = draft->origin->topic_prefix;
    bool is_made = draft->topic == NULL && prefix != NULL && prefix[0] != '\0';
    char topic[1024];
    unsigned char id[16];
    enum rc rc;

    make_id(draft->origin, id);
    frame_id_text(id, publication->id);
    snprintf(topic, sizeof(topic), "%s%s%s", is_made ? prefix : "", is_made ? "." : "",
             draft->topic != NULL ? draft->topic : draft->source);
    buffer_init(&publication->head, PUBLICATION_LINE_MAX);
    buffer_init(&publication->data, PUBLICATION_LINE_MAX);
    rc = write_line(draft, topic);
    if (rc == RC_OK)
        rc = write_head(draft, id, topic);
    return rc;
}
