/* upkeep.h: what a relay does for the store on its own beat: what is due, trimming, a sign of life. */
#ifndef CLAIRON_STORE_UPKEEP_H
#define CLAIRON_STORE_UPKEEP_H

#include "base/config.h"
#include "base/stats.h"
#include "store/topic_prefix.h"

#define UPKEEP_BEAT_S 2.0

struct ev_loop;
struct link;
struct upkeep;

/*
 * While the link is up: asks four times a second for what is due to be shown again, given up or
 * ended, trims the stream to store.retention once a minute, and every UPKEEP_BEAT_S adds to the
 * beat stream, so that readers, which block without a time-out, hear something, and looks whether
 * the store is still of `epoch`: one that was emptied is greeted anew; `topic_prefix` follows it.
 * config, link, stats, epoch and topic_prefix must outlive it.
 */
struct upkeep *upkeep_open(struct ev_loop *loop, struct link *link, const struct config *config,
                           struct stats *stats, const char *epoch,
                           char topic_prefix[STORE_TOPIC_PREFIX_MAX]);
/* The last beat was refused, say by a store that is full: readers that block hear nothing. */
bool upkeep_is_refused(const struct upkeep *upkeep);
void upkeep_close(struct upkeep *upkeep); /* accepts NULL; before link_close */
void upkeep_free(struct upkeep *upkeep);  /* accepts NULL; after link_close gave up its answers */

#endif
