/* pressure.c: detects whether this process is short of CPU or memory. */
#include "hub/pressure.h"

#define STEP_US 1000000
#define SMOOTH 4 /* weight of a measurement: a quarter */

/*
 * A single long pause is not overload, because the process may have been stopped. Three in a row
 * are.
 */
static void
smooth_lag(struct pressure *pressure, const struct pressure_limits *limits, int64_t delay_us)
{
    if (limits->delay_us > 0 && delay_us > 2 * limits->delay_us)
        delay_us = 2 * limits->delay_us;
    pressure->delay_us += (delay_us - pressure->delay_us) / SMOOTH;
}

bool
pressure_measure(struct pressure *pressure, const struct pressure_limits *limits, int64_t now_us,
                 int64_t delay_us, size_t bytes)
{
    enum pressure_level before = pressure->level;
    bool is_over, is_calm;

    smooth_lag(pressure, limits, delay_us);
    is_over = (limits->delay_us > 0 && pressure->delay_us >= limits->delay_us) ||
              (limits->bytes > 0 && bytes >= limits->bytes);
    is_calm = (limits->delay_us == 0 || pressure->delay_us < limits->delay_us / 2) &&
              (limits->bytes == 0 || bytes < limits->bytes / 2);
    if (is_over != pressure->was_over || is_calm != pressure->was_calm)
        pressure->since_us = now_us;
    pressure->was_over = is_over;
    pressure->was_calm = is_calm;
    if (is_over && before == PRESSURE_NONE)
        pressure->level = PRESSURE_LOW;
    else if (now_us - pressure->since_us < STEP_US)
        return false;
    else if (is_over && before == PRESSURE_LOW)
        pressure->level = PRESSURE_NORMAL;
    else if (is_calm && before != PRESSURE_NONE)
        pressure->level = before == PRESSURE_NORMAL ? PRESSURE_LOW : PRESSURE_NONE;
    pressure->since_us = now_us;
    return pressure->level != before;
}
