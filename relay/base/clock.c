/* clock.c: reads the two clocks in microseconds; prints wall times. */
#include "base/clock.h"

#include <stdio.h>
#include <time.h>

static int64_t
clock_read_us(clockid_t id)
{
    struct timespec now;

    /* Cannot fail: both clocks exist on every Linux and the pointer is valid. */
    (void)clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t
clock_monotonic_us(void)
{
    return clock_read_us(CLOCK_MONOTONIC);
}

int64_t
clock_wall_us(void)
{
    return clock_read_us(CLOCK_REALTIME);
}

static void
write_text(int64_t seconds, int64_t fraction, int digits, char ret_text[CLOCK_TEXT_MAX])
{
    time_t time = (time_t)seconds;
    struct tm utc;
    size_t len = 0;

    if (gmtime_r(&time, &utc) != NULL)
        len = strftime(ret_text, CLOCK_TEXT_MAX, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(ret_text + len, CLOCK_TEXT_MAX - len, ".%0*dZ", digits, (int)fraction);
}

void
clock_text_us(int64_t us, char ret_text[CLOCK_TEXT_MAX])
{
    write_text(us / 1000000, us % 1000000, 6, ret_text);
}

void
clock_text_ms(int64_t ms, char ret_text[CLOCK_TEXT_MAX])
{
    write_text(ms / 1000, ms % 1000, 3, ret_text);
}
