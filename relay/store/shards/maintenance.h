/* maintenance.h: what a relay does for a shard by timer: due retries, trimming, heartbeat. */
#ifndef CLAIRON_STORE_MAINTENANCE_H
#define CLAIRON_STORE_MAINTENANCE_H

#include <stdbool.h>

#define MAINTENANCE_BEAT_S 2.0

struct shard;
struct maintenance;

/*
 * While the shard's link is up: asks four times a second for what is due to be shown again, given
 * up or ended, trims the stream to store.retention once a minute, and every MAINTENANCE_BEAT_S adds
 * to the beat stream, so that readers, which block without a time-out, hear something, and checks
 * that the shard still has its epoch: one that was emptied is greeted again; the topic prefix
 * follows shard 0. The shard must outlive it.
 */
struct maintenance *maintenance_open(struct shard *shard);
/* The last beat was refused, say by a store that is full: readers that block hear nothing. */
bool maintenance_is_refused(const struct maintenance *maintenance);
void maintenance_close(struct maintenance *maintenance); /* accepts NULL; before link_close */
void maintenance_free(
    struct maintenance *maintenance); /* accepts NULL; after link_close gave up its answers */

#endif
