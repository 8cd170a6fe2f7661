/* buffer.h: a byte string that grows up to a fixed limit. */
#ifndef CLAIRON_BASE_BUFFER_H
#define CLAIRON_BASE_BUFFER_H

#include <stddef.h>

#include "base/rc.h"

struct buffer {
    char *bytes; /* zero-terminated after the first addition */
    size_t len;
    size_t room;
    size_t limit; /* maximum bytes; an addition beyond it returns RC_LIMIT and adds nothing */
};

void buffer_init(struct buffer *buffer, size_t limit);
void buffer_free(struct buffer *buffer);  /* also resets to empty */
void buffer_clear(struct buffer *buffer); /* keeps the memory */
MUST_CHECK enum rc buffer_add(struct buffer *buffer, const void *bytes, size_t len);
MUST_CHECK enum rc buffer_addf(struct buffer *buffer, const char *format, ...) PRINTF_LIKE(2, 3);
/* Adds a JSON string with its quotes; invalid UTF-8 becomes U+FFFD. */
MUST_CHECK enum rc buffer_add_json(struct buffer *buffer, const char *text, size_t len);

#endif
