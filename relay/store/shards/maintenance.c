/* maintenance.c: periodic work of a relay per shard: due retries, trimming, heartbeat. */
#include "store/shards/maintenance.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/store.h"
#include "store/shards/shard_request.h"
#include "store/shards/store_private.h"

#define MAINTENANCE_TRIM_S 60.0
#define MAINTENANCE_DUE_S 0.25
#define MAINTENANCE_DUE_MAX_S 2.0 /* upper bound of the interval, because relays may have crashed */
#define MAINTENANCE_DUE_RELAYS 4  /* from this number of relays, each works less often */
#define DEAD_LETTER_LOG_US 10000000

struct maintenance {
    struct ev_loop *loop;
    struct shard *shard;
    struct stats *stats;
    const struct delivery *delivery;
    bool is_due_pending;
    int64_t due_sent_us;
    bool is_count_pending; /* pending.lua is in flight */
    long long relays;      /* relays of this store that have sessions */
    bool is_rejected;      /* the last heartbeat was rejected */
    unsigned jitter;
    long long exhausted, expired; /* dead letters not logged yet */
    long long trimmed;            /* entries of the error log, not logged yet */
    int64_t logged_us;            /* time of the last log messages about them */
    ev_timer trim;
    ev_timer due;
    ev_timer heartbeat;
    char denied_number[24]; /* of the last denials that were counted */
    char heartbeat_key[STORE_KEY_MAX];
    char meta_key[STORE_KEY_MAX];
};

static void trim(struct maintenance *maintenance);

/* Reconnects if the store was emptied, even on relays without a feed. */
static bool
succeeded(const struct maintenance *maintenance, const struct redisReply *reply,
          const char *failure)
{
    return shard_check_reply(maintenance->shard, reply, failure);
}

static enum rc
call_script(struct maintenance *maintenance, enum store_script script, link_reply *reply,
            const char **argv, int argc)
{
    return shard_call(maintenance->shard, script, 1, reply, maintenance, argc, argv, NULL);
}

static void
on_trimmed(void *ctx, const struct redisReply *reply)
{
    struct maintenance *maintenance = ctx;

    if (!succeeded(maintenance, reply, "could not trim the stream") || !reply_is_array(reply, 2))
        return;
    stats_add(maintenance->stats, STAT_STORE_TRIMMED, (uint64_t)reply_integer(reply_at(reply, 0)));
    if (reply_integer(reply_at(reply, 0)) > 0)
        log_info(maintenance->shard->name, "trimmed stream entries older than store.retention",
                 LOG_INT("count", reply_integer(reply_at(reply, 0))));
    if (reply_integer(reply_at(reply, 1)) != 0)
        trim(maintenance);
}

static void
trim(struct maintenance *maintenance)
{
    const char *argv[] = {maintenance->shard->stream_key, maintenance->shard->prefix,
                          maintenance->delivery->retention};

    if (call_script(maintenance, STORE_SCRIPT_trim, on_trimmed, argv, 3) != RC_OK)
        log_debug("store", "trim skipped: store is unavailable");
}

static void
on_trim(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    trim(timer->data);
}

/* Thousands may expire in many calls: one log message per 10 s contains the sums. */
static void
log_dead_letters(struct maintenance *maintenance, bool is_last)
{
    int64_t now_us = clock_monotonic_us();
    long long exhausted = maintenance->exhausted, expired = maintenance->expired;
    long long trimmed = maintenance->trimmed;

    if (exhausted + expired + trimmed == 0 ||
        (!is_last && maintenance->logged_us != 0 &&
         now_us - maintenance->logged_us < DEAD_LETTER_LOG_US))
        return;
    if (exhausted + expired > 0)
        log_warn(maintenance->shard->name, "moved unacknowledged notifications to the error log",
                 LOG_INT("exhausted", exhausted), LOG_INT("expired", expired),
                 LOG_TEXT("hint", "run clairon errors list"));
    if (trimmed > 0)
        log_warn(maintenance->shard->name,
                 "error log is full: trimmed the oldest entries of the owner with the most",
                 LOG_INT("count", trimmed),
                 LOG_TEXT("hint", "redrive or drop entries with clairon errors"));
    maintenance->exhausted = maintenance->expired = maintenance->trimmed = 0;
    maintenance->logged_us = now_us;
}

/* More pairs are due. Other clients of the store have it for as long as this call took. */
static void
pause_due(struct maintenance *maintenance)
{
    const int64_t call_us = clock_monotonic_us() - maintenance->due_sent_us;

    maintenance->due.repeat = (double)(call_us + 1) / 1e6; /* 0 would stop the timer */
    ev_timer_again(maintenance->loop, &maintenance->due);
}

static void
on_due_done(void *ctx, const struct redisReply *reply)
{
    struct maintenance *maintenance = ctx;
    long long counts[9];

    maintenance->is_due_pending = false;
    if (!succeeded(maintenance, reply, "could not process due retries") ||
        !reply_is_array(reply, 9))
        return;
    for (size_t i = 0; i < 9; i++)
        counts[i] = reply_integer(reply_at(reply, i));
    stats_add(maintenance->stats, STAT_STORE_RETRIES, (uint64_t)counts[0]);
    stats_add(maintenance->stats, STAT_STORE_COPIES, (uint64_t)counts[1]);
    stats_add(maintenance->stats, STAT_STORE_EXHAUSTED, (uint64_t)counts[2]);
    stats_add(maintenance->stats, STAT_STORE_EXPIRED, (uint64_t)counts[3]);
    stats_add(maintenance->stats, STAT_STORE_ERROR_LOG_TRIMMED, (uint64_t)counts[7]);
    stats_add(maintenance->stats, STAT_STORE_THROTTLED, (uint64_t)counts[8]);
    maintenance->shard->holdings.errors = (uint64_t)counts[5];
    maintenance->relays = counts[6];
    maintenance->exhausted += counts[2];
    maintenance->expired += counts[3];
    maintenance->trimmed += counts[7];
    log_dead_letters(maintenance, false);
    if (counts[4] != 0)
        pause_due(maintenance);
}

static void
send_due(struct maintenance *maintenance)
{
    const char *argv[] = {maintenance->shard->stream_key,      maintenance->shard->prefix,
                          maintenance->delivery->ack_timeout,  maintenance->delivery->retention,
                          maintenance->delivery->backoff_base, maintenance->delivery->backoff_cap};

    if (maintenance->is_due_pending)
        return;
    maintenance->due_sent_us = clock_monotonic_us();
    maintenance->is_due_pending =
        call_script(maintenance, STORE_SCRIPT_due, on_due_done, argv, 6) == RC_OK;
}

static double
due_interval_s(const struct maintenance *maintenance)
{
    const double shared_s =
        MAINTENANCE_DUE_S * (double)maintenance->relays / MAINTENANCE_DUE_RELAYS;

    if (shared_s < MAINTENANCE_DUE_S)
        return MAINTENANCE_DUE_S;
    return shared_s < MAINTENANCE_DUE_MAX_S ? shared_s : MAINTENANCE_DUE_MAX_S;
}

/* The jitter spreads the requests of relays that started together. */
static void
on_due(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct maintenance *maintenance = timer->data;

    (void)events;
    maintenance->jitter = maintenance->jitter * 1103515245u + 12345u;
    timer->repeat =
        due_interval_s(maintenance) * (0.8 + 0.4 * (double)(maintenance->jitter >> 16) / 65536.0);
    ev_timer_again(loop, timer);
    log_dead_letters(maintenance, false);
    send_due(maintenance);
}

static void
on_heartbeat_written(void *ctx, const struct redisReply *reply)
{
    struct maintenance *maintenance = ctx;

    maintenance->is_rejected =
        !succeeded(maintenance, reply, "could not write the heartbeat") && reply != NULL;
}

/* Without a feed, nothing else detects that the store was emptied. */
static void
on_epoch(void *ctx, const struct redisReply *reply)
{
    struct maintenance *maintenance = ctx;
    struct shard *shard = maintenance->shard;
    struct bytes epoch;

    if (!succeeded(maintenance, reply, "could not read the store epoch") ||
        !reply_is_array(reply, 2))
        return;
    epoch = reply_bytes(reply_at(reply, 0));
    if (shard->number == 0)
        topic_prefix_set(shard->store->topic_prefix, reply_bytes(reply_at(reply, 1)));
    if (!bytes_equal_text(epoch, shard->epoch))
        link_restart(shard->link, "store epoch changed");
}

static enum rc
send(struct maintenance *maintenance, link_reply *reply, const char **argv, int argc)
{
    return shard_send(maintenance->shard, reply, maintenance, argc, argv, NULL);
}

/* Publishes the totals of all shards. */
static void
publish_holdings(struct maintenance *maintenance)
{
    const struct store *store = maintenance->shard->store;
    struct shard_holdings all = {0, 0, 0, 0};

    for (unsigned k = 0; k < store->shard_count; k++) {
        const struct shard_holdings *one = &store->shards[k].holdings;

        all.entries += one->entries;
        all.pending += one->pending;
        if (one->oldest_us > all.oldest_us)
            all.oldest_us = one->oldest_us;
        all.errors += one->errors;
    }
    stats_set(maintenance->stats, STAT_STORE_STREAM, all.entries);
    stats_set(maintenance->stats, STAT_STORE_PENDING, all.pending);
    stats_set(maintenance->stats, STAT_STORE_OLDEST, all.oldest_us);
    stats_set(maintenance->stats, STAT_STORE_ERROR_LOG, all.errors);
}

const struct store_denials *
store_denials(const struct store *store, enum store_account account)
{
    return &store->denials[account];
}

static void
count_denied(struct store_denials *denials, uint32_t owner, uint64_t items)
{
    size_t i = 0;

    denials->total += items;
    while (i < denials->count && denials->owners[i].owner != owner)
        i++;
    if (i == STORE_DENIALS_MAX)
        return;
    if (i == denials->count)
        denials->owners[denials->count++] = (struct store_denial){.owner = owner};
    denials->owners[i].items += items;
    denials->owners[i].last_us = clock_wall_us();
}

/* Reads owners and numbers, each with `p` for pairs or `e` for entries of the error log. */
static void
count_denials(struct store *store, const struct redisReply *reply)
{
    const struct bytes text = reply_bytes(reply);
    const char *at = text.at != NULL ? (const char *)text.at : "";
    char *end;

    while (*at == ' ' || *at == 'p' || *at == 'e') {
        const bool is_pairs = at[strspn(at, " ")] == 'p';
        const unsigned long owner = strtoul(at + strspn(at, " pe"), &end, 10);
        const unsigned long long items = strtoull(end, &end, 10);

        if (is_pairs)
            stats_add(store->stats, STAT_FEED_DENIED, items);
        count_denied(&store->denials[is_pairs ? STORE_ACCOUNT_PAIRS : STORE_ACCOUNT_ERRORS],
                     (uint32_t)owner, items);
        at = end;
    }
}

static void
read_denied(struct maintenance *maintenance, const struct redisReply *number,
            const struct redisReply *denials)
{
    const struct bytes text = reply_bytes(number);

    if (text.at == NULL || bytes_equal_text(text, maintenance->denied_number))
        return;
    snprintf(maintenance->denied_number, sizeof(maintenance->denied_number), "%s",
             (const char *)text.at);
    count_denials(maintenance->shard->store, denials);
}

/* Reply: see pending.lua */
static void
on_pending(void *ctx, const struct redisReply *reply)
{
    struct maintenance *maintenance = ctx;
    struct bytes text;
    int64_t oldest_ms, age_us;

    maintenance->is_count_pending = false;
    if (!succeeded(maintenance, reply, "could not count pending notifications") ||
        !reply_is_array(reply, 4))
        return;
    read_denied(maintenance, reply_at(reply, 2), reply_at(reply, 3));
    text = reply_bytes(reply_at(reply, 1));
    oldest_ms = text.at != NULL ? strtoll((const char *)text.at, NULL, 10) : 0;
    age_us = oldest_ms > 0 ? clock_wall_us() - oldest_ms * 1000 : 0;
    maintenance->shard->holdings.pending = (uint64_t)reply_integer(reply_at(reply, 0));
    maintenance->shard->holdings.oldest_us = age_us > 0 ? (uint64_t)age_us : 0;
    publish_holdings(maintenance);
}

static void
on_stream_length(void *ctx, const struct redisReply *reply)
{
    struct maintenance *maintenance = ctx;

    if (!succeeded(maintenance, reply, "could not read the stream's length"))
        return;
    maintenance->shard->holdings.entries = (uint64_t)reply_integer(reply);
    publish_holdings(maintenance);
}

static void
on_heartbeat(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct maintenance *maintenance = timer->data;
    const char *add[] = {"XADD", maintenance->heartbeat_key, "MAXLEN", "1", "*", "beat", "1"};
    const char *read_epoch[] = {"HMGET", maintenance->meta_key, "epoch", "topic_prefix"};
    const char *pending[] = {maintenance->shard->stream_key, maintenance->shard->prefix,
                             maintenance->shard->store->feed_token, maintenance->denied_number};
    const char *length[] = {"XLEN", maintenance->shard->stream_key};

    (void)loop;
    (void)events;
    /* A busy store receives no further heartbeat before it has replied to the last. */
    if (maintenance->is_count_pending)
        return;
    /* The link logs that the store is down. */
    if (send(maintenance, on_heartbeat_written, add, 7) != RC_OK)
        return;
    if (send(maintenance, on_epoch, read_epoch, 4) == RC_OK &&
        send(maintenance, on_stream_length, length, 2) == RC_OK)
        maintenance->is_count_pending =
            call_script(maintenance, STORE_SCRIPT_pending, on_pending, pending, 4) == RC_OK;
    if (!maintenance->is_count_pending)
        log_debug("store", "connection lost during the heartbeat");
}

struct maintenance *
maintenance_open(struct shard *shard)
{
    struct maintenance *maintenance = memory_new(sizeof(*maintenance));
    struct ev_loop *loop = shard->store->loop;

    maintenance->loop = loop;
    maintenance->shard = shard;
    maintenance->stats = shard->store->stats;
    maintenance->delivery = &shard->store->delivery;
    maintenance->jitter = (unsigned)getpid() + shard->number * 7919u;
    key_write(maintenance->heartbeat_key, shard->prefix, KEY_HEARTBEAT);
    key_write(maintenance->meta_key, shard->prefix, KEY_META);
    ev_timer_init(&maintenance->trim, on_trim, MAINTENANCE_TRIM_S, MAINTENANCE_TRIM_S);
    ev_timer_init(&maintenance->heartbeat, on_heartbeat, MAINTENANCE_HEARTBEAT_S,
                  MAINTENANCE_HEARTBEAT_S);
    ev_timer_init(&maintenance->due, on_due, MAINTENANCE_DUE_S, MAINTENANCE_DUE_S);
    maintenance->trim.data = maintenance->heartbeat.data = maintenance->due.data = maintenance;
    ev_timer_start(loop, &maintenance->trim);
    ev_timer_start(loop, &maintenance->due);
    ev_timer_start(loop, &maintenance->heartbeat);
    return maintenance;
}

bool
maintenance_is_rejected(const struct maintenance *maintenance)
{
    return maintenance->is_rejected;
}

void
maintenance_close(struct maintenance *maintenance)
{
    if (maintenance == NULL)
        return;
    log_dead_letters(maintenance, true);
    ev_timer_stop(maintenance->loop, &maintenance->trim);
    ev_timer_stop(maintenance->loop, &maintenance->due);
    ev_timer_stop(maintenance->loop, &maintenance->heartbeat);
}

void
maintenance_free(struct maintenance *maintenance)
{
    free(maintenance);
}
