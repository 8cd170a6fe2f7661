/* utf8.h: which bytes are a UTF-8 character. */
#ifndef CLAIRON_BASE_UTF8_H
#define CLAIRON_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD, for what is not valid */

/*
 * Bytes of the valid character (RFC 3629: no overlong form, no surrogate, none
 * above U+10FFFF) that `text` begins with; 0 when there is none in its `len` bytes.
 */
size_t utf8_char_len(const char *text, size_t len);

/*
 * False when no bytes after `text` can make it valid. *ret_len: bytes of the whole characters at
 * its start, less than `len` when it ends within one.
 */
bool utf8_may_go_on(const char *text, size_t len, size_t *ret_len);

#endif
