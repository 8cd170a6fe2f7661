/*
 * slot.c: checks the slot before streaming (missing, foreign, in use, lost, advanced), and resets
 * the store's progress after a timeline switch or the loss of the slot.
 */
#include "feed/feed_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define FOREIGN_AFTER_US 10000000
#define PROCESS_OF                                                                                 \
    "(SELECT pid || '/' || extract(epoch FROM backend_start)"                                      \
    " FROM pg_catalog.pg_stat_activity WHERE pid = "

enum slot_column {
    SLOT_PLUGIN,
    SLOT_IS_OF_DATABASE,
    SLOT_ACTIVE_PID,
    SLOT_IS_LOST,
    SLOT_REASON,
    SLOT_LSN,
    SLOT_TIMEOUT,
    SLOT_IN_RECOVERY,
    SLOT_DATABASE,
    SLOT_HOLDER,
    SLOT_OWN_PROCESS
};

uint64_t
feed_lsn_read(const char *text)
{
    char *at;
    uint64_t high = strtoul(text, &at, 16);
    uint64_t low = *at == '/' ? strtoul(at + 1, NULL, 16) : 0;

    return high << 32 | low;
}

const char *
feed_lsn_write(uint64_t lsn, char ret_text[FEED_LSN_TEXT])
{
    snprintf(ret_text, FEED_LSN_TEXT, "%" PRIX32 "/%" PRIX32, (uint32_t)(lsn >> 32), (uint32_t)lsn);
    return ret_text;
}

const char *
feed_position_lsn(const char *position, char ret_text[FEED_LSN_TEXT])
{
    uint64_t lsn = 0, ordinal = 0;

    if (frame_position_parse(position, strlen(position), &lsn, &ordinal) == RC_OK && lsn != 0)
        return feed_lsn_write(lsn, ret_text);
    return "none";
}

void
feed_query_slot(struct feed *feed)
{
    char command[FEED_COMMAND_MAX];

    /*
     * Older servers lack some of these columns; to_jsonb() returns NULL for them. The result always
     * has one row. A process is identified by its pid and start, because pids are used again.
     */
    snprintf(command, sizeof(command),
             "SELECT plugin, database = current_database(), active_pid, wal_status = 'lost',"
             " coalesce(to_jsonb(s)->>'invalidation_reason', CASE WHEN restart_lsn IS NOT NULL"
             " AND to_jsonb(s)->>'conflicting' = 'true' THEN 'conflict' ELSE 'wal_removed' END),"
             " confirmed_flush_lsn, t.setting,"
             " pg_catalog.pg_is_in_recovery(), (SELECT d.oid FROM pg_catalog.pg_database d"
             " WHERE d.datname = current_database()), " PROCESS_OF "s.active_pid), " PROCESS_OF
             "pg_catalog.pg_backend_pid())"
             " FROM pg_catalog.pg_settings t LEFT JOIN pg_catalog.pg_replication_slots s"
             " ON s.slot_name = '%s' WHERE t.name = 'wal_sender_timeout'",
             feed->config->feed.slot);
    feed_send_command(feed, FEED_FINDING, command);
}

/* On a primary there is no timeout, because running transactions may last arbitrarily long. */
void
feed_create_slot(struct feed *feed)
{
    const struct config *config = feed->config;
    const char *slot = config->feed.slot;
    char command[FEED_COMMAND_MAX];

    if (!feed->slot.in_recovery) {
        ev_timer_stop(feed->loop, &feed->connection.timeout);
        log_info("feed", "creating slot: waiting for running transactions to end",
                 LOG_TEXT("slot", slot));
    } else {
        feed->connection.timeout.repeat = (double)config->feed.create_timeout_ms / 1000.0;
        ev_timer_again(feed->loop, &feed->connection.timeout);
        if (config->feed.primary_conninfo != NULL) {
            log_info("feed",
                     "creating slot on a standby: calling pg_log_standby_snapshot() on its primary",
                     LOG_TEXT("slot", slot));
            feed_snapshot_request_start(feed);
        } else {
            log_info("feed", "creating slot on a standby", LOG_TEXT("slot", slot),
                     LOG_TEXT("hint",
                              "if the primary is idle, run SELECT pg_log_standby_snapshot() "
                              "on it, or set [feed] primary_conninfo"));
        }
    }
    snprintf(command, sizeof(command),
             "CREATE_REPLICATION_SLOT \"%s\" LOGICAL clairon NOEXPORT_SNAPSHOT", slot);
    feed_send_command(feed, FEED_CREATING, command);
}

void
feed_on_slot_created(struct feed *feed, const PGresult *result)
{
    log_info("feed", "slot created", LOG_TEXT("slot", feed->config->feed.slot));
    postgres_query_end(&feed->snapshot_request.query);
    feed->connection.timeout.repeat = FEED_CONNECT_TIMEOUT_S;
    ev_timer_again(feed->loop, &feed->connection.timeout);
    feed->slot.must_create = false;
    feed->slot.lsn = feed_lsn_read(PQgetvalue(result, 0, 1));
    feed->report->has_slot = true;
    feed_acquire(feed, FEED_ACQUIRING);
}

/*
 * A relay that reads the slot into this store records its progress there. The warning waits for the
 * first progress of a relay that started together with this one.
 */
static void
warn_of_another_store(struct feed *feed, int64_t before_us, int64_t now_us)
{
    const int64_t due_us = feed->slot.held_since_us + FOREIGN_AFTER_US;

    if (before_us < due_us && now_us >= due_us && !store_is_acquired(feed->store))
        log_warn("feed",
                 "slot is in use by a relay with another store: this store will receive nothing",
                 LOG_TEXT("slot", feed->config->feed.slot),
                 LOG_TEXT("prefix", feed->config->store.prefix),
                 LOG_TEXT("hint", "set [store] url and prefix as for that relay, or choose another "
                                  "[feed] slot"));
}

/* The feed stays down meanwhile. */
static void
log_waiting(struct feed *feed, enum log_level level, const char *message, int pid, const char *hint)
{
    log_event(level, "feed", message, LOG_TEXT("slot", feed->config->feed.slot),
              LOG_INT("pid", pid), LOG_TEXT("hint", hint));
    feed_report_reason(feed, message, NULL, hint);
}

/* Logs why the slot is in use, once. */
static void
log_holder(struct feed *feed, int pid)
{
    const char *slot = feed->config->feed.slot;

    switch (feed->slot.holder) {
    case SLOT_FREE:
        break;
    case SLOT_HELD_BY_RELAY:
        log_info("feed", "slot is in use by another relay, waiting as standby",
                 LOG_TEXT("slot", slot));
        break;
    case SLOT_HELD_BY_CREATION:
        log_waiting(feed, LOG_LEVEL_INFO, "slot is being created by another process, waiting", pid,
                    "its creation waits for running transactions to end");
        break;
    case SLOT_HELD_BY_PREVIOUS:
        log_waiting(feed, LOG_LEVEL_WARN,
                    "slot is still in use by this relay's previous connection, waiting", pid,
                    "PostgreSQL ends it after wal_sender_timeout; if it does not, the process "
                    "hangs: run SELECT pg_terminate_backend(pid)");
        break;
    }
}

/* A slot in use is not an error: the feed retries until it is free. */
void
feed_wait_for_slot(struct feed *feed, enum slot_holder holder, int pid)
{
    const int64_t now_us = clock_monotonic_us();

    if (feed->slot.holder != holder) {
        feed->slot.holder = holder;
        feed->slot.held_since_us = feed->slot.held_checked_us = now_us;
        log_holder(feed, pid);
    }
    if (holder == SLOT_HELD_BY_RELAY)
        warn_of_another_store(feed, feed->slot.held_checked_us, now_us);
    feed->slot.held_checked_us = now_us;
    feed_wal_end(feed); /* its reader has the metrics */
    stats_set(feed->stats, STAT_FEED_WAL_RETAINED, 0);
    stats_set(feed->stats, STAT_FEED_WAL_SAFE, 0);
    feed_restart(feed, "slot is in use");
}

struct loss {
    const char *code; /* invalidation_reason of pg_replication_slots */
    const char *reason;
    const char *hint;
};

/* PostgreSQL 16 has "conflict" for two causes. */
static const struct loss losses[] = {
    {"wal_removed", "PostgreSQL removed WAL that the slot still needed (max_slot_wal_keep_size)",
     "raise max_slot_wal_keep_size, and check why the relay was behind"},
    {"conflict",
     "the primary removed catalog rows that the slot needs, or its wal_level is no longer logical",
     "set hot_standby_feedback = on and primary_slot_name on this standby, and wal_level = logical "
     "on the primary"},
    {"rows_removed", "the primary removed catalog rows that the slot needs",
     "set hot_standby_feedback = on and primary_slot_name on this standby"},
    {"wal_level_insufficient", "wal_level of the primary is no longer logical",
     "set wal_level = logical on the primary"},
    {"idle_timeout", "the slot was idle for longer than idle_replication_slot_timeout", NULL},
};

static void
on_lost(struct feed *feed, const char *code)
{
    const char *slot = feed->config->feed.slot;
    struct loss loss = {code, code, NULL};
    char command[FEED_COMMAND_MAX];

    for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++)
        if (strcmp(losses[i].code, code) == 0)
            loss = losses[i];
    log_error("feed", "slot is lost with its unsent changes", LOG_TEXT("slot", slot),
              LOG_TEXT("reason", loss.reason), LOG_TEXT("hint", loss.hint));
    if (!feed->config->feed.create_slot) {
        feed->slot.is_lost = true;
        feed_acquire(feed, FEED_ACQUIRING); /* clients receive a gap, then the operator must act */
        return;
    }
    snprintf(command, sizeof(command), "DROP_REPLICATION_SLOT \"%s\"", slot);
    feed_send_command(feed, FEED_DROPPING, command);
}

void
feed_on_slot_dropped(struct feed *feed)
{
    log_warn("feed", "lost slot dropped, creating it again",
             LOG_TEXT("slot", feed->config->feed.slot));
    feed->slot.must_create = true;
    feed_acquire(feed, FEED_ACQUIRING);
}

/* Logs commands that the operator can copy. */
static void
fail_without_slot(struct feed *feed, const char *reason, const char *drop)
{
    const char *slot = feed->config->feed.slot;
    char hint[FEED_COMMAND_MAX];

    snprintf(hint, sizeof(hint),
             "run %s%s%sSELECT pg_create_logical_replication_slot('%s', 'clairon') in this "
             "database, or set [feed] create_slot = on",
             drop, drop[0] != '\0' ? slot : "", drop[0] != '\0' ? "'); " : "", slot);
    feed_restart(feed, reason, LOG_TEXT("slot", slot), LOG_TEXT("hint", hint));
}

void
feed_fail_lost_slot(struct feed *feed)
{
    fail_without_slot(feed, "slot is lost", "SELECT pg_drop_replication_slot('");
}

static void
on_missing(struct feed *feed)
{
    if (feed->config->feed.create_slot) {
        feed->slot.must_create = true;
        /* the feed acquires first: if the store rejects this database, no slot remains */
        feed_acquire(feed, FEED_ACQUIRING);
        return;
    }
    fail_without_slot(feed, "slot does not exist", "");
}

/* `process` is "" for a process of another role, whose start is hidden. */
static enum slot_holder
holder_of(const struct feed *feed, int pid, const char *process)
{
    if (pid == 0)
        return SLOT_FREE;
    if (process[0] != '\0' && strcmp(process, feed->connection.streamed) == 0)
        return SLOT_HELD_BY_PREVIOUS;
    return feed->slot.lsn == 0 ? SLOT_HELD_BY_CREATION : SLOT_HELD_BY_RELAY;
}

static bool
is_true(const PGresult *result, enum slot_column column)
{
    return strcmp(PQgetvalue(result, 0, column), "t") == 0;
}

void
feed_on_slot(struct feed *feed, const PGresult *result)
{
    const char *slot = feed->config->feed.slot;
    const char *plugin = PQgetvalue(result, 0, SLOT_PLUGIN);
    bool is_ours = strcmp(plugin, "clairon") == 0;
    bool is_of_database = is_true(result, SLOT_IS_OF_DATABASE);
    bool is_lost = is_true(result, SLOT_IS_LOST);
    int pid = (int)strtol(PQgetvalue(result, 0, SLOT_ACTIVE_PID), NULL, 10);
    enum slot_holder holder;

    feed->slot.must_create = feed->slot.is_lost = false;
    feed->slot.lsn = 0;
    feed->slot.in_recovery = is_true(result, SLOT_IN_RECOVERY);
    snprintf(feed->slot.origin.database, sizeof(feed->slot.origin.database), "%s",
             PQgetvalue(result, 0, SLOT_DATABASE));
    snprintf(feed->connection.process, sizeof(feed->connection.process), "%s",
             PQgetvalue(result, 0, SLOT_OWN_PROCESS));
    feed->feedback.timeout_us = strtoll(PQgetvalue(result, 0, SLOT_TIMEOUT), NULL, 10) * 1000;
    if (PQgetisnull(result, 0, SLOT_PLUGIN)) {
        on_missing(feed);
        return;
    }
    feed->slot.lsn = feed_lsn_read(PQgetvalue(result, 0, SLOT_LSN));
    holder = holder_of(feed, pid, PQgetvalue(result, 0, SLOT_HOLDER));
    /* while the slot is being created, it has no LSN yet */
    if (is_ours && is_of_database && !is_lost && feed->slot.lsn != 0)
        feed->report->has_slot = true;
    if (!is_ours)
        feed_restart(feed, "slot uses another plugin", LOG_TEXT("slot", slot),
                     LOG_TEXT("plugin", plugin), LOG_TEXT("hint", "choose another [feed] slot"));
    else if (!is_of_database)
        feed_restart(feed, "slot belongs to another database", LOG_TEXT("slot", slot),
                     LOG_TEXT("hint", "correct [feed] conninfo, or choose another [feed] slot"));
    else if (holder != SLOT_FREE)
        feed_wait_for_slot(feed, holder, pid);
    else if (is_lost)
        on_lost(feed, PQgetvalue(result, 0, SLOT_REASON));
    else
        feed_acquire(feed, FEED_ACQUIRING);
}

/* ---- resets */

/* The store rewinds and closes its connections, which restarts the feed. */
static void
reset(struct feed *feed, struct store_rewind rewind)
{
    rewind.timeline = feed->slot.timeline;
    if (!rewind.resets_members)
        feed->copy.to[0] = '\0';
    feed_set_state(feed, FEED_RESETTING);
    if (store_rewind(feed->store, feed->config->feed.slot, &rewind) != RC_OK)
        feed_restart(feed, "store is unavailable");
}

/*
 * The read LSN until a slot is created. The slot starts beyond it, so clients receive another gap.
 * The former read LSN may be higher than that of the slot, on WAL that was undone.
 */
#define READ_NOTHING 1

static bool
lacks_slot(const struct feed *feed)
{
    return feed->slot.must_create || feed->slot.is_lost;
}

/* Whether the WAL ends before the store's progress. `end` receives the position of its end. */
static bool
wal_ends_early(const struct feed *feed, char end[FRAME_POSITION_TEXT + 1])
{
    frame_position_text(feed->slot.wal_lsn, 0, end);
    return strcmp(feed->slot.furthest, end) > 0;
}

/*
 * Whether the server may lack transactions that the store has processed. Two restores may lead to
 * timelines of the same number. Then the WAL may already have passed the store's progress, so it is
 * not known whether changes were undone. A server that was never promoted has no other history, but
 * a restore that still recovers is not promoted yet: its WAL ends before the store's progress. So
 * may that of a standby with replication lag, whose clients receive another gap for the new slot.
 */
static bool
may_have_undone(const struct feed *feed)
{
    char end[FRAME_POSITION_TEXT + 1];

    if (!feed->slot.must_create)
        return false;
    return feed->slot.timeline > 1 || wal_ends_early(feed, end);
}

bool
feed_server_lacks_progress(const struct feed *feed)
{
    char end[FRAME_POSITION_TEXT + 1];

    return (lacks_slot(feed) && feed->slot.furthest[0] != '\0') || wal_ends_early(feed, end);
}

bool
feed_reset_if_slot_lost(struct feed *feed)
{
    char since_lsn[FEED_LSN_TEXT];

    if (!lacks_slot(feed) || feed->slot.furthest[0] == '\0')
        return false;
    log_error("feed",
              "changes lost with the slot: clients receive a gap, memberships are copied again",
              LOG_TEXT("slot", feed->config->feed.slot),
              LOG_TEXT("reason", feed->slot.is_lost ? "slot is lost" : "slot does not exist"),
              LOG_TEXT("since_lsn", feed_position_lsn(feed->slot.furthest, since_lsn)));
    reset(feed, (struct store_rewind){.position = "",
                                      .read_lsn = READ_NOTHING,
                                      .is_gap = true,
                                      .is_undone = may_have_undone(feed)});
    return true;
}

/*
 * On a primary, the progress never passes the end of the WAL. If it does, the server was restored
 * from an older copy, and writes other changes at the LSNs that the store has already processed.
 */
bool
feed_reset_if_wal_went_back(struct feed *feed)
{
    char end[FRAME_POSITION_TEXT + 1];
    char wal_lsn[FEED_LSN_TEXT], store_lsn[FEED_LSN_TEXT];
    bool has_slot = !lacks_slot(feed);

    if (feed->slot.in_recovery || !wal_ends_early(feed, end))
        return false;
    log_error("feed",
              "WAL ends before the store's progress: clients receive a gap, memberships are copied "
              "again",
              LOG_TEXT("slot", feed->config->feed.slot),
              LOG_TEXT("wal_lsn", feed_lsn_write(feed->slot.wal_lsn, wal_lsn)),
              LOG_TEXT("store_lsn", feed_position_lsn(feed->slot.furthest, store_lsn)),
              LOG_TEXT("detail", "the server was restored from an older copy"));
    snprintf(feed->copy.to, sizeof(feed->copy.to), "%s", has_slot ? end : "");
    reset(feed, (struct store_rewind){.position = has_slot ? end : "",
                                      .read_lsn = has_slot ? feed->slot.wal_lsn : READ_NOTHING,
                                      .is_gap = true,
                                      .is_undone = true,
                                      .resets_members = has_slot});
    return true;
}

/*
 * WAL is confirmed only after the store has recorded its position. So a slot that starts beyond
 * that position was recreated or advanced manually, or the store was restored from an old copy.
 * Slots that the feed recreated are included: their clients have already received a gap, but a
 * client that reloaded early misses the changes committed while the slot was created (minutes on a
 * standby).
 */
bool
feed_reset_if_slot_advanced(struct feed *feed)
{
    char slot_lsn[FEED_LSN_TEXT], store_lsn[FEED_LSN_TEXT];

    if (feed->slot.read_lsn == 0 || feed->slot.lsn <= feed->slot.read_lsn)
        return false;
    log_error(
        "feed",
        "slot starts beyond the store's progress: clients receive a gap, memberships are copied "
        "again",
        LOG_TEXT("slot", feed->config->feed.slot),
        LOG_TEXT("slot_lsn", feed_lsn_write(feed->slot.lsn, slot_lsn)),
        LOG_TEXT("store_lsn", feed_lsn_write(feed->slot.read_lsn, store_lsn)),
        LOG_TEXT("detail",
                 "the slot was recreated or advanced, or the store was restored from an old copy"));
    reset(feed, (struct store_rewind){.position = "",
                                      .read_lsn = feed->slot.lsn,
                                      .read_lsn_below = feed->slot.lsn,
                                      .is_gap = true});
    return true;
}

/*
 * Returns the end of `timeline`, or 0 if the history does not contain it. Each line of a history
 * file contains timeline, LSN and reason.
 */
static uint64_t
switch_point(const char *history, uint32_t timeline)
{
    for (const char *line = history; line != NULL; line = strchr(line, '\n')) {
        char *at;
        unsigned long of_line;

        line += strspn(line, "\n");
        of_line = strtoul(line, &at, 10);
        if (*at == '\t' && of_line == timeline)
            return feed_lsn_read(at + 1);
    }
    return 0;
}

static void
log_switch(const struct feed *feed, uint64_t fork, bool is_gap)
{
    char fork_lsn[FEED_LSN_TEXT];

    if (fork == 0)
        log_error("feed",
                  "timeline of the store's progress is not an ancestor: clients receive a gap",
                  LOG_UINT("timeline", feed->slot.timeline),
                  LOG_UINT("stored_timeline", feed->slot.stored_timeline));
    else if (!is_gap)
        log_info("feed", "following new timeline", LOG_UINT("timeline", feed->slot.timeline));
    else
        log_warn("feed",
                 "timeline forked before the store's progress: clients receive a gap, memberships "
                 "are copied again",
                 LOG_UINT("timeline", feed->slot.timeline),
                 LOG_TEXT("fork_lsn", feed_lsn_write(fork, fork_lsn)),
                 LOG_TEXT("reason", "the failover undid changes after fork_lsn"));
}

/* The new timeline contains the progress up to the fork, unless the slot is lost. */
void
feed_on_timeline(struct feed *feed, const char *history)
{
    uint64_t fork = switch_point(history, feed->slot.stored_timeline);
    uint64_t read_lsn = feed->slot.read_lsn < fork ? feed->slot.read_lsn : fork;
    char position[FRAME_POSITION_TEXT + 1];
    bool is_undone;

    frame_position_text(fork, 0, position);
    is_undone = strcmp(feed->slot.furthest, position) > 0;
    log_switch(feed, fork, is_undone);
    if (lacks_slot(feed) && feed->slot.furthest[0] != '\0')
        reset(feed, (struct store_rewind){.position = "",
                                          .read_lsn = READ_NOTHING,
                                          .is_gap = true,
                                          .is_undone = is_undone,
                                          .undone_lsn = fork});
    else if (fork == 0)
        reset(feed, (struct store_rewind){.position = "",
                                          .read_lsn = feed->slot.lsn,
                                          .of_timeline = feed->slot.stored_timeline,
                                          .is_gap = true,
                                          .is_undone = true});
    else {
        if (is_undone)
            snprintf(feed->copy.to, sizeof(feed->copy.to), "%s",
                     strcmp(feed->batch.sent_position, position) < 0 ? feed->batch.sent_position
                                                                     : position);
        reset(feed, (struct store_rewind){.position = position,
                                          .read_lsn = read_lsn,
                                          .of_timeline = feed->slot.stored_timeline,
                                          .is_gap = is_undone,
                                          .is_undone = is_undone,
                                          .undone_lsn = fork,
                                          .resets_members = is_undone});
    }
}
