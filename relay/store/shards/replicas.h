/* replicas.h: waits until replicas have what the store acknowledged. */
#ifndef CLAIRON_STORE_REPLICAS_H
#define CLAIRON_STORE_REPLICAS_H

struct shard;
struct store;

void replicas_open(struct shard *shard);
void replicas_close(struct shard *shard);

/* Ends the current wait, if any, with RC_IO. */
void replicas_down(struct store *store);

#define REPLICAS_OFFSET_NONE (-1)

/* The end of the replication stream in the text of INFO replication, or REPLICAS_OFFSET_NONE. */
long long replicas_end(const char *info);

/* How many replicas in that text have acknowledged the stream up to `offset`. */
int replicas_beyond(const char *info, long long offset);

#endif
