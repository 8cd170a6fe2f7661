/*
 * envelope.h: the JSON of a notification, around its payload and its targets.
 *
 * Rows, clairon.notify and the publish API all write it by this description: the fields, their
 * order and the text before each. A row's notification is written often, so the decoder renders
 * once for each rule what its rows share, by envelope_write; what differs from row to row it puts
 * between, behind the ENVELOPE_.._TEXT of its field.
 *
 * Pure C, without PostgreSQL's headers.
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
    ENVELOPE_TRACEPARENT, /* left out where there is none */
    ENVELOPE_TIMESTAMP,
    ENVELOPE_EXPIRATION, /* likewise */
    ENVELOPE_PAYLOAD,    /* the value is the caller's to write */
    ENVELOPE_AUDIENCE,
    ENVELOPE_TARGETS, /* likewise: an array of strings */
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

/* The fields that are written need their values, no others. */
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

/* Where it goes: `text` writes a JSON string, quotes included. */
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
