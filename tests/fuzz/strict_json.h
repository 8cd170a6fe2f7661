/*
 * strict_json.h: a strict JSON parser, which checks the decoder's output.
 *
 * RFC 8259, and more: UTF-8 without surrogates, no lone surrogate among the escapes, no
 * byte after the value, no white space outside of strings unless allowed. It shares no code
 * with the writer.
 */
#ifndef CLAIRON_STRICT_JSON_H
#define CLAIRON_STRICT_JSON_H

#include <stddef.h>

#define STRICT_BLANKS 0x01       /* white space between tokens is allowed */
#define STRICT_NOTIFICATION 0x02 /* a notification: its keys and their order, none of them twice */

/* Returns NULL when `text` is exactly one JSON value, else the error, at byte *ret_at. */
const char *strict_json_check(const char *text, size_t len, unsigned flags, size_t *ret_at);

/*
 * Decodes the inside of a JSON string, which is known to be valid, to `dst`, which has room
 * for `len` bytes. Returns the end.
 */
char *strict_json_unescape(char *dst, const char *src, size_t len);

#endif
