/* feed_slot.c: checks the slot before streaming: missing, foreign, in use, lost, advanced. */
#include "feed/feed_slot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "feed/feed_command.h"
#include "feed/feed_parts.h"

enum slot_column {
    SLOT_PLUGIN,
    SLOT_IS_OF_DATABASE,
    SLOT_IS_ACTIVE,
    SLOT_IS_LOST,
    SLOT_REASON,
    SLOT_LSN,
    SLOT_TIMEOUT,
    SLOT_IN_RECOVERY,
    SLOT_DATABASE
};

uint64_t
feed_lsn_read(const char *text)
{
    char *at;
    uint64_t high = strtoul(text, &at, 16);
    uint64_t low = *at == '/' ? strtoul(at + 1, NULL, 16) : 0;

    return high << 32 | low;
}

void
feed_query_slot(struct feed *feed)
{
    char command[FEED_COMMAND_MAX];

    /*
     * Older servers lack some of these columns; to_jsonb() returns NULL for them. The result always
     * has one row.
     */
    snprintf(command, sizeof(command),
             "SELECT plugin, database = current_database(), active, wal_status = 'lost',"
             " coalesce(to_jsonb(s)->>'invalidation_reason', CASE to_jsonb(s)->>'conflicting'"
             " WHEN 'true' THEN 'conflict' ELSE 'wal_removed' END), confirmed_flush_lsn, t.setting,"
             " pg_catalog.pg_is_in_recovery(), (SELECT d.oid FROM pg_catalog.pg_database d"
             " WHERE d.datname = current_database())"
             " FROM pg_catalog.pg_settings t LEFT JOIN pg_catalog.pg_replication_slots s"
             " ON s.slot_name = '%s' WHERE t.name = 'wal_sender_timeout'",
             feed->config->feed.slot);
    feed_send_command(feed, FEED_FINDING, command);
}

/*
 * Logs the condition for slot creation, and sets the timeout. On a primary there is no timeout,
 * because running transactions may last arbitrarily long.
 */
static void
log_and_set_timeout(struct feed *feed)
{
    const struct config *config = feed->config;

    if (!feed->slot.in_recovery) {
        log_info("feed", "creating slot: waiting for running transactions to end",
                 LOG_TEXT("slot", config->feed.slot));
        ev_timer_stop(feed->loop, &feed->link.timeout);
        return;
    }
    feed->link.timeout.repeat = (double)config->feed.create_timeout_ms / 1000.0;
    ev_timer_again(feed->loop, &feed->link.timeout);
    if (config->feed.primary_conninfo == NULL) {
        log_info("feed", "creating slot on a standby", LOG_TEXT("slot", config->feed.slot),
                 LOG_TEXT("hint", "if the primary is idle, run SELECT pg_log_standby_snapshot() "
                                  "on it, or set [feed] primary_conninfo"));
        return;
    }
    log_info("feed", "creating slot on a standby: calling pg_log_standby_snapshot() on its primary",
             LOG_TEXT("slot", config->feed.slot));
    feed_primary_start(feed);
}

void
feed_create_slot(struct feed *feed)
{
    char command[FEED_COMMAND_MAX];

    log_and_set_timeout(feed);
    snprintf(command, sizeof(command),
             "CREATE_REPLICATION_SLOT \"%s\" LOGICAL clairon NOEXPORT_SNAPSHOT",
             feed->config->feed.slot);
    feed_send_command(feed, FEED_CREATING, command);
}

void
feed_on_slot_created(struct feed *feed, const PGresult *result)
{
    log_info("feed", "slot created", LOG_TEXT("slot", feed->config->feed.slot));
    postgres_query_end(&feed->primary.query);
    feed->link.timeout.repeat = FEED_CONNECT_TIMEOUT_S;
    ev_timer_again(feed->loop, &feed->link.timeout);
    feed->slot.must_create = false;
    feed->slot.lsn = feed_lsn_read(PQgetvalue(result, 0, 1));
    feed->report->has_slot = true;
    feed_acquire(feed, FEED_ACQUIRING);
}

/* A slot in use is not an error: the feed retries until the other relay stops. */
void
feed_enter_standby(struct feed *feed)
{
    if (!feed->slot.is_standby)
        log_info("feed", "slot is in use by another relay, waiting as standby",
                 LOG_TEXT("slot", feed->config->feed.slot));
    feed->slot.is_standby = true;
    feed_restart(feed, "slot is in use by another relay",
                 LOG_TEXT("slot", feed->config->feed.slot));
}

struct loss {
    const char *code; /* invalidation_reason of pg_replication_slots */
    const char *reason;
    const char *hint;
};

/* PostgreSQL 16 reports "conflict" for two causes. */
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
log_loss(const char *slot, const char *code)
{
    struct loss loss = {code, code, NULL};

    for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++)
        if (strcmp(losses[i].code, code) == 0)
            loss = losses[i];
    log_error("feed", "slot is lost with its unsent changes", LOG_TEXT("slot", slot),
              LOG_TEXT("reason", loss.reason), LOG_TEXT("hint", loss.hint));
}

static void
on_lost(struct feed *feed, const char *reason)
{
    const char *slot = feed->config->feed.slot;
    char command[FEED_COMMAND_MAX];

    log_loss(slot, reason);
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

static bool
is_true(const PGresult *result, enum slot_column column)
{
    return strcmp(PQgetvalue(result, 0, column), "t") == 0;
}

/* While another relay creates the slot, it has no LSN yet. */
static bool
is_usable(const PGresult *result)
{
    return strcmp(PQgetvalue(result, 0, SLOT_PLUGIN), "clairon") == 0 &&
           is_true(result, SLOT_IS_OF_DATABASE) && !is_true(result, SLOT_IS_LOST);
}

void
feed_on_slot(struct feed *feed, const PGresult *result)
{
    const char *slot = feed->config->feed.slot;

    feed->slot.must_create = feed->slot.is_lost = false;
    feed->slot.lsn = 0;
    feed->slot.in_recovery = is_true(result, SLOT_IN_RECOVERY);
    snprintf(feed->slot.origin.database, sizeof(feed->slot.origin.database), "%s",
             PQgetvalue(result, 0, SLOT_DATABASE));
    feed->feedback.timeout_us = strtoll(PQgetvalue(result, 0, SLOT_TIMEOUT), NULL, 10) * 1000;
    if (PQgetisnull(result, 0, SLOT_PLUGIN)) {
        on_missing(feed);
        return;
    }
    feed->slot.lsn = feed_lsn_read(PQgetvalue(result, 0, SLOT_LSN));
    if (is_usable(result) && feed->slot.lsn != 0)
        feed->report->has_slot = true;
    if (strcmp(PQgetvalue(result, 0, SLOT_PLUGIN), "clairon") != 0)
        feed_restart(feed, "slot uses another plugin", LOG_TEXT("slot", slot),
                     LOG_TEXT("plugin", PQgetvalue(result, 0, SLOT_PLUGIN)),
                     LOG_TEXT("hint", "choose another [feed] slot"));
    else if (!is_true(result, SLOT_IS_OF_DATABASE))
        feed_restart(feed, "slot belongs to another database", LOG_TEXT("slot", slot),
                     LOG_TEXT("hint", "correct [feed] conninfo, or choose another [feed] slot"));
    else if (is_true(result, SLOT_IS_ACTIVE))
        feed_enter_standby(feed);
    else if (is_true(result, SLOT_IS_LOST))
        on_lost(feed, PQgetvalue(result, 0, SLOT_REASON));
    else
        feed_acquire(feed, FEED_ACQUIRING);
}
