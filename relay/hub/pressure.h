/* pressure.h: detects overload: a lack of CPU or of memory. */
#ifndef CLAIRON_HUB_PRESSURE_H
#define CLAIRON_HUB_PRESSURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PRESSURE_EVERY_MS 200 /* interval between measurements */

/* The priorities that are dropped: none, LOW, or LOW and NORMAL. */
enum pressure_level { PRESSURE_NONE, PRESSURE_LOW, PRESSURE_NORMAL };

/* 0: no limit. */
struct pressure_limits {
    int64_t delay_us; /* queueing delay */
    size_t bytes;     /* bytes queued for slow sockets */
};

/*
 * Above a limit, the level becomes LOW, and after another second NORMAL. After a second below half
 * of both limits, the level drops by one. Between these thresholds it does not change.
 */
struct pressure {
    enum pressure_level level;
    int64_t delay_us; /* smoothed queueing delay */
    bool was_over;
    bool was_calm;
    int64_t since_us; /* start of the period above or below the limits; monotonic */
};

/* Adds a measurement taken at `now_us`. True if the level changed. */
bool pressure_measure(struct pressure *pressure, const struct pressure_limits *limits,
                      int64_t now_us, int64_t delay_us, size_t bytes);

#endif
