/*
 * json.h: writes JSON text without PostgreSQL's headers, for fuzzers and unit tests.
 *
 * No function allocates memory or fails: the caller reserves the output. Input is UTF-8; invalid
 * bytes become U+FFFD.
 */
#ifndef CLAIRON_JSON_H
#define CLAIRON_JSON_H

#include <stdbool.h>
#include <stddef.h>

/* The largest number of bytes for one escaped input byte. */
#define JSON_ESCAPE_GROWTH 6

/*
 * Writes the contents of a JSON string, without quotes, for `len` bytes of `src`. `dst` has room
 * for JSON_ESCAPE_GROWTH * len bytes. `ascii` escapes all non-ASCII characters as \uXXXX. Returns
 * the end of the output.
 */
char *json_escape(char *dst, const char *src, size_t len, bool ascii);

/*
 * Copies valid JSON, without the white space outside its strings; keeps escapes. `dst` has room for
 * JSON_ESCAPE_GROWTH * len bytes.
 */
char *json_compact(char *dst, const char *src, size_t len, bool ascii);

/* Returns the output size of json_pretty for minified JSON. */
size_t json_pretty_len(const char *src, size_t len);

/* Indents minified JSON by two spaces a level; returns the end. */
char *json_pretty(char *dst, const char *src, size_t len);

/*
 * Copies UTF-8, with U+FFFD for invalid bytes. `dst` has room for 3 * len bytes. Returns the end.
 */
char *json_clean(char *dst, const char *src, size_t len);

/* Writes base64 with padding; `dst` has room for 4 * ((len + 2) / 3) bytes. Returns the end. */
char *json_base64(char *dst, const unsigned char *src, size_t len);

/* The largest cut <= len that does not split a UTF-8 sequence of `src`. */
size_t json_cut(const char *src, size_t len, size_t cut);

#endif
