/* pressure.h: is this process short of CPU or of memory? */
#ifndef CLAIRON_HUB_FANOUT_PRESSURE_H
#define CLAIRON_HUB_FANOUT_PRESSURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PRESSURE_EVERY_MS 200 /* how often to measure */

/* What is left out of what may be: nothing, what has LOW priority, what has NORMAL too. */
enum pressure_level { PRESSURE_NONE, PRESSURE_LOW, PRESSURE_NORMAL };

/* 0: not looked at. */
struct pressure_limits {
    int64_t lag_us; /* lines wait so long for their turn */
    size_t bytes;   /* held for sockets that do not take them */
};

/*
 * At a limit LOW begins; still there after a second, NORMAL follows. Below half of both limits for
 * a second, the level falls by one. In between it stays.
 */
struct pressure {
    enum pressure_level level;
    int64_t lag_us; /* smoothed */
    bool was_over;
    bool was_calm;
    int64_t since_us; /* it was over or calm all the time; monotonic */
};

/* Takes a measurement of `now_us` in; true when the level changed. */
bool pressure_measure(struct pressure *pressure, const struct pressure_limits *limits,
                      int64_t now_us, int64_t lag_us, size_t bytes);

#endif
