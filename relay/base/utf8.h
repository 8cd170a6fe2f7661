/* utf8.h: validates UTF-8 characters. */
#ifndef CLAIRON_BASE_UTF8_H
#define CLAIRON_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD, for invalid bytes */

/*
 * Returns the length of the character at `text`, or 0 if the `len` bytes do not start with a valid
 * character (RFC 3629: no overlong form, no surrogate, at most U+10FFFF).
 */
size_t utf8_char_len(const char *text, size_t len);

/*
 * False if no further bytes can make `text` valid. *ret_len: bytes of complete characters; less
 * than `len` if the text ends within a character.
 */
bool utf8_is_prefix(const char *text, size_t len, size_t *ret_len);

#endif
