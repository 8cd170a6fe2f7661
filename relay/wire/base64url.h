/* base64url.h: base64url without padding (RFC 4648, section 5). Pure. */
#ifndef CLAIRON_WIRE_BASE64URL_H
#define CLAIRON_WIRE_BASE64URL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/memory.h"
#include "base/rc.h"

/* Characters for `bytes` bytes. */
#define BASE64URL_LEN(bytes) ((4 * (bytes) + 2) / 3)

bool base64url_is_digit(char c);

/*
 * Decodes the text, and adds a terminating zero. The caller frees the bytes. NULL: not the encoding
 * of any bytes. Two texts never have the same bytes.
 */
char *base64url_decode(const char *text, size_t len, size_t *ret_len);

/* Writes BASE64URL_LEN(len) characters and a terminating zero. */
void base64url_encode(const void *bytes, size_t len, char *ret_text);

/* Adds the encoding. RC_LIMIT: `out` is full. */
MUST_CHECK enum rc base64url_add(struct buffer *out, const void *bytes, size_t len);

#endif
