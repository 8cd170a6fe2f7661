/* maintenance.h: timed work of a relay per shard: due retries, trimming, heartbeat. */
#ifndef CLAIRON_STORE_MAINTENANCE_H
#define CLAIRON_STORE_MAINTENANCE_H

#include <stdbool.h>

#define MAINTENANCE_HEARTBEAT_S 2.0

struct shard;
struct maintenance;

/*
 * While the shard's link is up, four times a second: runs the retries, expirations and dead letters
 * that are due; many relays do so less often each. Once a minute: trims the stream to
 * store.retention. Every MAINTENANCE_HEARTBEAT_S: adds to the heartbeat stream, which wakes readers
 * that block without a timeout; checks the shard's epoch, and prepares a shard again that was
 * emptied; reads the topic prefix of shard 0. The shard must outlive it.
 */
struct maintenance *maintenance_open(struct shard *shard);
/* The last heartbeat was rejected, for example by a full store: blocked readers get no data. */
bool maintenance_is_rejected(const struct maintenance *maintenance);
void maintenance_close(struct maintenance *maintenance); /* accepts NULL; before link_close */
void maintenance_free(struct maintenance *maintenance);  /* accepts NULL; after link_close */

#endif
