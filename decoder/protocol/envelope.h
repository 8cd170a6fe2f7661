/*
 * envelope.h: the JSON of a notification around its payload and targets.
 *
 * Rows, clairon.notify and the publish API use this description of the fields, their order and the
 * text before each. The decoder renders the constant fields of a rule once, by envelope_write. It
 * writes the other fields itself, after their ENVELOPE_.._TEXT. The relay and the store's scripts
 * search for these literals. Pure C, without PostgreSQL's headers.
 */
#ifndef CLAIRON_ENVELOPE_H
#define CLAIRON_ENVELOPE_H

#include <stdbool.h>
#include <stddef.h>

#include "frame_format.h"

/* In order of appearance. */
enum envelope_field {
    ENVELOPE_ID,
    ENVELOPE_PRIORITY,
    ENVELOPE_TYPE,
    ENVELOPE_EMITTER,
    ENVELOPE_SOURCE,
    ENVELOPE_TOPIC,
    ENVELOPE_OPERATION,
    ENVELOPE_TRACEPARENT, /* optional */
    ENVELOPE_TIMESTAMP,
    ENVELOPE_EXPIRATION, /* optional */
    ENVELOPE_DATA,       /* optional, JSON that contains no ENVELOPE_.._TEXT of a later field */
    ENVELOPE_PAYLOAD,    /* the caller writes the value */
    ENVELOPE_AUDIENCE,
    ENVELOPE_TARGETS, /* the caller writes the value, an array of strings */
    ENVELOPE_ACK_REQUIRED,
    ENVELOPE_RETRY_ENABLED,
    ENVELOPE_ATTEMPTS,
    ENVELOPE_RETRY_LIMIT,
    ENVELOPE_BACKOFF,
    ENVELOPE_END
};

/*
 * The text before the value of a field; ENVELOPE_END_TEXT is the text after the last value. The
 * build inserts these literals into the store's scripts.
 */
#define ENVELOPE_ID_TEXT "{\"metadata\":{\"id\":"
#define ENVELOPE_PRIORITY_TEXT ",\"priority\":"
#define ENVELOPE_TYPE_TEXT ",\"type\":"
#define ENVELOPE_EMITTER_TEXT ",\"emitter\":"
#define ENVELOPE_SOURCE_TEXT ",\"source\":"
#define ENVELOPE_TOPIC_TEXT ",\"topic\":"
#define ENVELOPE_OPERATION_TEXT ",\"operation\":"
#define ENVELOPE_TRACEPARENT_TEXT ",\"traceparent\":"
#define ENVELOPE_TIMESTAMP_TEXT ",\"timestamp\":"
#define ENVELOPE_EXPIRATION_TEXT ",\"expiration\":"
#define ENVELOPE_DATA_TEXT ",\"data\":"
#define ENVELOPE_PAYLOAD_TEXT "},\"payload\":"
#define ENVELOPE_AUDIENCE_TEXT ",\"routing\":{\"audience\":{\"type\":"
#define ENVELOPE_TARGETS_TEXT ",\"targets\":"
/* After the empty array of targets, if there are more than LIMIT_TARGETS_SENT: their number. */
#define ENVELOPE_RECIPIENTS_TEXT ",\"recipients\":"
#define ENVELOPE_ACK_REQUIRED_TEXT "},\"retry\":{\"ack_required\":"
#define ENVELOPE_RETRY_ENABLED_TEXT ",\"enabled\":"
#define ENVELOPE_ATTEMPTS_TEXT ",\"attempts\":"
#define ENVELOPE_RETRY_LIMIT_TEXT ",\"limit\":"
#define ENVELOPE_BACKOFF_TEXT ",\"backoff\":"
#define ENVELOPE_END_TEXT "}}}"

struct envelope_text {
    const char *bytes; /* UTF-8; may be NULL */
    size_t len;
};

/* Only the fields to be written need values. */
struct envelope {
    const char *id; /* UUID as a string */
    enum frame_priority priority;
    enum frame_type type;
    enum frame_operation operation;
    enum frame_backoff backoff;
    struct envelope_text emitter;
    struct envelope_text source;
    struct envelope_text topic;
    struct envelope_text traceparent;
    struct envelope_text audience;
    const char *timestamp;
    const char *expiration; /* NULL: never */
    struct envelope_text data;
    bool ack_required;
    bool retry_enabled;
    unsigned retry_limit;
};

/* The destination. `text` writes a JSON string with quotes. */
struct envelope_writer {
    void *out;
    void (*raw)(void *out, const char *bytes, size_t len);
    void (*text)(void *out, const char *utf8, size_t len);
};

/* Writes the fields from `first` to `last`, each with the text before it. */
void envelope_write(const struct envelope_writer *writer, const struct envelope *envelope,
                    enum envelope_field first, enum envelope_field last);

/* The words for the enums in frame_format.h, in enum order; NULL at the end. */
extern const char *const envelope_priorities[];
extern const char *const envelope_types[];
extern const char *const envelope_operations[];
extern const char *const envelope_backoffs[];

#endif
