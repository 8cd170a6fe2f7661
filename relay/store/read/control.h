/* control.h: reads the streams of ack events, membership changes and reloads. */
#ifndef CLAIRON_STORE_CONTROL_H
#define CLAIRON_STORE_CONTROL_H

#include "store/connection/reply.h"
#include "store/reader.h"

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

#endif
