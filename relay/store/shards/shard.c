/* shard.c: one shard: connects and prepares it, does its periodic work, and closes it. */
#include "store/shards/shard.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/shards/multi.h"
#include "store/store.h"
#include "store/timeouts.h"
#include "wire/frame.h"

#define STORE_NOTIFICATION_MAX (512u << 20)  /* the server's default */
#define MAINTENANCE_DUE_RELAYS 4             /* from this number of relays, each works less often */
#define HEARTBEATS_PER_INFO 5                /* the server's memory is read less often */
#define MAINTENANCE_FULL_US INT64_C(5000000) /* how long a full store receives no large data */

/*
 * Periodic work while the link is up. Four times a second: due retries, expirations and dead
 * letters; with many relays, each relay does this work less often. Once a minute: trims the stream
 * to store.retention. Every MAINTENANCE_HEARTBEAT_S: adds to the heartbeat stream, which wakes
 * readers that block without a timeout; checks the shard's epoch, and prepares an emptied shard
 * again; reads the topic prefix of shard 0. At each fifth of them: the memory of the server.
 */
struct maintenance {
    struct ev_loop *loop;
    struct shard *shard;
    struct stats *stats;
    bool is_due_pending;
    int64_t due_sent_us;
    struct redisReply *due_wanted;
    bool is_trim_pending;
    struct redisReply *trim_wanted;
    int64_t full_until_us; /* the store was full: until then it receives large data only to trim */
    bool is_count_pending; /* count_pending.lua is in flight */
    long long relays;      /* relays of this store that have sessions */
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

void
shard_random_hex(char *text, size_t len)
{
    unsigned char bytes[STORE_TOKEN_TEXT / 2];

    if (len / 2 > sizeof(bytes) || getrandom(bytes, len / 2, 0) != (ssize_t)(len / 2))
        abort();
    bytes_hex(bytes, len / 2, text);
}

/* If the ACL user is not allowed to run CONFIG, everysec is assumed. */
static void
on_fsync_mode(void *ctx, const struct redisReply *reply)
{
    struct shard *shard = ctx;
    struct bytes mode = {NULL, 0};

    if (reply_is_array(reply, 2))
        mode = reply_bytes(reply_at(reply, 1));
    shard->syncs_always = mode.at != NULL && bytes_equal_text(mode, "always");
}

/* Settings with which the server loses notifications silently. */
static const struct {
    const char *setting;
    const char *safe;
    const char *message;
    const char *hint;
} unsafe_settings[] = {
    {"appendonly", "yes", "append-only file disabled: notifications are lost when the store stops",
     "run CONFIG SET appendonly yes, then CONFIG REWRITE"},
    {"maxmemory-policy", "noeviction", "eviction enabled: a full store deletes notifications",
     "run CONFIG SET maxmemory-policy noeviction, then CONFIG REWRITE"},
    {"active-replica", "no", "active-replica enabled: two writable primaries lose notifications",
     "set active-replica no in keydb.conf, then restart KeyDB"},
};

/* If the server does not have this setting, it returns an empty array. */
static void
on_setting(void *ctx, const struct redisReply *reply)
{
    const struct shard *shard = ctx;

    if (!reply_is_array(reply, 2))
        return;
    for (size_t i = 0; i < sizeof(unsafe_settings) / sizeof(unsafe_settings[0]); i++)
        if (bytes_equal_text(reply_bytes(reply_at(reply, 0)), unsafe_settings[i].setting) &&
            !bytes_equal_text(reply_bytes(reply_at(reply, 1)), unsafe_settings[i].safe))
            log_warn(shard->name, unsafe_settings[i].message,
                     LOG_TEXT("hint", unsafe_settings[i].hint));
}

/* Stores the maximum length of an argument: for more, the server would close the connection. */
static void
on_notification_max(void *ctx, const struct redisReply *reply)
{
    struct shard *shard = ctx;
    struct bytes max = {NULL, 0};

    if (reply_is_array(reply, 2))
        max = reply_bytes(reply_at(reply, 1));
    if (max.len > 0)
        shard->notification_max = strtoull((const char *)max.at, NULL, 10);
}

static bool
send_config_get(struct shard *shard, const char *name, link_reply *reply)
{
    struct arguments arguments = {.argc = 0};

    argument(&arguments, "CONFIG");
    argument(&arguments, "GET");
    argument(&arguments, name);
    return link_send(shard->link, reply, shard, (int)arguments.argc, arguments.argv,
                     arguments.lens) == RC_OK;
}

/* In another epoch the WAL position may have moved back: earlier positions are invalid. */
static void
update_seen_position(struct shard *shard, struct bytes epoch, struct bytes position)
{
    struct position to = {0, 0};

    if (frame_position_parse((const char *)position.at, position.len, &to.lsn, &to.ordinal) !=
        RC_OK)
        to = (struct position){0, 0};
    if (!bytes_equal_text(epoch, shard->epoch))
        shard->seen_position = to;
    else
        position_raise(&shard->seen_position, to);
}

/* If the store has no prefix, the old prefix is kept. */
static void
topic_prefix_set(char prefix[STORE_TOPIC_PREFIX_MAX], struct bytes text)
{
    if (text.at != NULL && text.len < STORE_TOPIC_PREFIX_MAX)
        snprintf(prefix, STORE_TOPIC_PREFIX_MAX, "%.*s", (int)text.len, (const char *)text.at);
}

static void
set_newest_transactions(struct shard *shard, const struct redisReply *reply)
{
    struct transactions *newest = &shard->newest_transactions;
    const struct redisReply *changes = reply_at(reply, 6);

    newest->count = 0;
    transactions_add_packed(newest, reply_bytes(reply_at(reply, 5)));
    for (size_t i = 0; i + 1 < reply_count(changes); i += 2) {
        const struct bytes xid = reply_bytes(reply_at(changes, i + 1));
        struct entry_id at;

        /* A change has no commit time, so the time when it was stored is used. */
        if (xid.len > 0 && reply_id(reply_at(changes, i), &at) == RC_OK)
            transactions_add(newest, strtoull((const char *)xid.at, NULL, 10),
                             (int64_t)at.ms * 1000);
    }
}

static void
on_hello(void *ctx, const struct redisReply *reply)
{
    struct shard *shard = ctx;
    struct bytes epoch = {NULL, 0}, newest = {NULL, 0};
    struct history history;
    struct entry_id at;

    if (reply_is_error(reply) && strncmp(reply_text(reply), "SHARDS ", 7) == 0) {
        log_error(shard->name, "store was created with another number of shards, stopping",
                  LOG_TEXT("error", reply_text(reply)));
        shard->events->on_rejected(shard);
        return;
    }
    if (!shard_check_reply(shard, reply, "could not prepare the stream")) {
        if (reply != NULL)
            link_restart(shard->link, "could not prepare the stream");
        return;
    }
    if (reply_is_array(reply, 10)) {
        epoch = reply_bytes(reply_at(reply, 0));
        newest = reply_bytes(reply_at(reply, 1));
    }
    if (epoch.len == 0 || epoch.len >= sizeof(shard->epoch) || newest.at == NULL ||
        entry_id_read((const char *)newest.at, newest.len, &at) != RC_OK ||
        history_read(reply_bytes(reply_at(reply, 9)), &history) != RC_OK) {
        link_restart(shard->link, "invalid reply to hello.lua");
        return;
    }
    update_seen_position(shard, epoch, reply_bytes(reply_at(reply, 4)));
    snprintf(shard->epoch, sizeof(shard->epoch), "%.*s", (int)epoch.len, (const char *)epoch.at);
    shard->history = history;
    if (shard->reader_history.count == 0)
        shard->reader_history = history;
    shard->seen = history_label(&history, at);
    set_newest_transactions(shard, reply);
    shard->has_first_entry = reply_integer(reply_at(reply, 2)) == 1;
    shard->undone_count = (uint64_t)reply_integer(reply_at(reply, 8));
    if (reply_integer(reply_at(reply, 7)) == 1)
        shard->store->has_progress = true;
    if (shard->number == 0)
        topic_prefix_set(shard->store->topic_prefix, reply_bytes(reply_at(reply, 3)));
    link_set_usable(shard->link);
    shard->is_up = true;
    shard->events->on_up(shard);
}

/* Prepares the shard by hello.lua, which also stores that this node has all keys. */
static void
send_hello(struct shard *shard)
{
    struct arguments arguments = {.argc = 0};
    char fresh_epoch[STORE_EPOCH_TEXT + 1], count[16];

    shard_random_hex(fresh_epoch, STORE_EPOCH_TEXT);
    snprintf(count, sizeof(count), "%u", shard->store->shard_count);
    argument(&arguments, shard->stream_key);
    argument(&arguments, shard->prefix);
    argument(&arguments, fresh_epoch);
    argument(&arguments, count);
    argument(&arguments, shard->store->topology.is_cluster ? "" : "1");
    argument(&arguments, shard->place.node);
    if (link_call(shard->link, STORE_SCRIPT_hello, 1, on_hello, shard, (int)arguments.argc,
                  arguments.argv, arguments.lens) != RC_OK)
        link_restart(shard->link, "could not send a command");
}

/* A command uses the shard as the relays have prepared it. */
static void
use_as_prepared(struct shard *shard)
{
    link_set_usable(shard->link);
    shard->is_up = true;
    shard->events->on_up(shard);
}

static void
on_link_up(void *ctx)
{
    struct shard *shard = ctx;
    bool is_sent;

    if (shard->store->command != NULL) {
        place_verify(shard, use_as_prepared);
        return;
    }
    shard->syncs_always = false;
    shard->notification_max = STORE_NOTIFICATION_MAX;
    is_sent = send_config_get(shard, "appendfsync", on_fsync_mode) &&
              send_config_get(shard, "proto-max-bulk-len", on_notification_max);
    /* Shards of one server share its settings. */
    if (topology_is_first_shard(&shard->store->topology, shard->number))
        for (size_t i = 0; i < sizeof(unsafe_settings) / sizeof(unsafe_settings[0]); i++)
            is_sent = is_sent && send_config_get(shard, unsafe_settings[i].setting, on_setting);
    if (!is_sent) {
        link_restart(shard->link, "could not send a command");
        return;
    }
    place_verify(shard, send_hello);
}

static void
on_link_down(void *ctx, const char *reason)
{
    struct shard *shard = ctx;

    place_stop(shard, reason);
    if (!shard->is_up)
        return;
    shard->is_up = false;
    shard->events->on_down(shard);
}

static void
on_link_failed(void *ctx, const char *server, const char *reason)
{
    struct shard *shard = ctx;
    char what[URL_FORMAT_MAX + 64] = "the store does not reply";

    if (shard->events->on_failed == NULL)
        return;
    if (server != NULL)
        snprintf(what, sizeof(what), "could not connect to the store (%s)", server);
    shard->events->on_failed(shard, what, reason);
}

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
    maintenance->relays = counts[6];
    maintenance->exhausted += counts[2];
    maintenance->expired += counts[3];
    maintenance->trimmed += counts[7];
    log_dead_letters(maintenance, false);
    maintenance->is_due_pending =
        !is_full(maintenance) &&
        read_wanted(maintenance, reply_at(reply, 9), on_due_entry, &maintenance->due_wanted);
    if (counts[4] == 0 || maintenance->is_due_pending)
        return;
    /* More pairs are due. Other clients of the store have it for as long as this call took. */
    call_us = clock_monotonic_us() - maintenance->due_sent_us;
    maintenance->due.repeat = (double)(call_us + 1) / 1e6; /* 0 would stop the timer */
    ev_timer_again(maintenance->loop, &maintenance->due);
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

    maintenance->due_sent_us = clock_monotonic_us();
    maintenance->is_due_pending = call_script(maintenance, STORE_SCRIPT_due, on_due_done, argv, 7,
                                              maintenance->due_wanted, rows);
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

/*
 * With many relays, each works less often. The jitter spreads the requests of relays that started
 * together.
 */
static void
on_due(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct maintenance *maintenance = timer->data;
    double interval_s = MAINTENANCE_DUE_S * (double)maintenance->relays / MAINTENANCE_DUE_RELAYS;

    (void)events;
    if (interval_s < MAINTENANCE_DUE_S)
        interval_s = MAINTENANCE_DUE_S;
    else if (interval_s > MAINTENANCE_DUE_MAX_S)
        interval_s = MAINTENANCE_DUE_MAX_S;
    maintenance->jitter = maintenance->jitter * 1103515245u + 12345u;
    timer->repeat = interval_s * (0.8 + 0.4 * (double)(maintenance->jitter >> 16) / 65536.0);
    ev_timer_again(loop, timer);
    log_dead_letters(maintenance, false);
    if (!maintenance->is_due_pending)
        call_due(maintenance, NULL);
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

    maintenance->is_rejected =
        !shard_check_reply(maintenance->shard, reply, "could not write the heartbeat") &&
        reply != NULL;
    publish_rejection(maintenance);
}

/* Without a feed, nothing else detects that the store was emptied. */
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
    if (shard->number == 0)
        topic_prefix_set(shard->store->topic_prefix, reply_bytes(reply_at(reply, 1)));
    if (!bytes_equal_text(epoch, shard->epoch))
        link_restart(shard->link, "store epoch changed");
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

    (void)loop;
    (void)events;
    /* A busy store receives no further heartbeat before it has replied to the last. */
    if (maintenance->is_count_pending)
        return;
    /* The link logs that the store is down. */
    if (shard_send(shard, on_heartbeat_written, maintenance, 7, add, NULL) != RC_OK)
        return;
    if (shard_send(shard, on_epoch, maintenance, 5, read_epoch, NULL) == RC_OK &&
        shard_send(shard, on_stream_length, maintenance, 2, length, NULL) == RC_OK &&
        (maintenance->heartbeats++ % HEARTBEATS_PER_INFO != 0 ||
         shard_send(shard, on_memory, maintenance, 2, memory, NULL) == RC_OK))
        maintenance->is_count_pending = call_script(maintenance, STORE_SCRIPT_count_pending,
                                                    on_pending, pending, 4, NULL, NULL);
    if (!maintenance->is_count_pending)
        log_debug("store", "connection lost during the heartbeat");
}

static struct maintenance *
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

void
shard_open(struct shard *shard, struct store *store, unsigned number, const struct config *config,
           const struct shard_events *events)
{
    const struct link_events link_events = {
        .on_up = on_link_up, .on_down = on_link_down, .on_failed = on_link_failed, .ctx = shard};
    const struct link_target target = {store->servers, number, shard->name, store->command != NULL};

    *shard = (struct shard){.store = store, .number = number, .events = events};
    if (config->store.shards > 1)
        snprintf(shard->name, sizeof(shard->name), "store-%u", number);
    else
        snprintf(shard->name, sizeof(shard->name), "store");
    place_open(shard);
    replicas_open(shard);
    topology_shard_prefix(&store->topology, config->store.prefix, number, shard->prefix);
    key_write(shard->stream_key, shard->prefix, KEY_STREAM);
    shard->link =
        link_open(store->loop, config, &target,
                  store->topology.is_cluster ? LINK_NODE_TIMEOUT_S : LINK_TIMEOUT_S, &link_events);
    link_measure(shard->link, store->stats);
    if (store->command == NULL) /* a command writes nothing by itself */
        shard->maintenance = maintenance_open(shard);
}

void
shard_close(struct shard *shard)
{
    struct maintenance *maintenance = shard->maintenance;

    if (maintenance != NULL) {
        log_dead_letters(maintenance, true);
        ev_timer_stop(maintenance->loop, &maintenance->trim);
        ev_timer_stop(maintenance->loop, &maintenance->due);
        ev_timer_stop(maintenance->loop, &maintenance->heartbeat);
    }
    replicas_close(shard);
    place_stop(shard, "");
    link_close(shard->link);
    shard->link = NULL; /* a failed callback may call link_restart for all shards */
}

void
shard_free(struct shard *shard)
{
    if (shard->maintenance != NULL) {
        free(shard->maintenance->due_wanted);
        free(shard->maintenance->trim_wanted);
    }
    free(shard->maintenance);
}

bool
shard_rejects_heartbeats(const struct shard *shard)
{
    return shard->maintenance->is_rejected;
}
