/* publication.h: a notification asked for over HTTP, as the decoder would write it. Pure. */
#ifndef CLAIRON_WIRE_PUBLICATION_H
#define CLAIRON_WIRE_PUBLICATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "decoder/protocol/traceparent.h"
#include "wire/frame.h"

#define PUBLICATION_TARGETS_MAX 10000
#define PUBLICATION_ERROR_MAX 192
#define PUBLICATION_LINE_MAX (8 * 1024 * 1024) /* a body of 1 MB with all its escapes */

/* What the relay knows and the asker does not say. */
struct publication_origin {
    const char *emitter;
    const char *topic_prefix; /* NULL: the topic is the source alone */
    const char *traceparent;  /* of the request; NULL: none. What the body says goes before */
    int64_t now_us;           /* Unix */
    unsigned char random[10];
};

struct publication {
    char id[FRAME_UUID_TEXT + 1]; /* version 7 */
    bool needs_ack;
    bool is_expired; /* its expiration is not later than now_us: only a repeat is answered */
    char traceparent[TRACEPARENT_LEN + 1]; /* "": none */
    char *audience;
    char **targets;
    size_t target_count;
    struct buffer head;  /* of the frame, see decoder/protocol/frame.h */
    struct buffer data;  /* the JSON line */
    struct buffer asked; /* the body in one form of all equal ones */
};

/*
 * Reads {"metadata":{..},"payload":{..},"routing":{..}}; what it says of id, timestamp, emitter and
 * operation is the relay's to decide. RC_BAD: `error` is a sentence that names the field. The
 * caller frees with publication_free.
 */
MUST_CHECK enum rc publication_read(const char *text, size_t len,
                                    const struct publication_origin *origin,
                                    struct publication *ret_publication,
                                    char error[PUBLICATION_ERROR_MAX]);

/* Accepts a zeroed one; resets it. */
void publication_free(struct publication *publication);

#endif
