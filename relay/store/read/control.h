/* control.h: reads the streams of ack events, membership changes and reloads. */
#ifndef CLAIRON_STORE_CONTROL_H
#define CLAIRON_STORE_CONTROL_H

#include <stdbool.h>
#include <stddef.h>

#include "store/connection/reply.h"
#include "store/entry.h"
#include "store/reader.h"
#include "store/shards/shard.h"

/* Copies the id of an entry of any stream to `at`. Without an id, `at` is unchanged. */
void control_read_cursor(const struct redisReply *entry, char at[ENTRY_ID_TEXT_MAX]);

/*
 * These functions deliver the entries and advance `at`. Ack events that `own_name` stored are
 * skipped.
 */
void control_handle_ack_events(const struct reader_events *events, const char *own_name,
                               const struct redisReply *entries, char at[ENTRY_ID_TEXT_MAX]);
void control_handle_changes(const struct reader_events *events, const struct redisReply *entries,
                            char at[ENTRY_ID_TEXT_MAX]);

#define CONTROL_NEWEST_MAX 100

/*
 * Called after a reconnect. `newest`: up to CONTROL_NEWEST_MAX entries of the control stream,
 * newest first. Delivers the reloads after `at`, and advances it to the newest entry. If some
 * entries after `at` are missing, any rule may have been reloaded. If `at` is "", there is no
 * position yet, and these entries are delivered: their transactions may not be visible to all
 * snapshots.
 */
void control_handle_newest(const struct reader_events *events, const struct redisReply *newest,
                           char at[ENTRY_ID_TEXT_MAX]);

struct link;

struct tail {
    struct link *link; /* link that reads the stream */
    char key[STORE_KEY_MAX];
    char at[ENTRY_ID_TEXT_MAX];     /* id of the last entry read */
    char before[ENTRY_ID_TEXT_MAX]; /* `at` before the last full reply */
    bool has_missed;                /* entries were trimmed before they were read */
};

/*
 * Call it before the entries of a reply are handled. Returns whether the reply is full, that is,
 * has `max` entries. Only after a full reply may older entries have been trimmed: requests the
 * oldest entry from the store.
 */
bool tail_begin(struct tail *tail, const struct redisReply *entries, size_t max);

/* The next reader of the stream starts at its end. */
void tail_reset(struct tail *tail);

/*
 * Returns whether entries were missed since the last call. Call it after a reply that was not full.
 */
bool tail_has_missed(struct tail *tail);

#endif
