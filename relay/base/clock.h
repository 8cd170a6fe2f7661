/* clock.h: the two clocks: monotonic for timers, wall for timestamps. */
#ifndef CLAIRON_BASE_CLOCK_H
#define CLAIRON_BASE_CLOCK_H

#include <stdint.h>

int64_t clock_monotonic_us(void);
int64_t clock_wall_us(void); /* since 1970-01-01 UTC */

#endif
