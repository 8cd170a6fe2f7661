/*
 * strict_json.h: a strict JSON parser, which checks the decoder's output.
 *
 * Stricter than RFC 8259: UTF-8 without surrogates, no escaped lone surrogate, no byte after the
 * value, no white space outside of strings unless allowed. The parser shares no code with the
 * writer.
 */
#ifndef CLAIRON_STRICT_JSON_H
#define CLAIRON_STRICT_JSON_H

#include <stddef.h>

#define STRICT_BLANKS 0x01       /* allow white space between tokens */
#define STRICT_NOTIFICATION 0x02 /* require exactly the keys of a notification, in order */

/* Returns NULL when `text` is exactly one JSON value, otherwise the error, at byte *ret_at. */
const char *strict_json_check(const char *text, size_t len, unsigned flags, size_t *ret_at);

/*
 * Decodes the contents of a valid JSON string to `dst`, which has room for `len` bytes. Returns the
 * end.
 */
char *strict_json_unescape(char *dst, const char *src, size_t len);

#endif
