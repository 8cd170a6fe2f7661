/* clock.h: the two clocks: monotonic for timers, wall for timestamps. */
#ifndef CLAIRON_BASE_CLOCK_H
#define CLAIRON_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

int64_t clock_monotonic_us(void);
int64_t clock_wall_us(void); /* since 1970-01-01 UTC */

#define CLOCK_TEXT_MAX 40

/*
 * Writes a wall time as ISO 8601 in UTC, with six or three fractional digits:
 * 2025-03-15T12:34:56.123456Z.
 */
void clock_text_us(int64_t us, char ret_text[CLOCK_TEXT_MAX]);
void clock_text_ms(int64_t ms, char ret_text[CLOCK_TEXT_MAX]);

/*
 * Returns a wall time as in the header Date (RFC 9110, 5.6.7): Sat, 15 Mar 2025 12:34:56 GMT. Valid
 * until the next call, which formats it again only for another second.
 */
const char *clock_http_date(int64_t us);

/*
 * Reads a time of RFC 3339, such as 2026-12-01T00:40:00+01:00. A fraction of a microsecond is
 * rounded up. False: invalid.
 */
bool clock_read_text(const char *text, int64_t *ret_us);

#endif
