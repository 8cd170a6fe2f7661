/*
 * json.h: JSON text out of raw bytes, without PostgreSQL's headers, so that a
 * fuzzer or a unit test can hold it alone.
 *
 * Every function writes to memory that the caller has reserved; none allocates,
 * none fails. Input is UTF-8; bytes that are not valid become U+FFFD.
 */
#ifndef CLAIRON_JSON_H
#define CLAIRON_JSON_H

#include <stdbool.h>
#include <stddef.h>

/* The most bytes that one input byte can turn into, escaped. */
#define JSON_ESCAPE_GROWTH 6

/*
 * Writes the inside of a JSON string (no quotes) for `len` bytes of `src`; `dst`
 * holds JSON_ESCAPE_GROWTH * len. With `ascii`, what is not ASCII is written as
 * \uXXXX. Returns the end of what was written.
 */
char *json_escape(char *dst, const char *src, size_t len, bool ascii);

/*
 * Copies a valid JSON text without the white space outside its strings; strings
 * keep their escapes as they are. `dst` holds JSON_ESCAPE_GROWTH * len.
 */
char *json_compact(char *dst, const char *src, size_t len, bool ascii);

/* Bytes that json_pretty makes of a minified text. */
size_t json_pretty_len(const char *src, size_t len);

/* Indents a minified JSON text by two spaces a level; returns the end. */
char *json_pretty(char *dst, const char *src, size_t len);

/* Copies UTF-8, with U+FFFD for what is not valid. `dst` holds 3 * len. Returns the end. */
char *json_clean(char *dst, const char *src, size_t len);

/* Base64 with padding; `dst` holds 4 * ((len + 2) / 3). Returns the end. */
char *json_base64(char *dst, const unsigned char *src, size_t len);

/* The largest cut <= len that does not split a UTF-8 sequence of `src`. */
size_t json_cut(const char *src, size_t len, size_t cut);

#endif
