/* maintenance.h: periodic work of a relay per shard: due retries, trimming, heartbeat. */
#ifndef CLAIRON_STORE_MAINTENANCE_H
#define CLAIRON_STORE_MAINTENANCE_H

#include <stdbool.h>

#define MAINTENANCE_HEARTBEAT_S 2.0

struct shard;
struct maintenance;

/*
 * Runs while the shard's link is up. Four times a second, processes due retries, expirations and
 * dead letters; with many relays, each relay does this work less often. Once a minute, trims the
 * stream to store.retention. Every MAINTENANCE_HEARTBEAT_S, adds to the heartbeat stream, which
 * wakes readers that block without a timeout; checks the shard's epoch, and prepares an emptied
 * shard again; reads the topic prefix of shard 0. The shard must outlive it.
 */
struct maintenance *maintenance_open(struct shard *shard);
/* The last heartbeat was rejected, for example by a full store: blocked readers receive no data. */
bool maintenance_is_rejected(const struct maintenance *maintenance);
/* accepts NULL; call it before link_close */
void maintenance_close(struct maintenance *maintenance);
/* accepts NULL; call it after link_close */
void maintenance_free(struct maintenance *maintenance);

#endif
