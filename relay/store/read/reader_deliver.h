/* reader_deliver.h: passes notifications to the hub, those of several shards in commit order. */
#ifndef CLAIRON_STORE_READER_DELIVER_H
#define CLAIRON_STORE_READER_DELIVER_H

#include "store/read/reader_private.h"

/* Accepts entries of a shard's stream and advances its position. Several shards: see _release. */
void reader_deliver(struct reader *reader, unsigned shard, const struct redisReply *entries);
/* Delivers the notifications of several shards that are ready. */
void reader_release(struct reader *reader);
/* Stops waiting for shards that have been behind for too long. */
void reader_stop_waiting(struct reader *reader);

#endif
