/*
 * strict_json.h: a reader of JSON that forgives nothing, to judge what the decoder writes.
 *
 * RFC 8259, and more: UTF-8 without surrogates, no lone surrogate among the escapes, no
 * byte after the value, no blank outside of strings unless allowed. It shares no code with
 * the writer.
 */
#ifndef CLAIRON_STRICT_JSON_H
#define CLAIRON_STRICT_JSON_H

#include <stddef.h>

#define STRICT_BLANKS 0x01 /* white space between tokens is allowed */
#define STRICT_NOTE 0x02   /* a notification: its keys and their order, none of them twice */

/* NULL when `text` is one JSON value and nothing else, else what is wrong, at byte *ret_at. */
const char *strict_json_check(const char *text, size_t len, unsigned flags, size_t *ret_at);

/*
 * Writes the bytes that the inside of a JSON string stands for to `dst`, which holds `len`.
 * The string has been checked. Returns the end.
 */
char *strict_json_unescape(char *dst, const char *src, size_t len);

#endif
