/* feed_slot.c: looks at the slot before it is read: missing, foreign, in use, lost, moved on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "feed/feed_parts.h"

#define COMMAND_MAX 2048

enum slot_column {
    SLOT_PLUGIN,
    SLOT_IS_HERE,
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
feed_ask_slot(struct feed *feed)
{
    char command[COMMAND_MAX];

    /* Older servers lack some of these columns: a row as JSON has those that there are. One row
     * comes in any case. */
    snprintf(command, sizeof(command),
             "SELECT plugin, database = current_database(), active, wal_status = 'lost',"
             " coalesce(to_jsonb(s)->>'invalidation_reason', CASE to_jsonb(s)->>'conflicting'"
             " WHEN 'true' THEN 'conflict' ELSE 'wal_removed' END), confirmed_flush_lsn, t.setting,"
             " pg_catalog.pg_is_in_recovery(), (SELECT d.oid FROM pg_catalog.pg_database d"
             " WHERE d.datname = current_database())"
             " FROM pg_catalog.pg_settings t LEFT JOIN pg_catalog.pg_replication_slots s"
             " ON s.slot_name = '%s' WHERE t.name = 'wal_sender_timeout'",
             feed->config->feed.slot);
    feed_ask(feed, FEED_FINDING, command);
}

/* What a new slot waits for, and how long: a primary's own transactions may take any time. */
static void
prepare_to_wait(struct feed *feed)
{
    const struct config *config = feed->config;

    if (!feed->slot.in_recovery) {
        log_infof("feed", "creating slot \"%s\" (waits for running transactions to end)",
                  config->feed.slot);
        ev_timer_stop(feed->loop, &feed->link.patience);
        return;
    }
    feed->link.patience.repeat = (double)config->feed.create_timeout_ms / 1000.0;
    ev_timer_again(feed->loop, &feed->link.patience);
    if (config->feed.primary_conninfo == NULL) {
        log_infof("feed",
                  "creating slot \"%s\" on a standby: if its primary is idle, it waits for SELECT "
                  "pg_log_standby_snapshot() there; [feed] primary_conninfo would ask for it",
                  config->feed.slot);
        return;
    }
    log_infof("feed",
              "creating slot \"%s\" on a standby, and asking its primary for "
              "pg_log_standby_snapshot()",
              config->feed.slot);
    feed_primary_begin(feed);
}

void
feed_create_slot(struct feed *feed)
{
    char command[COMMAND_MAX];

    prepare_to_wait(feed);
    snprintf(command, sizeof(command),
             "CREATE_REPLICATION_SLOT \"%s\" LOGICAL clairon NOEXPORT_SNAPSHOT",
             feed->config->feed.slot);
    feed_ask(feed, FEED_CREATING, command);
}

void
feed_on_slot_created(struct feed *feed, const PGresult *result)
{
    log_infof("feed", "slot \"%s\" created", feed->config->feed.slot);
    feed_primary_end(feed);
    feed->link.patience.repeat = FEED_CONNECT_PATIENCE_S;
    ev_timer_again(feed->loop, &feed->link.patience);
    feed->slot.must_create = false;
    feed->slot.lsn = feed_lsn_read(PQgetvalue(result, 0, 1));
    feed_claim(feed, FEED_CLAIMING);
}

/* Nothing is wrong: the slot has a reader, and is tried again until it has none. */
void
feed_stand_by(struct feed *feed)
{
    if (!feed->slot.is_standby)
        log_infof("feed", "slot \"%s\" is read by another relay, standing by",
                  feed->config->feed.slot);
    feed->slot.is_standby = true;
    feed_restart(feed, "standby");
}

/* Why PostgreSQL gave a slot up, and what keeps the next one. */
static const char *
loss(const char *reason)
{
    if (strcmp(reason, "wal_removed") == 0)
        return "PostgreSQL removed WAL that it had still to send, as max_slot_wal_keep_size "
               "demands: raise that, and find out what held the relay up";
    /* PostgreSQL 16 does not report which of the two. */
    if (strcmp(reason, "conflict") == 0)
        return "its primary removed catalog rows that it needs: set hot_standby_feedback = on and "
               "primary_slot_name on this standby; or the primary no longer writes what decoding "
               "needs: set wal_level = logical there";
    if (strcmp(reason, "rows_removed") == 0)
        return "its primary removed catalog rows that it needs: set hot_standby_feedback = on and "
               "primary_slot_name on this standby";
    if (strcmp(reason, "wal_level_insufficient") == 0)
        return "its primary no longer writes what decoding needs: set wal_level = logical there";
    if (strcmp(reason, "idle_timeout") == 0)
        return "it was not read for longer than idle_replication_slot_timeout";
    return reason;
}

static void
on_lost(struct feed *feed, const char *reason)
{
    const char *slot = feed->config->feed.slot;
    char command[COMMAND_MAX];

    log_errorf("feed", "slot \"%s\" is lost, with all it had not sent: %s", slot, loss(reason));
    if (!feed->config->feed.create_slot) {
        feed->slot.is_lost = true;
        feed_claim(feed, FEED_CLAIMING); /* clients are told, then it waits for the operator */
        return;
    }
    snprintf(command, sizeof(command), "DROP_REPLICATION_SLOT \"%s\"", slot);
    feed_ask(feed, FEED_DROPPING, command);
}

void
feed_on_slot_dropped(struct feed *feed)
{
    log_warnf("feed", "the lost slot \"%s\" is dropped, to be made again", feed->config->feed.slot);
    feed->slot.must_create = true;
    feed_claim(feed, FEED_CLAIMING);
}

void
feed_wait_for_slot(struct feed *feed)
{
    const char *slot = feed->config->feed.slot;

    feed_restart(feed,
                 "slot \"%s\" is lost: SELECT pg_drop_replication_slot('%s'); SELECT "
                 "pg_create_logical_replication_slot('%s', 'clairon') in this database, or set "
                 "[feed] create_slot = on",
                 slot, slot, slot);
}

static void
on_missing(struct feed *feed)
{
    const char *slot = feed->config->feed.slot;

    if (feed->config->feed.create_slot) {
        feed->slot.must_create = true;
        feed_claim(feed, FEED_CLAIMING); /* a store that refuses must not leave a slot behind */
        return;
    }
    feed_restart(feed,
                 "slot \"%s\" does not exist: SELECT pg_create_logical_replication_slot('%s', "
                 "'clairon') in this database, or set [feed] create_slot = on",
                 slot, slot);
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
    if (strcmp(PQgetvalue(result, 0, SLOT_PLUGIN), "clairon") != 0)
        feed_restart(feed,
                     "slot \"%s\" belongs to plugin \"%s\", not to clairon: choose another "
                     "[feed] slot",
                     slot, PQgetvalue(result, 0, SLOT_PLUGIN));
    else if (!is_true(result, SLOT_IS_HERE))
        feed_restart(feed, "slot \"%s\" belongs to another database than [feed] conninfo names",
                     slot);
    else if (is_true(result, SLOT_IS_ACTIVE))
        feed_stand_by(feed);
    else if (is_true(result, SLOT_IS_LOST))
        on_lost(feed, PQgetvalue(result, 0, SLOT_REASON));
    else
        feed_claim(feed, FEED_CLAIMING);
}
