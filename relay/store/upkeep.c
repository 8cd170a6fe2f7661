/* upkeep.c: what a relay does for the store on its own beat: trimming, and a sign of life. */
#include "store/upkeep.h"

#include <ev.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/link.h"

#define UPKEEP_TRIM_S 60.0
#define UPKEEP_KEY_MAX 128

struct upkeep {
    struct ev_loop *loop;
    struct link *link;
    struct stats *stats;
    int64_t retention_ms;
    ev_timer trim;
    ev_timer beat;
    char stream_key[UPKEEP_KEY_MAX];
    char beat_key[UPKEEP_KEY_MAX];
};

static bool
is_error(struct upkeep *upkeep, const redisReply *reply, const char *what)
{
    if (reply == NULL)
        return true;
    if (reply->type != REDIS_REPLY_ERROR)
        return false;
    stats_add(upkeep->stats, STAT_STORE_ERRORS, 1);
    log_error("store", "could not %s: %s", what, reply->str);
    return true;
}

static void
on_trimmed(void *ctx, const redisReply *reply)
{
    struct upkeep *upkeep = ctx;

    if (is_error(upkeep, reply, "trim the stream") || reply->integer == 0)
        return;
    stats_add(upkeep->stats, STAT_STORE_TRIMMED, (uint64_t)reply->integer);
    log_info("store", "trimmed %lld entries older than the retention", reply->integer);
}

static void
on_trim(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct upkeep *upkeep = timer->data;
    char keep_from[24];
    const char *argv[] = {upkeep->stream_key, keep_from};
    size_t lens[2];

    (void)loop;
    (void)events;
    snprintf(keep_from, sizeof(keep_from), "%" PRId64,
             clock_wall_us() / 1000 - upkeep->retention_ms);
    for (size_t i = 0; i < 2; i++)
        lens[i] = strlen(argv[i]);
    if (link_call(upkeep->link, STORE_SCRIPT_trim, 1, on_trimmed, upkeep, 2, argv, lens) != RC_OK)
        log_debug("store", "not trimming while the store is away");
}

static void
on_beaten(void *ctx, const redisReply *reply)
{
    (void)is_error(ctx, reply, "add to the beat stream");
}

static void
on_beat(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct upkeep *upkeep = timer->data;
    const char *argv[] = {"XADD", upkeep->beat_key, "MAXLEN", "1", "*", "beat", "1"};
    size_t lens[7];

    (void)loop;
    (void)events;
    for (size_t i = 0; i < 7; i++)
        lens[i] = strlen(argv[i]);
    if (link_send(upkeep->link, on_beaten, upkeep, 7, argv, lens) != RC_OK)
        return; /* the store is away: its link says so */
}

struct upkeep *
upkeep_open(struct ev_loop *loop, struct link *link, const struct config *config,
            struct stats *stats)
{
    struct upkeep *upkeep = memory_new(sizeof(*upkeep));

    upkeep->loop = loop;
    upkeep->link = link;
    upkeep->stats = stats;
    upkeep->retention_ms = config->store.retention_ms;
    snprintf(upkeep->stream_key, UPKEEP_KEY_MAX, "%s:stream", config->store.prefix);
    snprintf(upkeep->beat_key, UPKEEP_KEY_MAX, "%s:beat", config->store.prefix);
    ev_timer_init(&upkeep->trim, on_trim, UPKEEP_TRIM_S, UPKEEP_TRIM_S);
    ev_timer_init(&upkeep->beat, on_beat, UPKEEP_BEAT_S, UPKEEP_BEAT_S);
    upkeep->trim.data = upkeep->beat.data = upkeep;
    ev_timer_start(loop, &upkeep->trim);
    ev_timer_start(loop, &upkeep->beat);
    return upkeep;
}

void
upkeep_close(struct upkeep *upkeep)
{
    if (upkeep == NULL)
        return;
    ev_timer_stop(upkeep->loop, &upkeep->trim);
    ev_timer_stop(upkeep->loop, &upkeep->beat);
}

void
upkeep_free(struct upkeep *upkeep)
{
    free(upkeep);
}
