/* trim.c: keeps the stream from growing beyond store.retention. */
#include "store/trim.h"

#include <ev.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/link.h"

#define TRIM_EVERY_S 60.0

struct trim {
    struct ev_loop *loop;
    struct link *link;
    const char *stream_key;
    int64_t retention_ms;
    struct stats *stats;
    ev_timer timer;
};

static void
on_trimmed(void *ctx, const redisReply *reply)
{
    struct trim *trim = ctx;

    if (reply == NULL)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        stats_add(trim->stats, STAT_STORE_ERRORS, 1);
        log_error("store", "could not trim %s: %s", trim->stream_key, reply->str);
    } else if (reply->integer > 0) {
        stats_add(trim->stats, STAT_STORE_TRIMMED, (uint64_t)reply->integer);
        log_info("store", "trimmed %lld entries older than the retention", reply->integer);
    }
}

static void
on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct trim *trim = timer->data;
    char keep_from[24];
    const char *argv[] = {trim->stream_key, keep_from};
    size_t lens[2];

    (void)loop;
    (void)events;
    snprintf(keep_from, sizeof(keep_from), "%" PRId64, clock_wall_us() / 1000 - trim->retention_ms);
    lens[0] = strlen(argv[0]);
    lens[1] = strlen(argv[1]);
    if (link_call(trim->link, STORE_SCRIPT_trim, 1, on_trimmed, trim, 2, argv, lens) != RC_OK)
        log_debug("store", "not trimming while the store is away");
}

struct trim *
trim_open(struct ev_loop *loop, struct link *link, const char *stream_key, int64_t retention_ms,
          struct stats *stats)
{
    struct trim *trim = memory_new(sizeof(*trim));

    *trim = (struct trim){loop, link, stream_key, retention_ms, stats, {0}};
    ev_timer_init(&trim->timer, on_timer, TRIM_EVERY_S, TRIM_EVERY_S);
    trim->timer.data = trim;
    ev_timer_start(loop, &trim->timer);
    return trim;
}

void
trim_close(struct trim *trim)
{
    if (trim != NULL)
        ev_timer_stop(trim->loop, &trim->timer);
}

void
trim_free(struct trim *trim)
{
    free(trim);
}
