/* publication_private.h: a notification between parsing and encoding; for publication*.c only. */
#ifndef CLAIRON_WIRE_PUBLICATION_PRIVATE_H
#define CLAIRON_WIRE_PUBLICATION_PRIVATE_H

#include <jansson.h>

#include "wire/publication.h"

/* Strings point into the parsed JSON. */
struct publication_draft {
    struct publication *publication;
    const struct publication_origin *origin;
    char *error;
    const char *text; /* the body as received; it has no duplicate keys */
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

/* publication_write.c: writes id, frame header and JSON document. Fails if they are too large. */
MUST_CHECK enum rc publication_write(const struct publication_draft *draft);

#endif
