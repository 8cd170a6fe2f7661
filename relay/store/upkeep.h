/*
 * upkeep.h: what a relay does for the store on its own beat: what is due, trimming, a sign of life.
 */
#ifndef CLAIRON_STORE_UPKEEP_H
#define CLAIRON_STORE_UPKEEP_H

#include <stdbool.h>

#define UPKEEP_BEAT_S 2.0

struct shard;
struct upkeep;

/*
 * While the shard's link is up: asks four times a second for what is due to be shown again, given
 * up or ended, trims the stream to store.retention once a minute, and every UPKEEP_BEAT_S adds to
 * the beat stream, so that readers, which block without a time-out, hear something, and looks
 * whether the shard is still of its epoch: one that was emptied is greeted anew; the topic prefix
 * follows shard 0. The shard must outlive it.
 */
struct upkeep *upkeep_open(struct shard *shard);
/* The last beat was refused, say by a store that is full: readers that block hear nothing. */
bool upkeep_is_refused(const struct upkeep *upkeep);
void upkeep_close(struct upkeep *upkeep); /* accepts NULL; before link_close */
void upkeep_free(struct upkeep *upkeep);  /* accepts NULL; after link_close gave up its answers */

#endif
