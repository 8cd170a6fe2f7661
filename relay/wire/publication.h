/* publication.h: a notification published over HTTP, encoded as the decoder would. Pure. */
#ifndef CLAIRON_WIRE_PUBLICATION_H
#define CLAIRON_WIRE_PUBLICATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "decoder/protocol/traceparent.h"
#include "wire/frame.h"
#include "wire/json_doc.h"

#define PUBLICATION_LINE_MAX (8 * 1024 * 1024) /* a body of 1 MB with every character escaped */

/* Data that the relay adds to the request. */
struct publication_origin {
    const char *emitter;
    const char *topic_prefix; /* NULL: the topic is only the source */
    /* from the HTTP header; NULL: none. A value in the body takes precedence */
    const char *traceparent;
    int64_t now_us; /* Unix time */
    unsigned char random[10];
};

struct publication {
    char id[FRAME_UUID_TEXT + 1]; /* version 7 */
    bool needs_ack;
    bool is_expired; /* the expiration has passed: accepted only as a duplicate */
    char traceparent[TRACEPARENT_LEN + 1]; /* "": none */
    char *web_push;                        /* text of the Web Push (push_message.h); NULL: none */
    const char *urgency;                   /* of the Web Push */
    char *topic;
    char *audience;
    char **targets;
    size_t target_count;
    struct buffer head; /* the frame header (decoder/protocol/frame_format.h) */
    struct buffer data; /* the JSON document */
};

/*
 * Parses {"metadata":{...},"payload":{...},"routing":{...}}. The relay sets id, timestamp, emitter
 * and operation. RC_BAD: `error` names the field. The caller frees the result with
 * publication_free.
 */
MUST_CHECK enum rc publication_parse(const char *text, size_t len,
                                     const struct publication_origin *origin,
                                     struct publication *ret_publication,
                                     char error[WIRE_ERROR_MAX]);

/* Frees and resets. Accepts a zeroed struct. */
void publication_free(struct publication *publication);

#endif
