/* feed_history.h: resets the store's progress after a timeline switch or the loss of the slot. */
#ifndef CLAIRON_FEED_FEED_HISTORY_H
#define CLAIRON_FEED_FEED_HISTORY_H

#include <stdbool.h>

struct feed;

/* True if the slot is missing or lost, or if the WAL ends early, although the store has progress. */
bool feed_server_lacks_progress(const struct feed *feed);
/*
 * Resets the progress and returns true if the store has progress, but the slot is missing or lost.
 */
bool feed_reset_if_slot_lost(struct feed *feed);
/* Like feed_reset_if_slot_lost, for a primary whose WAL ends before the store's progress. */
bool feed_reset_if_wal_went_back(struct feed *feed);
/*
 * Like feed_reset_if_slot_lost, for a slot that starts beyond the WAL position recorded in the
 * store.
 */
bool feed_reset_if_slot_advanced(struct feed *feed);
/* Compares the progress with the server's timeline history and resets the store's progress. */
void feed_on_history(struct feed *feed, const char *history);

#endif
