/* retry_after.h: the response header Retry-After (RFC 9110, section 10.2.3). Pure. */
#ifndef CLAIRON_WIRE_RETRY_AFTER_H
#define CLAIRON_WIRE_RETRY_AFTER_H

#include <stdint.h>

/*
 * Returns the delay in ms, at most max_ms. The value is a number of seconds, or an HTTP date, which
 * is compared with `now_s`, seconds since 1970; 0 for a date in the past. -1: invalid.
 */
int64_t retry_after_ms(const char *value, int64_t now_s, int64_t max_ms);

#endif
