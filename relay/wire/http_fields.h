/* http_fields.h: the values of the header fields Prefer and Retry-After. Pure. */
#ifndef CLAIRON_WIRE_HTTP_FIELDS_H
#define CLAIRON_WIRE_HTTP_FIELDS_H

#include <stdint.h>

#define PREFER_WAIT_MAX_S 3600

/*
 * Prefer (RFC 7240): returns the seconds of "wait=10" among the preferences, or default_s without
 * seconds; 0: absent, invalid, or more than PREFER_WAIT_MAX_S. The first of duplicate preferences
 * is used.
 */
int prefer_wait_s(const char *value, int default_s);

/*
 * Retry-After (RFC 9110, section 10.2.3): returns the delay in ms, at most max_ms. The value is a
 * number of seconds, or an HTTP date, which is compared with `now_s`, seconds since 1970; 0 for a
 * date in the past. -1: invalid.
 */
int64_t retry_after_ms(const char *value, int64_t now_s, int64_t max_ms);

#endif
