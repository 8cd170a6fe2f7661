/* replicas.h: waits until enough replicas have received all acknowledged writes. */
#ifndef CLAIRON_STORE_REPLICAS_H
#define CLAIRON_STORE_REPLICAS_H

struct shard;
struct store;

void replicas_open(struct shard *shard);
void replicas_close(struct shard *shard); /* ends all waits with RC_IO */

/* Ends the current wait of store_replicate, if any, with RC_IO. */
void replicas_down(struct store *store);

#define REPLICAS_OFFSET_NONE (-1)

/*
 * Returns the primary's replication offset in the output of INFO replication, or
 * REPLICAS_OFFSET_NONE.
 */
long long replicas_end(const char *info);

/* Returns the number of online replicas in that output that have acknowledged `offset`. */
int replicas_beyond(const char *info, long long offset);

#endif
