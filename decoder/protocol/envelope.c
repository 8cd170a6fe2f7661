/* envelope.c: writes the fields of a notification in their order. */
#include "envelope.h"

#include <stdio.h>
#include <string.h>

const char *const envelope_priorities[] = {"HIGH", "NORMAL", "LOW", NULL};
const char *const envelope_types[] = {"REALTIME", "NOTIFICATION", "SYSTEM", NULL};
const char *const envelope_operations[] = {"create",   "update", "delete",
                                           "truncate", "notify", NULL};
const char *const envelope_backoffs[] = {"EXPONENTIAL", "LINEAR", "FIXED", NULL};

/* The text before each value, and the text after the last value. */
static const char *const before[] = {
    [ENVELOPE_ID] = ENVELOPE_ID_TEXT,
    [ENVELOPE_PRIORITY] = ENVELOPE_PRIORITY_TEXT,
    [ENVELOPE_TYPE] = ENVELOPE_TYPE_TEXT,
    [ENVELOPE_EMITTER] = ENVELOPE_EMITTER_TEXT,
    [ENVELOPE_SOURCE] = ENVELOPE_SOURCE_TEXT,
    [ENVELOPE_TOPIC] = ENVELOPE_TOPIC_TEXT,
    [ENVELOPE_OPERATION] = ENVELOPE_OPERATION_TEXT,
    [ENVELOPE_TRACEPARENT] = ENVELOPE_TRACEPARENT_TEXT,
    [ENVELOPE_TIMESTAMP] = ENVELOPE_TIMESTAMP_TEXT,
    [ENVELOPE_EXPIRATION] = ENVELOPE_EXPIRATION_TEXT,
    [ENVELOPE_DATA] = ENVELOPE_DATA_TEXT,
    [ENVELOPE_PAYLOAD] = ENVELOPE_PAYLOAD_TEXT,
    [ENVELOPE_AUDIENCE] = ENVELOPE_AUDIENCE_TEXT,
    [ENVELOPE_TARGETS] = ENVELOPE_TARGETS_TEXT,
    [ENVELOPE_ACK_REQUIRED] = ENVELOPE_ACK_REQUIRED_TEXT,
    [ENVELOPE_RETRY_ENABLED] = ENVELOPE_RETRY_ENABLED_TEXT,
    [ENVELOPE_ATTEMPTS] = ENVELOPE_ATTEMPTS_TEXT,
    [ENVELOPE_RETRY_LIMIT] = ENVELOPE_RETRY_LIMIT_TEXT,
    [ENVELOPE_BACKOFF] = ENVELOPE_BACKOFF_TEXT,
    [ENVELOPE_END] = ENVELOPE_END_TEXT,
};

static void
put(const struct envelope_writer *writer, const char *text)
{
    writer->raw(writer->out, text, strlen(text));
}

/* Writes a word that needs no escapes. */
static void
put_word(const struct envelope_writer *writer, const char *word)
{
    put(writer, "\"");
    put(writer, word);
    put(writer, "\"");
}

static void
put_text(const struct envelope_writer *writer, const struct envelope_text *text)
{
    writer->text(writer->out, text->bytes, text->len);
}

static void
put_number(const struct envelope_writer *writer, unsigned number)
{
    char digits[16];

    snprintf(digits, sizeof(digits), "%u", number);
    put(writer, digits);
}

static void
put_value(const struct envelope_writer *writer, const struct envelope *envelope,
          enum envelope_field field)
{
    switch (field) {
    case ENVELOPE_ID:
        put_word(writer, envelope->id);
        break;
    case ENVELOPE_PRIORITY:
        put_word(writer, envelope_priorities[envelope->priority]);
        break;
    case ENVELOPE_TYPE:
        put_word(writer, envelope_types[envelope->type]);
        break;
    case ENVELOPE_EMITTER:
        put_text(writer, &envelope->emitter);
        break;
    case ENVELOPE_SOURCE:
        put_text(writer, &envelope->source);
        break;
    case ENVELOPE_TOPIC:
        put_text(writer, &envelope->topic);
        break;
    case ENVELOPE_OPERATION:
        put_word(writer, envelope_operations[envelope->operation]);
        break;
    case ENVELOPE_TRACEPARENT:
        put_text(writer, &envelope->traceparent);
        break;
    case ENVELOPE_TIMESTAMP:
        put_word(writer, envelope->timestamp);
        break;
    case ENVELOPE_EXPIRATION:
        put_word(writer, envelope->expiration);
        break;
    case ENVELOPE_DATA:
        writer->raw(writer->out, envelope->data.bytes, envelope->data.len);
        break;
    case ENVELOPE_AUDIENCE:
        put_text(writer, &envelope->audience);
        break;
    case ENVELOPE_ACK_REQUIRED:
        put(writer, envelope->ack_required ? "true" : "false");
        break;
    case ENVELOPE_RETRY_ENABLED:
        put(writer, envelope->retry_enabled ? "true" : "false");
        break;
    case ENVELOPE_ATTEMPTS:
        put_number(writer, 0); /* the store increments it at a retry */
        break;
    case ENVELOPE_RETRY_LIMIT:
        put_number(writer, envelope->retry_limit);
        break;
    case ENVELOPE_BACKOFF:
        put_word(writer, envelope_backoffs[envelope->backoff]);
        break;
    case ENVELOPE_PAYLOAD:
    case ENVELOPE_TARGETS:
    case ENVELOPE_END:
        break;
    }
}

static bool
is_absent(const struct envelope *envelope, enum envelope_field field)
{
    return (field == ENVELOPE_TRACEPARENT && envelope->traceparent.bytes == NULL) ||
           (field == ENVELOPE_EXPIRATION && envelope->expiration == NULL) ||
           (field == ENVELOPE_DATA && envelope->data.bytes == NULL);
}

void
envelope_write(const struct envelope_writer *writer, const struct envelope *envelope,
               enum envelope_field first, enum envelope_field last)
{
    for (enum envelope_field field = first; field <= last; field++) {
        if (is_absent(envelope, field))
            continue;
        put(writer, before[field]);
        put_value(writer, envelope, field);
    }
}
