/*
 * upkeep.c: what a relay does for the store on its own beat: what is due, trimming, a sign of life.
 */
#include "store/upkeep.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/call.h"
#include "store/reply.h"

#define UPKEEP_TRIM_S 60.0
#define UPKEEP_DUE_S 0.25
#define GIVEN_UP_LOG_US 10000000

struct upkeep {
    struct ev_loop *loop;
    struct shard *shard;
    struct stats *stats;
    const struct delivery *delivery;
    bool due_asked;
    bool is_refused; /* the last beat */
    unsigned jitter;
    long long exhausted, expired; /* acknowledgements not yet in the log */
    int64_t logged_us;            /* when there were some last */
    ev_timer trim;
    ev_timer due;
    ev_timer beat;
    char beat_key[STORE_KEY_MAX];
    char meta_key[STORE_KEY_MAX];
};

static void trim(struct upkeep *upkeep);
static void ask_due(struct upkeep *upkeep);

/* As all calls do: a stream that is not what it was is greeted anew, also where no feed writes. */
static bool
succeeded(const struct upkeep *upkeep, const redisReply *reply, const char *what)
{
    return call_succeeded(upkeep->shard, reply, what);
}

static enum rc
call_script(struct upkeep *upkeep, enum store_script script, link_reply *reply, const char **argv,
            int argc)
{
    return link_call(upkeep->shard->link, script, 1, reply, upkeep, argc, argv, NULL);
}

static void
on_trimmed(void *ctx, const redisReply *reply)
{
    struct upkeep *upkeep = ctx;

    if (!succeeded(upkeep, reply, "trim the stream") || !reply_is_array(reply, 2))
        return;
    stats_add(upkeep->stats, STAT_STORE_TRIMMED, (uint64_t)reply->element[0]->integer);
    if (reply->element[0]->integer > 0)
        log_info(upkeep->shard->name, "trimmed %lld entries older than the retention",
                 reply->element[0]->integer);
    if (reply->element[1]->integer != 0)
        trim(upkeep);
}

static void
trim(struct upkeep *upkeep)
{
    const char *argv[] = {upkeep->shard->stream_key, upkeep->shard->prefix,
                          upkeep->delivery->retention};

    if (call_script(upkeep, STORE_SCRIPT_trim, on_trimmed, argv, 3) != RC_OK)
        log_debug("store", "not trimming while the store is away");
}

static void
on_trim(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    trim(timer->data);
}

/* What is due: one relay's call at a time, whichever comes first does the work. */

/* Thousands may expire at a time, in many calls: one line each 10 s has their sum. */
static void
log_given_up(struct upkeep *upkeep, bool is_last)
{
    int64_t now_us = clock_monotonic_us();
    long long exhausted = upkeep->exhausted, expired = upkeep->expired;

    if (exhausted + expired == 0 ||
        (!is_last && upkeep->logged_us != 0 && now_us - upkeep->logged_us < GIVEN_UP_LOG_US))
        return;
    if (expired == 0 || exhausted == 0)
        log_warn(upkeep->shard->name,
                 "moved %lld %s acknowledgement%s to the error log: see clairon errors list",
                 exhausted + expired, expired == 0 ? "exhausted" : "expired",
                 exhausted + expired == 1 ? "" : "s");
    else
        log_warn(upkeep->shard->name,
                 "moved %lld exhausted and %lld expired acknowledgements to the error log: see "
                 "clairon errors list",
                 exhausted, expired);
    upkeep->exhausted = upkeep->expired = 0;
    upkeep->logged_us = now_us;
}

static void
on_due_done(void *ctx, const redisReply *reply)
{
    struct upkeep *upkeep = ctx;
    long long counts[6];

    upkeep->due_asked = false;
    if (!succeeded(upkeep, reply, "look after what is due") || !reply_is_array(reply, 6))
        return;
    for (size_t i = 0; i < 6; i++)
        counts[i] = reply->element[i]->integer;
    stats_add(upkeep->stats, STAT_STORE_RETRIES, (uint64_t)counts[0]);
    stats_add(upkeep->stats, STAT_STORE_COPIES, (uint64_t)counts[1]);
    stats_add(upkeep->stats, STAT_STORE_EXHAUSTED, (uint64_t)counts[2]);
    stats_add(upkeep->stats, STAT_STORE_EXPIRED, (uint64_t)counts[3]);
    upkeep->shard->holdings.errors = (uint64_t)counts[5];
    upkeep->exhausted += counts[2];
    upkeep->expired += counts[3];
    log_given_up(upkeep, false);
    if (counts[4] != 0)
        ask_due(upkeep);
}

static void
ask_due(struct upkeep *upkeep)
{
    const char *argv[] = {upkeep->shard->stream_key,      upkeep->shard->prefix,
                          upkeep->delivery->ack_timeout,  upkeep->delivery->retention,
                          upkeep->delivery->backoff_base, upkeep->delivery->backoff_cap};

    if (!upkeep->due_asked)
        upkeep->due_asked = call_script(upkeep, STORE_SCRIPT_due, on_due_done, argv, 6) == RC_OK;
}

/* Relays that started together must not all ask at the same instants. */
static void
on_due(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct upkeep *upkeep = timer->data;

    (void)events;
    upkeep->jitter = upkeep->jitter * 1103515245u + 12345u;
    timer->repeat = UPKEEP_DUE_S * (0.8 + 0.4 * (double)(upkeep->jitter >> 16) / 65536.0);
    ev_timer_again(loop, timer);
    log_given_up(upkeep, false);
    ask_due(upkeep);
}

static void
on_beaten(void *ctx, const redisReply *reply)
{
    struct upkeep *upkeep = ctx;

    upkeep->is_refused = !succeeded(upkeep, reply, "add to the beat stream") && reply != NULL;
}

/* Without a feed nothing else would tell that the store was emptied while we were connected. */
static void
on_epoch(void *ctx, const redisReply *reply)
{
    struct upkeep *upkeep = ctx;
    struct shard *shard = upkeep->shard;
    struct bytes epoch;

    if (!succeeded(upkeep, reply, "read its epoch") || !reply_is_array(reply, 2))
        return;
    epoch = reply_bytes(reply->element[0]);
    if (shard->number == 0)
        topic_prefix_set(shard->store->topic_prefix, reply_bytes(reply->element[1]));
    if (epoch.len != strlen(shard->epoch) || memcmp(epoch.at, shard->epoch, epoch.len) != 0)
        link_restart(shard->link, "it is not what it was");
}

static enum rc
send(struct upkeep *upkeep, link_reply *reply, const char **argv, int argc)
{
    return link_send(upkeep->shard->link, reply, upkeep, argc, argv, NULL);
}

/* What the shards hold together, and the oldest of all that waits. */
static void
show_holdings(struct upkeep *upkeep)
{
    const struct store *store = upkeep->shard->store;
    struct shard_holdings all = {0, 0, 0, 0};

    for (unsigned k = 0; k < store->shard_count; k++) {
        const struct shard_holdings *one = &store->shards[k].holdings;

        all.entries += one->entries;
        all.pending += one->pending;
        if (one->oldest_us > all.oldest_us)
            all.oldest_us = one->oldest_us;
        if (k < store->server_count) /* all shards of a server have one error log */
            all.errors += one->errors;
    }
    stats_set(upkeep->stats, STAT_STORE_STREAM, all.entries);
    stats_set(upkeep->stats, STAT_STORE_PENDING, all.pending);
    stats_set(upkeep->stats, STAT_STORE_OLDEST, all.oldest_us);
    stats_set(upkeep->stats, STAT_STORE_ERROR_LOG, all.errors);
}

/* {how many are pending, the ms of the first commit among them} */
static void
on_pending(void *ctx, const redisReply *reply)
{
    struct upkeep *upkeep = ctx;
    struct bytes text;
    int64_t oldest_ms, age_us;

    if (!succeeded(upkeep, reply, "ask what is pending") || !reply_is_array(reply, 2))
        return;
    text = reply_bytes(reply->element[1]);
    oldest_ms = text.at != NULL ? strtoll((const char *)text.at, NULL, 10) : 0;
    age_us = oldest_ms > 0 ? clock_wall_us() - oldest_ms * 1000 : 0;
    upkeep->shard->holdings.pending = (uint64_t)reply->element[0]->integer;
    upkeep->shard->holdings.oldest_us = age_us > 0 ? (uint64_t)age_us : 0;
    show_holdings(upkeep);
}

static void
on_stream_length(void *ctx, const redisReply *reply)
{
    struct upkeep *upkeep = ctx;

    if (!succeeded(upkeep, reply, "ask the stream's length"))
        return;
    upkeep->shard->holdings.entries = (uint64_t)reply->integer;
    show_holdings(upkeep);
}

static void
on_beat(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct upkeep *upkeep = timer->data;
    const char *add[] = {"XADD", upkeep->beat_key, "MAXLEN", "1", "*", "beat", "1"};
    const char *ask[] = {"HMGET", upkeep->meta_key, "epoch", "topic_prefix"};
    const char *pending[] = {upkeep->shard->stream_key, upkeep->shard->prefix};
    const char *length[] = {"XLEN", upkeep->shard->stream_key};

    (void)loop;
    (void)events;
    /* While the store is away its link says so. */
    if (send(upkeep, on_beaten, add, 7) == RC_OK &&
        (send(upkeep, on_epoch, ask, 4) != RC_OK ||
         call_script(upkeep, STORE_SCRIPT_pending, on_pending, pending, 2) != RC_OK ||
         send(upkeep, on_stream_length, length, 2) != RC_OK))
        log_debug("store", "the link broke between two commands");
}

struct upkeep *
upkeep_open(struct shard *shard)
{
    struct upkeep *upkeep = memory_new(sizeof(*upkeep));
    struct ev_loop *loop = shard->store->loop;

    upkeep->loop = loop;
    upkeep->shard = shard;
    upkeep->stats = shard->store->stats;
    upkeep->delivery = &shard->store->delivery;
    upkeep->jitter = (unsigned)getpid() + shard->number * 7919u;
    snprintf(upkeep->beat_key, STORE_KEY_MAX, "%s:beat", shard->prefix);
    snprintf(upkeep->meta_key, STORE_KEY_MAX, "%s:meta", shard->prefix);
    ev_timer_init(&upkeep->trim, on_trim, UPKEEP_TRIM_S, UPKEEP_TRIM_S);
    ev_timer_init(&upkeep->beat, on_beat, UPKEEP_BEAT_S, UPKEEP_BEAT_S);
    ev_timer_init(&upkeep->due, on_due, UPKEEP_DUE_S, UPKEEP_DUE_S);
    upkeep->trim.data = upkeep->beat.data = upkeep->due.data = upkeep;
    ev_timer_start(loop, &upkeep->trim);
    ev_timer_start(loop, &upkeep->due);
    ev_timer_start(loop, &upkeep->beat);
    return upkeep;
}

bool
upkeep_is_refused(const struct upkeep *upkeep)
{
    return upkeep->is_refused;
}

void
upkeep_close(struct upkeep *upkeep)
{
    if (upkeep == NULL)
        return;
    log_given_up(upkeep, true);
    ev_timer_stop(upkeep->loop, &upkeep->trim);
    ev_timer_stop(upkeep->loop, &upkeep->due);
    ev_timer_stop(upkeep->loop, &upkeep->beat);
}

void
upkeep_free(struct upkeep *upkeep)
{
    free(upkeep);
}
