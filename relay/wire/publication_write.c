/* publication_write.c: writes a notification as the decoder writes those of the WAL. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "wire/bytes.h"
#include "wire/frame.h"
#include "wire/publication_private.h"

#define TIME_MAX 40

/* RFC 9562, version 7. */
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

static void
time_text(int64_t us, char text[TIME_MAX])
{
    time_t seconds = (time_t)(us / 1000000);
    struct tm tm;
    char date[24];

    gmtime_r(&seconds, &tm);
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text, TIME_MAX, "%s.%06dZ", date, (int)(us % 1000000));
}

static enum rc
add_field(struct buffer *out, const char *name, const char *value)
{
    enum rc rc = buffer_addf(out, ",\"%s\":", name);

    return rc == RC_OK ? buffer_add_json(out, value, strlen(value)) : rc;
}

static enum rc
add_metadata(const struct publication_draft *draft, const char *topic, struct buffer *out)
{
    char at[TIME_MAX];
    enum rc rc =
        buffer_addf(out, "{\"metadata\":{\"id\":\"%s\",\"priority\":\"%s\",\"type\":\"%s\"",
                    draft->publication->id, PUBLICATION_PRIORITIES[draft->priority],
                    PUBLICATION_TYPES[draft->type]);

    if (rc == RC_OK)
        rc = add_field(out, "emitter", draft->origin->emitter);
    if (rc == RC_OK)
        rc = add_field(out, "source", draft->source);
    if (rc == RC_OK)
        rc = add_field(out, "topic", topic);
    if (rc == RC_OK)
        rc = buffer_addf(out, ",\"operation\":\"notify\"");
    if (rc == RC_OK && draft->publication->traceparent[0] != '\0')
        rc = add_field(out, "traceparent", draft->publication->traceparent);
    time_text(draft->origin->now_us, at);
    if (rc == RC_OK)
        rc = buffer_addf(out, ",\"timestamp\":\"%s\"", at);
    time_text(draft->expires_us, at);
    if (rc == RC_OK && draft->expires_us != 0)
        rc = buffer_addf(out, ",\"expiration\":\"%s\"", at);
    return rc == RC_OK ? buffer_add(out, "}", 1) : rc;
}

static enum rc
add_routing(const struct publication_draft *draft, struct buffer *out)
{
    const struct publication *publication = draft->publication;
    enum rc rc = buffer_addf(out, ",\"routing\":{\"audience\":{\"type\":\"%s\",\"targets\":[",
                             publication->audience);

    for (size_t i = 0; i < publication->target_count && rc == RC_OK; i++) {
        const char *target = publication->targets[i];

        rc = i > 0 ? buffer_add(out, ",", 1) : RC_OK;
        if (rc == RC_OK)
            rc = buffer_add_json(out, target, strlen(target));
    }
    if (rc == RC_OK)
        rc = buffer_addf(out,
                         "]},\"retry\":{\"ack_required\":%s,\"enabled\":%s,\"attempts\":0,"
                         "\"limit\":%d,\"backoff\":\"%s\"}}}",
                         publication->needs_ack ? "true" : "false",
                         draft->is_retried ? "true" : "false", (int)draft->limit,
                         PUBLICATION_BACKOFFS[draft->backoff]);
    return rc;
}

static enum rc
write_line(const struct publication_draft *draft, const char *topic)
{
    struct buffer *out = &draft->publication->data;
    enum rc rc = add_metadata(draft, topic, out);

    if (rc == RC_OK)
        rc = buffer_addf(out, ",\"payload\":");
    if (rc == RC_OK)
        rc = publication_add_payload(draft, out);
    if (rc == RC_OK)
        rc = add_routing(draft, out);
    return rc;
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
          unsigned char head[FRAME_NOTE_HEAD_SIZE])
{
    const struct publication *publication = draft->publication;
    size_t names = strlen(publication->audience) + topic_len + targets_len(publication);

    bytes_put_u32(head, (uint32_t)(FRAME_NOTE_HEAD_SIZE + names + publication->data.len));
    head[FRAME_AT_KIND] = FRAME_KIND_NOTE;
    head[FRAME_AT_VERSION] = FRAME_VERSION;
    bytes_put_u16(head + FRAME_AT_FLAGS, flags_of(draft));
    memcpy(head + FRAME_NOTE_AT_ID, id, 16);
    bytes_put_u64(head + FRAME_NOTE_AT_COMMIT_US, (uint64_t)draft->origin->now_us);
    bytes_put_u64(head + FRAME_NOTE_AT_EXPIRES_US, (uint64_t)draft->expires_us);
    head[FRAME_NOTE_AT_PRIORITY] = (unsigned char)draft->priority;
    head[FRAME_NOTE_AT_TYPE] = (unsigned char)draft->type;
    head[FRAME_NOTE_AT_OPERATION] = FRAME_OPERATION_NOTIFY;
    head[FRAME_NOTE_AT_BACKOFF] = (unsigned char)draft->backoff;
    bytes_put_u16(head + FRAME_NOTE_AT_RETRY_LIMIT, (uint16_t)draft->limit);
    bytes_put_u16(head + FRAME_NOTE_AT_AUDIENCE_LEN, (uint16_t)strlen(publication->audience));
    bytes_put_u16(head + FRAME_NOTE_AT_TOPIC_LEN, (uint16_t)topic_len);
    bytes_put_u32(head + FRAME_NOTE_AT_TARGETS_LEN, (uint32_t)targets_len(publication));
    bytes_put_u32(head + FRAME_NOTE_AT_TARGET_COUNT, (uint32_t)publication->target_count);
}

static enum rc
write_head(const struct publication_draft *draft, const unsigned char id[16], const char *topic)
{
    struct publication *publication = draft->publication;
    unsigned char head[FRAME_NOTE_HEAD_SIZE] = {0};
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
publication_write(struct publication_draft *draft)
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
    return rc == RC_OK ? RC_OK : publication_refuse(draft, "the notification is too large");
}
