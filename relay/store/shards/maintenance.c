/* maintenance.c: the periodic work of a shard: trimming, due retries, and the heartbeat. */
#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/shards/multi.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"
#include "store/store.h"
#include "store/timeouts.h"

#define HEARTBEATS_PER_INFO 5                /* the server's memory is read less often */
#define HEARTBEATS_PER_CHECK 10              /* so are the other shards of a connection checked */
#define LEASES_PER_TIME 10                   /* so is the server's clock read */
#define MAINTENANCE_FULL_US INT64_C(5000000) /* how long a full store receives no large data */

/*
 * Periodic work while the link is up.
 *
 * Due retries, expirations and dead letters: one relay, which has the lease for the shards of a
 * connection (topology.h), finds the first due time of each shard at intervals, and calls due.lua
 * at that time. If it dies, another one has the lease within MAINTENANCE_LEASE_MS and an interval.
 * Two relays may call due.lua, for example after a pause: it is one step. Each relay calls it once
 * a minute, for its metrics.
 *
 * Once a minute: trims the stream to store.retention.
 *
 * Every MAINTENANCE_HEARTBEAT_S: adds to the connection's heartbeat stream, which wakes readers
 * that block without a timeout; checks the shard's epoch, and prepares an emptied shard again;
 * reads the topic prefix of shard 0. At each fifth of them: the memory of the server. The other
 * shards of a connection are checked at each tenth.
 */
struct maintenance {
    struct ev_loop *loop;
    struct shard *shard;
    struct stats *stats;
    bool is_due_pending;
    bool is_peek_pending; /* the first due times are requested */
    bool is_work_due;     /* the next timer calls due.lua */
    bool has_due_times;   /* when they were last requested; then they are read, otherwise counted */
    double first_due_ms;  /* by the store's clock; 0: none */
    int64_t due_sent_us;
    /* of the first shard of a connection */
    bool has_lease;         /* until another relay is known to have it */
    int64_t lease_until_us; /* from then on, another relay may have it; monotonic */
    int64_t lease_sent_us;
    int64_t clock_us; /* the store's clock, minus the monotonic clock; 0: unknown */
    unsigned leases;
    ev_timer lease;
    char lease_key[STORE_KEY_MAX];
    char due_key[STORE_KEY_MAX];
    char escalations_key[STORE_KEY_MAX];
    struct redisReply *due_wanted;
    bool is_trim_pending;
    struct redisReply *trim_wanted;
    int64_t full_until_us; /* the store was full: until then it receives large data only to trim */
    bool is_count_pending; /* count_pending.lua is in flight */
    bool is_rejected;      /* the last heartbeat was rejected */
    unsigned jitter;
    unsigned heartbeats;          /* sent */
    long long exhausted, expired; /* dead letters not logged yet */
    long long trimmed;            /* entries of the error log, not logged yet */
    struct throttle dead_letters; /* of the log messages about them */
    ev_timer trim;
    ev_timer due;
    ev_timer heartbeat;
    char denied_number[24]; /* of the last denials that were counted */
    char heartbeat_key[STORE_KEY_MAX];
    char meta_key[STORE_KEY_MAX];
};

static bool
is_full(const struct maintenance *maintenance)
{
    return clock_monotonic_us() < maintenance->full_until_us;
}

/* Returns true if a store without memory has rejected the call of a script. */
static bool
note_full(struct maintenance *maintenance, const struct redisReply *reply)
{
    if (!reply_is_error(reply) || !fault_is_full(reply_text(reply)))
        return false;
    maintenance->full_until_us = clock_monotonic_us() + MAINTENANCE_FULL_US;
    return true;
}

/* False: the script wants no entry, or the command could not be sent. */
static bool
read_wanted(struct maintenance *maintenance, const struct redisReply *wanted, link_reply *on_entry,
            struct redisReply **ret_wanted)
{
    if (reply_count(wanted) == 0)
        return false;
    free(*ret_wanted);
    *ret_wanted = reply_keep(wanted);
    return wanted_read(maintenance->shard, *ret_wanted, on_entry, maintenance) == RC_OK;
}

/* `wanted`: what the script needs, or NULL. `rows`: the reply to wanted_read. */
static bool
call_script(struct maintenance *maintenance, enum store_script script, link_reply *reply,
            const char **argv, int argc, const struct redisReply *wanted,
            const struct redisReply *rows)
{
    struct arguments arguments = {.argc = 0};
    enum rc rc;

    for (int i = 0; i < argc; i++)
        argument(&arguments, argv[i]);
    if (rows != NULL)
        rc = wanted_call(maintenance->shard, script, &arguments, wanted, rows, is_full(maintenance),
                         reply, maintenance);
    else
        rc = shard_call(maintenance->shard, script, 1, reply, maintenance, (int)arguments.argc,
                        arguments.argv, arguments.lens);
    arguments_free(&arguments);
    return rc == RC_OK;
}

static void on_trim_entry(void *ctx, const struct redisReply *reply);
static void call_trim(struct maintenance *maintenance, const struct redisReply *rows);

static void
on_trimmed(void *ctx, const struct redisReply *reply)
{
    struct maintenance *maintenance = ctx;
    const bool was_full = is_full(maintenance);

    maintenance->is_trim_pending = false;
    /* The script frees memory before it writes, but a full store rejects its transaction. */
    if (note_full(maintenance, reply) && !was_full && maintenance->trim_wanted != NULL) {
        maintenance->is_trim_pending = wanted_read(maintenance->shard, maintenance->trim_wanted,
                                                   on_trim_entry, maintenance) == RC_OK;
        return;
    }
    if (!shard_check_reply(maintenance->shard, reply, "could not trim the stream") ||
        !reply_is_array(reply, 3))
        return;
    stats_add(maintenance->stats, STAT_STORE_TRIMMED, (uint64_t)reply_integer(reply_at(reply, 0)));
    stats_add(maintenance->stats, STAT_RECEIPTS_TRIMMED,
              (uint64_t)reply_integer(reply_at(reply, 2)));
    if (reply_integer(reply_at(reply, 0)) > 0)
        log_info(maintenance->shard->name, "trimmed stream entries older than store.retention",
                 LOG_INT("count", reply_integer(reply_at(reply, 0))));
    maintenance->is_trim_pending =
        reply_integer(reply_at(reply, 1)) != 0 &&
        read_wanted(maintenance, reply_at(reply, 3), on_trim_entry, &maintenance->trim_wanted);
    if (reply_integer(reply_at(reply, 1)) != 0 && !maintenance->is_trim_pending)
        call_trim(maintenance, NULL);
}

static void
on_trim_entry(void *ctx, const struct redisReply *reply)
{
    struct maintenance *maintenance = ctx;

    maintenance->is_trim_pending = false;
    if (shard_check_reply(maintenance->shard, reply, "could not read a stream entry"))
        call_trim(maintenance, reply);
}

/* `rows`: the entry that the script wants, or NULL. */
static void
call_trim(struct maintenance *maintenance, const struct redisReply *rows)
{
    const struct script_settings *settings = &maintenance->shard->store->script_settings;
    const char *argv[] = {maintenance->shard->stream_key, maintenance->shard->prefix,
                          settings->retention, settings->receipts_retention,
                          settings->receipts_bytes};

    if (rows == NULL) {
        free(maintenance->trim_wanted);
        maintenance->trim_wanted = NULL;
    }
    maintenance->is_trim_pending = call_script(maintenance, STORE_SCRIPT_trim, on_trimmed, argv, 5,
                                               maintenance->trim_wanted, rows);
    if (!maintenance->is_trim_pending)
        log_debug("store", "trim skipped: store is unavailable");
}

static void
on_trim(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct maintenance *maintenance = timer->data;

    (void)loop;
    (void)events;
    if (!maintenance->is_trim_pending)
        call_trim(maintenance, NULL);
}

/* Thousands may expire in many calls: one log message per 10 s contains the sums. */
static void
log_dead_letters(struct maintenance *maintenance, bool is_last)
{
    unsigned suppressed;
    long long exhausted = maintenance->exhausted, expired = maintenance->expired;
    long long trimmed = maintenance->trimmed;

    if (exhausted + expired + trimmed == 0 ||
        (!throttle_allows(&maintenance->dead_letters, clock_monotonic_us(), &suppressed) &&
         !is_last))
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
}

/* 0 would stop the timer. */
static void
restart_due(struct maintenance *maintenance, double after_s)
{
    maintenance->due.repeat = after_s;
    ev_timer_again(maintenance->loop, &maintenance->due);
}

static void on_due_entry(void *ctx, const struct redisReply *reply);

static void
on_due_done(void *ctx, const struct redisReply *reply)
{
    struct maintenance *maintenance = ctx;
    long long counts[9];
    int64_t call_us;

    maintenance->is_due_pending = false;
    note_full(maintenance, reply);
    if (!shard_check_reply(maintenance->shard, reply, "could not process due retries") ||
        !reply_is_array(reply, 10))
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
    maintenance->exhausted += counts[2];
    maintenance->expired += counts[3];
    maintenance->trimmed += counts[7];
    log_dead_letters(maintenance, false);
    maintenance->is_due_pending =
        !is_full(maintenance) &&
        read_wanted(maintenance, reply_at(reply, 9), on_due_entry, &maintenance->due_wanted);
    if (maintenance->is_due_pending)
        return;
    /* If more pairs are due, other clients of the store have it for as long as this call took. */
    call_us = clock_monotonic_us() - maintenance->due_sent_us;
    maintenance->is_work_due = counts[4] != 0;
    restart_due(maintenance, counts[4] != 0 ? (double)(call_us + 1) / 1e6 : MAINTENANCE_DUE_S);
}

/* `rows`: the entry that the script wants, or NULL. */
static void
call_due(struct maintenance *maintenance, const struct redisReply *rows)
{
    const struct script_settings *settings = &maintenance->shard->store->script_settings;
    const char *argv[] = {maintenance->shard->stream_key, maintenance->shard->prefix,
                          settings->ack_timeout,          settings->retention,
                          settings->backoff_base,         settings->backoff_cap,
                          settings->web_push_delay};

    maintenance->is_due_pending = call_script(maintenance, STORE_SCRIPT_due, on_due_done, argv, 7,
                                              maintenance->due_wanted, rows);
    if (maintenance->is_due_pending)
        maintenance->due_sent_us = clock_monotonic_us();
}

static void
on_due_entry(void *ctx, const struct redisReply *reply)
{
    struct maintenance *maintenance = ctx;

    maintenance->is_due_pending = false;
    if (!is_full(maintenance) &&
        shard_check_reply(maintenance->shard, reply, "could not read a stream entry"))
        call_due(maintenance, reply);
}

/* Of the first shard of the connection, which has the lease for all of them. */
static const struct maintenance *
first_of(const struct maintenance *maintenance)
{
    const struct store *store = maintenance->shard->store;

    return store->shards[topology_connection_of(&store->topology, maintenance->shard->number)]
        .maintenance;
}

static bool
has_lease(const struct maintenance *maintenance)
{
    return first_of(maintenance)->has_lease;
}

/* The jitter spreads the requests of shards, and of relays that started together. */
static double
jitter_of(struct maintenance *maintenance)
{
    maintenance->jitter = maintenance->jitter * 1103515245u + 12345u;
    return 0.8 + 0.4 * (double)(maintenance->jitter >> 16) / 65536.0;
}

/* A retry that is due earlier than this interval may be late by as much. */
static double
due_interval_s(const struct maintenance *maintenance)
{
    const struct config *config = maintenance->shard->store->config;
    const int64_t backoff_ms = 2 * config->delivery.backoff_base_ms;
    const int64_t shortest_ms =
        config->delivery.ack_timeout_ms < backoff_ms ? config->delivery.ack_timeout_ms : backoff_ms;
    const double interval_s = (double)shortest_ms / 1000.0;

    if (interval_s < MAINTENANCE_DUE_S)
        return MAINTENANCE_DUE_S;
    return interval_s < MAINTENANCE_DUE_MAX_S ? interval_s : MAINTENANCE_DUE_MAX_S;
}

/* Reply: a member and its score, or nothing. */
static double
first_score(const struct redisReply *reply, bool *ret_is_user)
{
    const struct bytes member = reply_bytes(reply_at(reply, 0));
    const char *score = reply_text(reply_at(reply, 1));

    *ret_is_user = member.len > 0 && member.at[member.len - 1] != ':';
    return score != NULL ? strtod(score, NULL) : 0.0;
}

static void
on_first_due(void *ctx, const struct redisReply *reply)
{
    struct maintenance *maintenance = ctx;
    const int64_t timeout_ms = maintenance->shard->store->config->delivery.ack_timeout_ms;
    bool is_user;

    if (!shard_check_reply(maintenance->shard, reply, "could not read the due pairs"))
        return;
    maintenance->first_due_ms = first_score(reply, &is_user);
    if (is_user && maintenance->first_due_ms > 0.0)
        maintenance->first_due_ms +=
            (double)(timeout_ms / 4 < STORE_RETRY_SLACK_MS ? timeout_ms / 4 : STORE_RETRY_SLACK_MS);
}

static void
on_first_escalation(void *ctx, const struct redisReply *reply)
{
    struct maintenance *maintenance = ctx;
    double first_ms, wait_s;
    bool is_user;

    maintenance->is_peek_pending = false;
    if (!shard_check_reply(maintenance->shard, reply, "could not read the escalations"))
        return;
    first_ms = first_score(reply, &is_user);
    if (first_ms <= 0.0 ||
        (maintenance->first_due_ms > 0.0 && maintenance->first_due_ms < first_ms))
        first_ms = maintenance->first_due_ms;
    maintenance->has_due_times = first_ms > 0.0;
    if (!maintenance->has_due_times)
        return;
    wait_s =
        first_ms / 1e3 - (double)(clock_monotonic_us() + first_of(maintenance)->clock_us) / 1e6;
    if (wait_s > ev_timer_remaining(maintenance->loop, &maintenance->due))
        return;
    maintenance->is_work_due = true;
    restart_due(maintenance, wait_s > 0.001 ? wait_s : 0.001);
}

static void
request_first_due(struct maintenance *maintenance)
{
    const char *due[] = {"ZRANGE", maintenance->due_key, "0", "0", "WITHSCORES"};
    const char *escalations[] = {"ZRANGE", maintenance->escalations_key, "0", "0", "WITHSCORES"};

    maintenance->first_due_ms = 0.0;
    maintenance->is_peek_pending =
        shard_send(maintenance->shard, on_first_due, maintenance, 5, due, NULL) == RC_OK &&
        shard_send(maintenance->shard, on_first_escalation, maintenance, 5, escalations, NULL) ==
            RC_OK;
}

static void
on_due_keys(void *ctx, const struct redisReply *reply)
{
    struct maintenance *maintenance = ctx;

    maintenance->is_peek_pending = false;
    if (shard_check_reply(maintenance->shard, reply, "could not count the due pairs") &&
        reply_integer(reply) > 0)
        request_first_due(maintenance);
}

/* Most shards of an idle store have no due times: this is one command instead of two. */
static void
request_due_keys(struct maintenance *maintenance)
{
    const char *exists[] = {"EXISTS", maintenance->due_key, maintenance->escalations_key};

    maintenance->is_peek_pending =
        shard_send(maintenance->shard, on_due_keys, maintenance, 3, exists, NULL) == RC_OK;
}

static void
on_due(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct maintenance *maintenance = timer->data;
    const bool is_work_due = maintenance->is_work_due;
    const int64_t idle_us = clock_monotonic_us() - maintenance->due_sent_us;

    (void)loop;
    (void)events;
    maintenance->is_work_due = false;
    restart_due(maintenance, due_interval_s(maintenance) * jitter_of(maintenance));
    log_dead_letters(maintenance, false);
    if (maintenance->is_due_pending || maintenance->is_peek_pending)
        return;
    if (maintenance->due_sent_us == 0 || idle_us >= (int64_t)(MAINTENANCE_DUE_ALL_S * 1e6))
        call_due(maintenance, NULL);
    else if (has_lease(maintenance) && (is_work_due || first_of(maintenance)->clock_us == 0))
        call_due(maintenance, NULL);
    else if (has_lease(maintenance) && maintenance->has_due_times)
        request_first_due(maintenance);
    else if (has_lease(maintenance))
        request_due_keys(maintenance);
}

static void
set_lease(struct maintenance *maintenance, bool has_lease)
{
    maintenance->has_lease = has_lease;
    if (has_lease)
        maintenance->lease_until_us =
            maintenance->lease_sent_us + MAINTENANCE_LEASE_MS * INT64_C(1000);
}

static void
on_lease_acquired(void *ctx, const struct redisReply *reply)
{
    struct maintenance *maintenance = ctx;

    set_lease(maintenance, shard_check_reply(maintenance->shard, reply,
                                             "could not acquire the lease of retries") &&
                               reply_text(reply) != NULL);
}

/*
 * The reply is the former value. If the store paused, another relay may have taken the lease before
 * this relay has overwritten it: then both give it up, and one takes it when it has expired.
 */
static void
on_lease_renewed(void *ctx, const struct redisReply *reply)
{
    struct maintenance *maintenance = ctx;
    const char *former = reply_text(reply);

    set_lease(
        maintenance,
        shard_check_reply(maintenance->shard, reply, "could not renew the lease of retries") &&
            (former == NULL || strcmp(former, maintenance->shard->store->relay_id) == 0));
}

/* Retries are due by the store's clock. */
static void
on_clock(void *ctx, const struct redisReply *reply)
{
    struct maintenance *maintenance = ctx;

    if (!shard_check_reply(maintenance->shard, reply, "could not read the store's clock") ||
        !reply_is_array(reply, 2))
        return;
    maintenance->clock_us = strtoll(reply_text(reply_at(reply, 0)), NULL, 10) * 1000000 +
                            strtoll(reply_text(reply_at(reply, 1)), NULL, 10) -
                            clock_monotonic_us();
}

/* A relay that has the lease renews it, others take it over when it has expired. */
static void
on_lease_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct maintenance *maintenance = timer->data;
    const int64_t now_us = clock_monotonic_us();
    const bool is_held = maintenance->has_lease && maintenance->lease_until_us > now_us;
    char lease_ms[24];
    const char *set[] = {
        "SET",    maintenance->lease_key, maintenance->shard->store->relay_id, "PX",
        lease_ms, is_held ? "GET" : "NX"};
    const char *clock[] = {"TIME"};

    (void)events;
    timer->repeat = MAINTENANCE_LEASE_S * jitter_of(maintenance);
    ev_timer_again(loop, timer);
    snprintf(lease_ms, sizeof(lease_ms), "%d", MAINTENANCE_LEASE_MS);
    maintenance->lease_sent_us = now_us;
    if (shard_send(maintenance->shard, is_held ? on_lease_renewed : on_lease_acquired, maintenance,
                   6, set, NULL) == RC_OK &&
        maintenance->leases++ % LEASES_PER_TIME == 0 &&
        shard_send(maintenance->shard, on_clock, maintenance, 1, clock, NULL) != RC_OK)
        log_debug("store", "connection lost while the lease was renewed");
}

/* Publishes whether any shard rejects writes. */
static void
publish_rejection(const struct maintenance *maintenance)
{
    const struct store *store = maintenance->shard->store;
    bool is_rejected = false;

    for (unsigned k = 0; k < store->shard_count; k++)
        is_rejected |= !store->shards[k].is_left_out && store->shards[k].maintenance != NULL &&
                       store->shards[k].maintenance->is_rejected;
    stats_set(maintenance->stats, STAT_STORE_REJECTS, is_rejected);
}

static void
on_heartbeat_written(void *ctx, const struct redisReply *reply)
{
    struct maintenance *maintenance = ctx;
    const bool is_redirected = reply_is_error(reply) && fault_is_redirection(reply_text(reply));

    maintenance->is_rejected =
        !shard_check_reply(maintenance->shard, reply, "could not write the heartbeat") &&
        reply != NULL && !is_redirected;
    publish_rejection(maintenance);
}

void
shard_set_topic_prefix(struct shard *shard, struct bytes text)
{
    if (shard->number == 0 && text.at != NULL && text.len < STORE_TOPIC_PREFIX_MAX)
        snprintf(shard->store->topic_prefix, STORE_TOPIC_PREFIX_MAX, "%.*s", (int)text.len,
                 (const char *)text.at);
}

/* Without batches or publications, nothing else detects that the store was emptied. */
static void
on_epoch(void *ctx, const struct redisReply *reply)
{
    struct maintenance *maintenance = ctx;
    struct shard *shard = maintenance->shard;
    struct bytes epoch;

    if (!shard_check_reply(maintenance->shard, reply, "could not read the store epoch") ||
        !reply_is_array(reply, 3))
        return;
    epoch = reply_bytes(reply_at(reply, 0));
    if (reply_bytes(reply_at(reply, 2)).len > 0)
        shard->store->is_acquired = true;
    shard_set_topic_prefix(shard, reply_bytes(reply_at(reply, 1)));
    if (!bytes_equal_text(epoch, shard->epoch))
        shard_renew_epochs(shard);
}

/* Publishes the totals of all shards. */
static void
publish_holdings(struct maintenance *maintenance)
{
    const struct store *store = maintenance->shard->store;
    struct shard_holdings all = {0};

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

/*
 * Counts denials once: `number` identifies them. Reads owners and numbers, each with `p` for pairs
 * or `e` for entries of the error log, and `d` with the number of dropped pairs.
 */
static void
read_denied(struct maintenance *maintenance, const struct redisReply *number,
            const struct redisReply *denials)
{
    struct store *store = maintenance->shard->store;
    const struct bytes key = reply_bytes(number), text = reply_bytes(denials);
    const char *at = text.at != NULL ? (const char *)text.at : "";
    char *end;

    if (key.at == NULL || bytes_equal_text(key, maintenance->denied_number))
        return;
    snprintf(maintenance->denied_number, sizeof(maintenance->denied_number), "%s",
             (const char *)key.at);
    for (at += strspn(at, " "); *at == 'p' || *at == 'e' || *at == 'd';
         at = end + strspn(end, " ")) {
        const char kind = *at++;
        const unsigned long owner = kind != 'd' ? strtoul(at, &end, 10) : 0;
        const unsigned long long items = strtoull(kind != 'd' ? end : at, &end, 10);

        if (kind == 'd') {
            stats_add(store->stats, STAT_STORE_DROPPED, items);
            continue;
        }
        if (kind == 'p')
            stats_add(store->stats, STAT_DENIED_PAIRS, items);
        count_denied(&store->denials[kind == 'p' ? STORE_ACCOUNT_PAIRS : STORE_ACCOUNT_ERRORS],
                     (uint32_t)owner, items);
    }
}

/* Reply: see count_pending.lua */
static void
on_pending(void *ctx, const struct redisReply *reply)
{
    struct maintenance *maintenance = ctx;
    struct bytes text;
    int64_t oldest_ms, age_us;

    maintenance->is_count_pending = false;
    if (!shard_check_reply(maintenance->shard, reply, "could not count pending notifications") ||
        !reply_is_array(reply, 5))
        return;
    read_denied(maintenance, reply_at(reply, 3), reply_at(reply, 4));
    text = reply_bytes(reply_at(reply, 1));
    oldest_ms = text.at != NULL ? strtoll((const char *)text.at, NULL, 10) : 0;
    age_us = oldest_ms > 0 ? clock_wall_us() - oldest_ms * 1000 : 0;
    maintenance->shard->holdings.pending = (uint64_t)reply_integer(reply_at(reply, 0));
    maintenance->shard->holdings.oldest_us = age_us > 0 ? (uint64_t)age_us : 0;
    maintenance->shard->holdings.errors = (uint64_t)reply_integer(reply_at(reply, 2));
    publish_holdings(maintenance);
}

static void
on_stream_length(void *ctx, const struct redisReply *reply)
{
    struct maintenance *maintenance = ctx;

    if (!shard_check_reply(maintenance->shard, reply, "could not read the stream's length"))
        return;
    maintenance->shard->holdings.entries = (uint64_t)reply_integer(reply);
    publish_holdings(maintenance);
}

/* Whether a server is fuller than another; one without a limit is not full. */
static bool
is_fuller(const struct shard_holdings *one, const struct shard_holdings *other)
{
    const double share = one->memory_max > 0 ? (double)one->memory / (double)one->memory_max : 0;
    const double most =
        other->memory_max > 0 ? (double)other->memory / (double)other->memory_max : 0;

    return share > most || (share == most && one->memory > other->memory);
}

static void
on_memory(void *ctx, const struct redisReply *reply)
{
    struct maintenance *maintenance = ctx;
    const struct store *store = maintenance->shard->store;
    struct shard_holdings *own = &maintenance->shard->holdings, fullest = {0};
    const char *info = reply_text(reply);
    const char *used = info != NULL ? strstr(info, "\nused_memory:") : NULL;
    const char *max = info != NULL ? strstr(info, "\nmaxmemory:") : NULL;

    if (used == NULL || max == NULL) /* without a permission for INFO, the link does not connect */
        return;
    own->memory = strtoull(used + strlen("\nused_memory:"), NULL, 10);
    own->memory_max = strtoull(max + strlen("\nmaxmemory:"), NULL, 10);
    for (unsigned k = 0; k < store->shard_count; k++)
        if (is_fuller(&store->shards[k].holdings, &fullest))
            fullest = store->shards[k].holdings;
    stats_set(maintenance->stats, STAT_STORE_MEMORY, fullest.memory);
    stats_set(maintenance->stats, STAT_STORE_MEMORY_MAX, fullest.memory_max);
}

static void
on_heartbeat(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct maintenance *maintenance = timer->data;
    struct shard *shard = maintenance->shard;
    const char *add[] = {"XADD", maintenance->heartbeat_key, "MAXLEN", "1", "*", "beat", "1"};
    const char *read_epoch[] = {"HMGET", maintenance->meta_key, META_EPOCH, META_TOPIC_PREFIX,
                                META_PROGRESS};
    const char *pending[] = {shard->stream_key, shard->prefix, shard->store->feed_token,
                             maintenance->denied_number};
    const char *length[] = {"XLEN", shard->stream_key};
    const char *memory[] = {"INFO", "memory"};
    const bool is_first = topology_is_first_shard(&shard->store->topology, shard->number);

    (void)loop;
    (void)events;
    /* A busy store receives no further heartbeat before it has replied to the last. */
    if (maintenance->is_count_pending)
        return;
    if (!is_first && !shard->is_check_due &&
        maintenance->heartbeats % HEARTBEATS_PER_CHECK != shard->number % HEARTBEATS_PER_CHECK) {
        maintenance->heartbeats++;
        return;
    }
    /* The link logs that the store is down. */
    if (is_first && shard_send(shard, on_heartbeat_written, maintenance, 7, add, NULL) != RC_OK)
        return;
    if (shard_send(shard, on_epoch, maintenance, 5, read_epoch, NULL) == RC_OK &&
        shard_send(shard, on_stream_length, maintenance, 2, length, NULL) == RC_OK &&
        (maintenance->heartbeats++ % HEARTBEATS_PER_INFO != 0 || !is_first ||
         shard_send(shard, on_memory, maintenance, 2, memory, NULL) == RC_OK))
        maintenance->is_count_pending = call_script(maintenance, STORE_SCRIPT_count_pending,
                                                    on_pending, pending, 4, NULL, NULL);
    if (maintenance->is_count_pending)
        shard->is_check_due = false;
    else
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
    maintenance->jitter = (unsigned)getpid() + shard->number * 7919u;
    key_write(maintenance->heartbeat_key, shard->prefix, KEY_HEARTBEAT);
    key_write(maintenance->meta_key, shard->prefix, KEY_META);
    key_write(maintenance->lease_key, shard->prefix, KEY_RETRY_LEASE);
    key_write(maintenance->due_key, shard->prefix, KEY_DUE);
    key_write(maintenance->escalations_key, shard->prefix, KEY_ESCALATIONS);
    ev_timer_init(&maintenance->trim, on_trim, MAINTENANCE_TRIM_S, MAINTENANCE_TRIM_S);
    ev_timer_init(&maintenance->heartbeat, on_heartbeat, MAINTENANCE_HEARTBEAT_S,
                  MAINTENANCE_HEARTBEAT_S);
    ev_timer_init(&maintenance->due, on_due, MAINTENANCE_DUE_S, MAINTENANCE_DUE_S);
    ev_timer_init(&maintenance->lease, on_lease_timer, 0.001, MAINTENANCE_LEASE_S);
    maintenance->trim.data = maintenance->heartbeat.data = maintenance->due.data =
        maintenance->lease.data = maintenance;
    ev_timer_start(loop, &maintenance->trim);
    ev_timer_start(loop, &maintenance->due);
    if (topology_is_first_shard(&shard->store->topology, shard->number))
        ev_timer_start(loop, &maintenance->lease);
    ev_timer_start(loop, &maintenance->heartbeat);
    return maintenance;
}

void
maintenance_stop(struct maintenance *maintenance)
{
    if (maintenance == NULL)
        return;
    log_dead_letters(maintenance, true);
    ev_timer_stop(maintenance->loop, &maintenance->trim);
    ev_timer_stop(maintenance->loop, &maintenance->due);
    ev_timer_stop(maintenance->loop, &maintenance->lease);
    ev_timer_stop(maintenance->loop, &maintenance->heartbeat);
}

void
maintenance_free(struct maintenance *maintenance)
{
    if (maintenance == NULL)
        return;
    free(maintenance->due_wanted);
    free(maintenance->trim_wanted);
    free(maintenance);
}

bool
shard_rejects_heartbeats(const struct shard *shard)
{
    return shard->maintenance->is_rejected;
}
