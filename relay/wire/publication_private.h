/* publication_private.h: a notification between parsing and encoding; for publication*.c only. */
#ifndef CLAIRON_WIRE_PUBLICATION_PRIVATE_H
#define CLAIRON_WIRE_PUBLICATION_PRIVATE_H

#include <jansson.h>

#include "decoder/protocol/envelope.h"
#include "decoder/protocol/limits.h"
#include "wire/publication.h"

#define NAME_MAX_BYTES LIMIT_TARGET

/* Texts are views of the parsed JSON. */
struct publication_draft {
    struct publication *publication;
    const struct publication_origin *origin;
    char *error;
    const char *text; /* the body without duplicate keys */
    size_t len;
    int priority;
    int type;
    int backoff;
    int64_t limit;
    bool is_retried;
    const char *source;
    const char *topic; /* NULL: derived from the source */
    int64_t expires_us;
    const json_t *payload;
};

/* Writes the error and returns RC_BAD. */
enum rc publication_reject(struct publication_draft *draft, const char *format, ...)
    PRINTF_LIKE(2, 3);

/*
 * publication_payload.c: adds the payload byte for byte, without white space between its tokens.
 * Call it only after json_loadb accepted the whole body.
 */
MUST_CHECK enum rc publication_add_payload(const struct publication_draft *draft,
                                           struct buffer *out);

/* publication_targets.c: the targets of its audience, in canonical form. */
MUST_CHECK enum rc publication_parse_targets(struct publication_draft *draft,
                                             const json_t *targets);

/* publication_write.c: id, frame header and JSON document. */
MUST_CHECK enum rc publication_write(struct publication_draft *draft);

#endif
