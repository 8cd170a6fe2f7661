/* publication.c: parses a notification published over HTTP, and encodes it as the decoder does. */
#include "wire/publication.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "decoder/protocol/envelope.h"
#include "decoder/protocol/limits.h"
#include "wire/audience_name.h"
#include "wire/bytes.h"
#include "wire/json_doc.h"
#include "wire/push_message.h"

#define NAME_MAX_BYTES LIMIT_TARGET
#define RETRY_LIMIT_MAX 1000
#define RETRY_LIMIT 5
#define DELAY_MAX_S (30 * 86400) /* of a timeout or an escalation */
#define FEW_TARGETS 64           /* up to this number, duplicates are dropped without sorting */

/* A notification between parsing and encoding. Strings belong to the document. */
struct publication_draft {
    struct publication *publication;
    const struct publication_origin *origin;
    char *error;
    struct json_doc *doc;
    int priority;
    int type;
    int backoff;
    int64_t limit;
    uint32_t ack_timeout_ms; /* 0: delivery.ack_timeout */
    bool is_retried;
    const char *source;
    const char *topic; /* NULL: derived from the source */
    int64_t expires_us;
    int receipts; /* enum frame_receipts */
    uint32_t escalations[FRAME_ESCALATIONS];
    const struct json_value *payload;
};

static bool
is_among(const char *name, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (strcmp(name, *names) == 0)
            return true;
    }
    return false;
}

/* Returns the object `name` of `root`, NULL if absent. Rejects fields that are not in `fields`. */
static enum rc
read_object(struct publication_draft *draft, const struct json_value *root, const char *name,
            const char *const *fields, const struct json_value **ret_object)
{
    const struct json_value *object = json_doc_member(draft->doc, root, name);
    const struct json_value *field = json_doc_first(draft->doc, object);

    *ret_object = object;
    if (object == NULL)
        return RC_OK;
    if (!json_is(object, JSON_KIND_OBJECT))
        return wire_reject(draft->error, "%s must be an object", name);
    for (; field != NULL; field = json_doc_next(draft->doc, object, field)) {
        const char *text = json_doc_text(draft->doc, field);

        if (!is_among(text, fields))
            return wire_reject(draft->error, "%s has an unknown field: %.40s", name, text);
    }
    return RC_OK;
}

/* Returns the index of one of the words; `fallback` if absent. */
static enum rc
read_word(struct publication_draft *draft, const struct json_value *object, const char *name,
          const char *const *words, int fallback, int *ret_index)
{
    const struct json_value *value = json_doc_member(draft->doc, object, name);
    const char *text = json_doc_text(draft->doc, value);
    char valid[80] = "";

    *ret_index = fallback;
    if (value == NULL)
        return RC_OK;
    for (int i = 0; words[i] != NULL; i++) {
        if (text != NULL && strcmp(text, words[i]) == 0) {
            *ret_index = i;
            return RC_OK;
        }
        snprintf(valid + strlen(valid), sizeof(valid) - strlen(valid), "%s%s", i > 0 ? ", " : "",
                 words[i]);
    }
    return wire_reject(draft->error, "%s must be one of %s", name, valid);
}

static enum rc
read_text(struct publication_draft *draft, const struct json_value *object, const char *name,
          const char *fallback, const char **ret_text)
{
    const struct json_value *value = json_doc_member(draft->doc, object, name);
    size_t len = json_text_len(value);

    *ret_text = fallback;
    if (value == NULL)
        return RC_OK;
    if (len == 0 || len > NAME_MAX_BYTES)
        return wire_reject(draft->error, "%s must be a string of 1 to %d bytes", name,
                           NAME_MAX_BYTES);
    *ret_text = json_doc_text(draft->doc, value);
    return RC_OK;
}

/* Clients must be able to use the topic in subscribe and in polls. */
static enum rc
read_name(struct publication_draft *draft, const struct json_value *object, const char *name,
          const char *fallback, const char **ret_text)
{
    enum rc rc = read_text(draft, object, name, fallback, ret_text);

    if (rc != RC_OK || *ret_text == NULL)
        return rc;
    for (const unsigned char *at = (const unsigned char *)*ret_text; *at != '\0'; at++) {
        if (*at < ' ' || *at == 0x7f || *at == '*' || *at == ',')
            return wire_reject(draft->error,
                               "%s must not contain *, a comma or a control character", name);
    }
    return RC_OK;
}

static enum rc
read_flag(struct publication_draft *draft, const struct json_value *object, const char *name,
          bool fallback, bool *ret_flag)
{
    const struct json_value *value = json_doc_member(draft->doc, object, name);

    *ret_flag = value != NULL ? json_is(value, JSON_KIND_TRUE) : fallback;
    if (value == NULL || json_is_bool(value))
        return RC_OK;
    return wire_reject(draft->error, "%s must be true or false", name);
}

/* Parses "2025-03-15T12:34:56Z", with up to six fractional digits. */
static bool
read_time(const char *text, int64_t *ret_us)
{
    const size_t len = strlen(text);

    return len >= strlen("2025-03-15T12:34:56Z") && len <= strlen("2025-03-15T12:34:56.123456Z") &&
           text[10] == 'T' && text[len - 1] == 'Z' && clock_read_text(text, ret_us);
}

static enum rc
read_expiration(struct publication_draft *draft, const struct json_value *metadata)
{
    const struct json_value *value = json_doc_member(draft->doc, metadata, "expiration");

    if (value == NULL)
        return RC_OK;
    if (!json_is(value, JSON_KIND_TEXT) ||
        !read_time(json_doc_text(draft->doc, value), &draft->expires_us))
        return wire_reject(draft->error,
                           "expiration must be a time in UTC as 2025-03-15T12:34:56Z");
    draft->publication->is_expired = draft->expires_us <= draft->origin->now_us;
    return RC_OK;
}

/*
 * An invalid value in the body is an error. An invalid header may come from a proxy and is ignored.
 */
static enum rc
read_traceparent(struct publication_draft *draft, const struct json_value *metadata)
{
    const struct json_value *value = json_doc_member(draft->doc, metadata, "traceparent");
    const char *given = draft->origin->traceparent;

    if (value == NULL) {
        if (given != NULL)
            (void)traceparent_read(given, strlen(given), draft->publication->traceparent);
        return RC_OK;
    }
    if (json_is(value, JSON_KIND_TEXT) &&
        traceparent_read(json_doc_text(draft->doc, value), json_text_len(value),
                         draft->publication->traceparent))
        return RC_OK;
    return wire_reject(draft->error, "traceparent must be " TRACEPARENT_VALID);
}

static enum rc
read_metadata(struct publication_draft *draft, const struct json_value *root)
{
    static const char *const FIELDS[] = {"id",         "priority",    "type",      "emitter",
                                         "source",     "topic",       "operation", "timestamp",
                                         "expiration", "traceparent", NULL};
    const struct json_value *metadata;

    if (read_object(draft, root, "metadata", FIELDS, &metadata) != RC_OK ||
        read_word(draft, metadata, "priority", envelope_priorities, FRAME_PRIORITY_NORMAL,
                  &draft->priority) != RC_OK ||
        read_word(draft, metadata, "type", envelope_types, FRAME_TYPE_NOTIFICATION, &draft->type) !=
            RC_OK ||
        read_name(draft, metadata, "source", "notify", &draft->source) != RC_OK ||
        read_name(draft, metadata, "topic", NULL, &draft->topic) != RC_OK ||
        read_traceparent(draft, metadata) != RC_OK)
        return RC_BAD;
    return read_expiration(draft, metadata);
}

static bool
has_target(const struct publication *publication, const char *target)
{
    for (size_t i = 0; i < publication->target_count; i++) {
        if (strcmp(publication->targets[i], target) == 0)
            return true;
    }
    return false;
}

static int
order_of_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Drops duplicates from a long list, which is sorted to avoid quadratic time. */
static void
drop_repeated(struct publication *publication)
{
    size_t kept = 0;

    qsort(publication->targets, publication->target_count, sizeof(publication->targets[0]),
          order_of_texts);
    for (size_t i = 0; i < publication->target_count; i++) {
        if (kept > 0 && strcmp(publication->targets[kept - 1], publication->targets[i]) == 0)
            free(publication->targets[i]);
        else
            publication->targets[kept++] = publication->targets[i];
    }
    publication->target_count = kept;
}

/* Returns the canonical form of the target. */
static enum rc
read_composite(struct publication_draft *draft, const struct json_value *target, size_t index,
               char **ret_text)
{
    const char *audience = draft->publication->audience;
    const char *text = json_doc_text(draft->doc, target);
    unsigned char canonical[AUDIENCE_COMPOSITE_MAX];
    struct audience_parts parts = {.count = 0};

    if (text == NULL ||
        !audience_split((struct bytes){(const unsigned char *)audience, strlen(audience)},
                        (struct bytes){(const unsigned char *)text, json_text_len(target)}, &parts))
        return wire_reject(draft->error,
                           "routing.audience.targets must contain strings with as many parts "
                           "as %.60s, joined by +, each of 1 to %d bytes; the one at index "
                           "%zu is invalid",
                           audience, AUDIENCE_TARGET_MAX, index);
    *ret_text = memory_text((const char *)canonical, audience_join_parts(&parts, canonical));
    return RC_OK;
}

static enum rc
read_target(struct publication_draft *draft, const struct json_value *target, size_t index,
            char **ret_text)
{
    size_t len = json_text_len(target);

    if (strchr(draft->publication->audience, '+') != NULL)
        return read_composite(draft, target, index, ret_text);
    if (len == 0 || len > NAME_MAX_BYTES)
        return wire_reject(draft->error,
                           "routing.audience.targets must contain strings of 1 to %d bytes; "
                           "the one at index %zu is invalid",
                           NAME_MAX_BYTES, index);
    *ret_text = memory_text(json_doc_text(draft->doc, target), len);
    return RC_OK;
}

static enum rc
read_targets(struct publication_draft *draft, const struct json_value *targets)
{
    struct publication *publication = draft->publication;
    const struct json_value *each = json_doc_first(draft->doc, targets);
    size_t count = json_doc_count(draft->doc, targets);
    bool are_few = count <= FEW_TARGETS;
    size_t bytes = 0;

    if (!json_is(targets, JSON_KIND_ARRAY) || count == 0 || count > LIMIT_TARGETS)
        return wire_reject(draft->error,
                           "routing.audience.targets must be an array of 1 to %d targets",
                           LIMIT_TARGETS);
    publication->targets = memory_new(count * sizeof(char *));
    for (size_t i = 0; i < count; i++, each = json_doc_next(draft->doc, targets, each)) {
        char *target = NULL;

        if (read_target(draft, each, i, &target) != RC_OK)
            return RC_BAD;
        if (are_few && has_target(publication, target))
            free(target);
        else
            publication->targets[publication->target_count++] = target;
    }
    if (!are_few)
        drop_repeated(publication);
    for (size_t i = 0; i < publication->target_count; i++)
        bytes += strlen(publication->targets[i]);
    if (bytes > LIMIT_TARGETS_BYTES)
        return wire_reject(draft->error,
                           "routing.audience.targets has %zu bytes; the maximum is %d", bytes,
                           LIMIT_TARGETS_BYTES);
    return RC_OK;
}

static bool
is_audience(const char *name)
{
    bool is_exact = strcmp(name, "USER") == 0 || strcmp(name, "ALL") == 0;

    return audience_is_composite_name(name) ||
           (audience_is_word(name) && (is_exact || !audience_is_reserved(name)));
}

static enum rc
read_audience(struct publication_draft *draft, const struct json_value *routing)
{
    static const char *const FIELDS[] = {"type", "targets", NULL};
    const struct json_value *audience, *targets;
    const char *type;

    if (read_object(draft, routing, "audience", FIELDS, &audience) != RC_OK)
        return RC_BAD;
    type = json_doc_text(draft->doc, json_doc_member(draft->doc, audience, "type"));
    targets = json_doc_member(draft->doc, audience, "targets");
    if (type == NULL || !is_audience(type))
        return wire_reject(draft->error, "routing.audience.type must be USER, ALL, another word of "
                                         "letters, digits and _, or up to 4 such words joined by "
                                         "+, none of them USER or ALL");
    draft->publication->audience = memory_text(type, strlen(type));
    if (strcmp(type, "ALL") != 0)
        return read_targets(draft, targets);
    if (json_is(targets, JSON_KIND_ARRAY) && json_doc_first(draft->doc, targets) != NULL)
        return wire_reject(draft->error, "routing.audience.targets must be empty for ALL");
    return RC_OK;
}

/* Returns the milliseconds; 0: not a valid number of seconds. */
static uint32_t
delay_ms(const struct json_doc *doc, const struct json_value *value)
{
    double seconds = json_doc_number(doc, value);

    return seconds >= 0.001 && seconds <= DELAY_MAX_S ? (uint32_t)(seconds * 1000) : 0;
}

static enum rc
read_ack_timeout(struct publication_draft *draft, const struct json_value *retry)
{
    const struct json_value *value = json_doc_member(draft->doc, retry, "ack_timeout");

    if (value == NULL)
        return RC_OK;
    draft->ack_timeout_ms = delay_ms(draft->doc, value);
    if (draft->ack_timeout_ms == 0)
        return wire_reject(
            draft->error, "routing.retry.ack_timeout must be a number of seconds, from 0.001 to %d",
            DELAY_MAX_S);
    return RC_OK;
}

static enum rc
read_retry(struct publication_draft *draft, const struct json_value *routing)
{
    static const char *const FIELDS[] = {"ack_required", "enabled",     "attempts", "limit",
                                         "backoff",      "ack_timeout", NULL};
    const struct json_value *retry, *limit;

    if (read_object(draft, routing, "retry", FIELDS, &retry) != RC_OK ||
        read_flag(draft, retry, "ack_required", false, &draft->publication->needs_ack) != RC_OK ||
        read_flag(draft, retry, "enabled", draft->publication->needs_ack, &draft->is_retried) !=
            RC_OK ||
        read_word(draft, retry, "backoff", envelope_backoffs, FRAME_BACKOFF_EXPONENTIAL,
                  &draft->backoff) != RC_OK ||
        read_ack_timeout(draft, retry) != RC_OK)
        return RC_BAD;
    limit = json_doc_member(draft->doc, retry, "limit");
    draft->limit = limit != NULL ? json_doc_integer(draft->doc, limit) : RETRY_LIMIT;
    if ((limit != NULL && !json_is(limit, JSON_KIND_INTEGER)) || draft->limit < 0 ||
        draft->limit > RETRY_LIMIT_MAX)
        return wire_reject(draft->error, "routing.retry.limit must be an integer from 0 to %d",
                           RETRY_LIMIT_MAX);
    return RC_OK;
}

/* A number of seconds, or an array of two, the smaller one first. */
static enum rc
read_escalations(struct publication_draft *draft, const struct json_value *routing)
{
    const struct json_value *value = json_doc_member(draft->doc, routing, "escalate_after");
    const bool is_array = json_is(value, JSON_KIND_ARRAY);
    const struct json_value *each = is_array ? json_doc_first(draft->doc, value) : value;
    size_t count = is_array ? json_doc_count(draft->doc, value) : 1;
    uint32_t *times = draft->escalations;

    if (value == NULL)
        return RC_OK;
    for (size_t i = 0; i < count && i < FRAME_ESCALATIONS; i++) {
        times[i] = delay_ms(draft->doc, each);
        if (is_array)
            each = json_doc_next(draft->doc, value, each);
    }
    if (count < 1 || count > FRAME_ESCALATIONS || times[0] == 0 ||
        (count == FRAME_ESCALATIONS && times[1] <= times[0]))
        return wire_reject(
            draft->error,
            "routing.escalate_after must be a number of seconds, from 0.001 to %d, or an "
            "array of two, the smaller one first",
            DELAY_MAX_S);
    if (!draft->publication->needs_ack)
        return wire_reject(draft->error,
                           "routing.escalate_after requires routing.retry.ack_required");
    return RC_OK;
}

static enum rc
read_receipts(struct publication_draft *draft, const struct json_value *routing)
{
    static const char *const WORDS[] = {"none", "notification", "user", NULL};

    if (read_word(draft, routing, "receipts", WORDS, FRAME_RECEIPTS_NONE, &draft->receipts) !=
        RC_OK)
        return RC_BAD;
    if (draft->receipts != FRAME_RECEIPTS_NONE && !draft->publication->needs_ack)
        return wire_reject(draft->error, "routing.receipts requires routing.retry.ack_required");
    return read_escalations(draft, routing);
}

/* Writes the text of a Web Push as minified JSON, without needless escapes. */
static enum rc
write_web_push(struct json_doc *doc, const struct json_value *value, struct buffer *out)
{
    const struct json_value *name = json_doc_first(doc, value);
    enum rc rc;

    if (!json_is(value, JSON_KIND_OBJECT))
        return json_doc_add(doc, value, out);
    rc = buffer_add(out, "{", 1);
    for (; name != NULL && rc == RC_OK; name = json_doc_next(doc, value, name)) {
        rc = json_doc_add(doc, name, out);
        if (rc == RC_OK)
            rc = buffer_add(out, ":", 1);
        if (rc == RC_OK)
            rc = json_doc_add(doc, json_value_of(name), out);
        if (rc == RC_OK && name->next < value->next)
            rc = buffer_add(out, ",", 1);
    }
    return rc == RC_OK ? buffer_add(out, "}", 1) : rc;
}

/* Recipients do not receive the text. */
static enum rc
read_web_push(struct publication_draft *draft, const struct json_value *root)
{
    static const char *const URGENCIES[] = {[FRAME_PRIORITY_HIGH] = "high",
                                            [FRAME_PRIORITY_NORMAL] = "normal",
                                            [FRAME_PRIORITY_LOW] = "low"};
    struct publication *publication = draft->publication;
    const struct json_value *value = json_doc_member(draft->doc, root, "web_push");
    char error[WIRE_ERROR_MAX];
    struct push_text text = {.title = NULL};
    struct buffer written;
    enum rc rc;

    publication->urgency = URGENCIES[draft->priority];
    if (value == NULL)
        return RC_OK;
    if (draft->type == FRAME_TYPE_REALTIME)
        return wire_reject(draft->error, "web_push is not possible with metadata.type REALTIME");
    if (strcmp(publication->audience, "ALL") == 0)
        return wire_reject(draft->error, "web_push is not possible with routing.audience.type ALL");
    buffer_init(&written, PUBLICATION_LINE_MAX);
    rc = write_web_push(draft->doc, value, &written);
    publication->web_push = written.bytes;
    if (rc != RC_OK)
        return wire_reject(draft->error, "web_push must be an object");
    rc = push_text_parse(written.bytes, written.len, &text, error);
    push_text_free(&text);
    return rc == RC_OK ? RC_OK : wire_reject(draft->error, "%s", error);
}

/* A field at the wrong level is a frequent mistake. */
static enum rc
reject_field(struct publication_draft *draft, const char *field)
{
    static const struct {
        const char *name;
        const char *path;
    } KNOWN_FIELDS[] = {
        {"audience", "routing.audience"},
        {"retry", "routing.retry"},
        {"targets", "routing.audience.targets"},
        {"priority", "metadata.priority"},
        {"type", "metadata.type"},
        {"source", "metadata.source"},
        {"topic", "metadata.topic"},
        {"expiration", "metadata.expiration"},
        {"ack_required", "routing.retry.ack_required"},
        {"receipts", "routing.receipts"},
        {"escalate_after", "routing.escalate_after"},
    };

    for (size_t i = 0; i < sizeof(KNOWN_FIELDS) / sizeof(KNOWN_FIELDS[0]); i++) {
        if (strcmp(field, KNOWN_FIELDS[i].name) == 0)
            return wire_reject(draft->error, "unknown field: %s; did you mean %s?", field,
                               KNOWN_FIELDS[i].path);
    }
    return wire_reject(draft->error, "unknown field: %.40s", field);
}

static enum rc
read_publication(struct publication_draft *draft, const struct json_value *root)
{
    static const char *const ROOT[] = {"metadata", "payload", "routing", "web_push", NULL};
    static const char *const ROUTING[] = {"audience", "retry", "receipts", "escalate_after", NULL};
    const struct json_value *field = json_doc_first(draft->doc, root), *routing;

    if (!json_is(root, JSON_KIND_OBJECT))
        return wire_reject(draft->error, "body must be a JSON object");
    for (; field != NULL; field = json_doc_next(draft->doc, root, field)) {
        const char *text = json_doc_text(draft->doc, field);

        if (!is_among(text, ROOT))
            return reject_field(draft, text);
    }
    draft->payload = json_doc_member(draft->doc, root, "payload");
    if (!json_is(draft->payload, JSON_KIND_OBJECT))
        return wire_reject(draft->error, "payload must be an object");
    if (json_doc_member(draft->doc, root, "routing") == NULL)
        return wire_reject(draft->error, "missing routing");
    if (read_metadata(draft, root) != RC_OK ||
        read_object(draft, root, "routing", ROUTING, &routing) != RC_OK ||
        read_audience(draft, routing) != RC_OK || read_retry(draft, routing) != RC_OK ||
        read_web_push(draft, root) != RC_OK)
        return RC_BAD;
    return read_receipts(draft, routing);
}

/* Encoding. */

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
    if (draft->expires_us != 0)
        clock_text_us(draft->expires_us, expires);
    envelope_write(&writer, &envelope, ENVELOPE_ID, ENVELOPE_PAYLOAD);
    if (line.rc == RC_OK)
        line.rc = json_doc_add(draft->doc, draft->payload, line.out);
    envelope_write(&writer, &envelope, ENVELOPE_AUDIENCE, ENVELOPE_TARGETS);
    add_targets(&line, publication);
    envelope_write(&writer, &envelope, ENVELOPE_ACK_REQUIRED, ENVELOPE_END);
    return line.rc;
}

static uint16_t
flags_of(const struct publication_draft *draft)
{
    const struct publication *publication = draft->publication;
    const bool has_receipts = draft->receipts != FRAME_RECEIPTS_NONE || draft->escalations[0] != 0;

    return (uint16_t)((publication->needs_ack ? FRAME_ACK_REQUIRED : 0) |
                      (draft->is_retried ? FRAME_RETRY_ENABLED : 0) |
                      (draft->ack_timeout_ms != 0 ? FRAME_ACK_TIMED : 0) |
                      (has_receipts ? FRAME_RECEIPTS : 0) |
                      (publication->web_push != NULL ? FRAME_WEB_PUSH : 0) |
                      (publication->traceparent[0] != '\0' ? FRAME_TRACED : 0));
}

static void
fill_head(const struct publication_draft *draft, const unsigned char id[16], size_t topic_len,
          unsigned char head[FRAME_NOTIFICATION_HEAD_SIZE])
{
    const struct publication *publication = draft->publication;

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
    bytes_put_u32(head + FRAME_NOTIFICATION_AT_TARGET_COUNT, (uint32_t)publication->target_count);
    bytes_put_u32(head + FRAME_NOTIFICATION_AT_ACK_TIMEOUT, draft->ack_timeout_ms);
    head[FRAME_NOTIFICATION_AT_RECEIPTS] = (unsigned char)draft->receipts;
    for (size_t i = 0; i < FRAME_ESCALATIONS; i++)
        bytes_put_u32(head + FRAME_NOTIFICATION_AT_ESCALATIONS + i * FRAME_ESCALATION_SIZE,
                      draft->escalations[i]);
}

/* Adds a text after its length. */
static void
add_text(struct line *line, const char *text)
{
    unsigned char len[2];

    bytes_put_u16(len, (uint16_t)strlen(text));
    line_add(line, (const char *)len, sizeof(len));
    line_add(line, text, strlen(text));
}

static enum rc
write_head(const struct publication_draft *draft, const unsigned char id[16], const char *topic)
{
    struct publication *publication = draft->publication;
    unsigned char head[FRAME_NOTIFICATION_HEAD_SIZE] = {0}, *written;
    struct line line = {&publication->head, RC_OK};
    size_t targets_at, targets_len;

    fill_head(draft, id, strlen(topic), head);
    line_add(&line, (const char *)head, sizeof(head));
    line_add(&line, publication->audience, strlen(publication->audience));
    line_add(&line, topic, strlen(topic));
    targets_at = publication->head.len;
    for (size_t i = 0; i < publication->target_count; i++)
        add_text(&line, publication->targets[i]);
    targets_len = publication->head.len - targets_at;
    if (publication->web_push != NULL)
        add_text(&line, publication->web_push);
    if (line.rc != RC_OK)
        return line.rc;
    written = (unsigned char *)publication->head.bytes;
    bytes_put_u32(written, (uint32_t)(publication->head.len + publication->data.len));
    bytes_put_u32(written + FRAME_NOTIFICATION_AT_TARGETS_LEN, (uint32_t)targets_len);
    return RC_OK;
}

/* Writes id, frame header and JSON document. Fails if they are too large. */
static enum rc
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
    publication->topic = memory_text(topic, strlen(topic));
    rc = write_line(draft, topic);
    if (rc == RC_OK)
        rc = write_head(draft, id, topic);
    return rc;
}

static enum rc
reject_json(struct publication_draft *draft, const struct json_doc_error *load)
{
    if (load->fault != JSON_FAULT_RANGE)
        return wire_reject(draft->error, "body is not JSON: %.120s", load->text);
    return wire_reject(draft->error,
                       "number out of range before line %d, column %d of the body: "
                       "send numbers beyond 64 bits as strings",
                       load->line, load->column);
}

enum rc
publication_parse(const char *text, size_t len, const struct publication_origin *origin,
                  struct publication *ret_publication, char error[WIRE_ERROR_MAX])
{
    struct publication publication = {0};
    struct json_doc doc;
    struct json_doc_error load;
    struct publication_draft draft = {
        .publication = &publication, .origin = origin, .error = error, .doc = &doc};
    enum rc rc = json_doc_parse(&doc, text, len, false, &load);

    rc = rc == RC_OK ? read_publication(&draft, json_doc_root(&doc)) : reject_json(&draft, &load);
    if (rc == RC_OK && publication_write(&draft) != RC_OK)
        rc = wire_reject(draft.error, "notification too large");
    json_doc_free(&doc);
    if (rc == RC_OK)
        *ret_publication = publication;
    else
        publication_free(&publication);
    return rc;
}

void
publication_free(struct publication *publication)
{
    for (size_t i = 0; i < publication->target_count; i++)
        free(publication->targets[i]);
    free(publication->targets);
    free(publication->topic);
    free(publication->audience);
    free(publication->web_push);
    buffer_free(&publication->head);
    buffer_free(&publication->data);
    *publication = (struct publication){0};
}
