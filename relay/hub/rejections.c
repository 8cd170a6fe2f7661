/* rejections.c: logs rejected acks, nacks and delivery reports at a limited rate. */
#include "hub/hub_private.h"

#include "base/clock.h"
#include "base/log.h"

#define LOG_EVERY_US (10 * INT64_C(1000000))

void
rejections_add(struct rejections *rejections, const char *user, const char *what)
{
    int64_t now_us = clock_monotonic_us();

    rejections->count++;
    if (rejections->logged_us != 0 && now_us - rejections->logged_us < LOG_EVERY_US)
        return;
    log_warn("hub", what, LOG_UINT("count", rejections->count), LOG_TEXT("user", user));
    *rejections = (struct rejections){.logged_us = now_us};
}
