/*
 * envelope.h: the JSON of a notification around its payload and targets.
 *
 * Rows, clairon.notify and the publish API use this description of the fields, their order and the
 * text before each. The decoder renders the constant fields of a rule once, by envelope_write. It
 * writes the others itself, after the ENVELOPE_.._TEXT of the field. Pure C, without PostgreSQL's
 * headers.
 */
#ifndef CLAIRON_ENVELOPE_H
#define CLAIRON_ENVELOPE_H

#include <stdbool.h>
#include <stddef.h>

#include "frame.h"

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

/* The text before the value of a field, for callers that write the field themselves. */
#define ENVELOPE_ID_TEXT "{\"metadata\":{\"id\":"
#define ENVELOPE_EMITTER_TEXT ",\"emitter\":"
#define ENVELOPE_TIMESTAMP_TEXT ",\"timestamp\":"
#define ENVELOPE_EXPIRATION_TEXT ",\"expiration\":"
#define ENVELOPE_PAYLOAD_TEXT "},\"payload\":"

struct envelope_text {
    const char *bytes; /* UTF-8; NULL: there is none */
    size_t len;
};

/* Only the written fields need values. */
struct envelope {
    const char *id; /* as text */
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

/* The words of the enums in frame.h, in their order; NULL at the end. */
extern const char *const envelope_priorities[];
extern const char *const envelope_types[];
extern const char *const envelope_operations[];
extern const char *const envelope_backoffs[];

#endif
