/* reader_deliver.h: passes notifications to the hub, in commit order across shards. */
#ifndef CLAIRON_STORE_READER_DELIVER_H
#define CLAIRON_STORE_READER_DELIVER_H

#include "store/read/reader_private.h"

/*
 * Adds stream entries of a shard and advances its position. With several shards, reader_release
 * delivers them.
 */
void reader_deliver(struct reader *reader, unsigned shard, const struct redisReply *entries);
/* An order_deliver: passes an entry to the hub, with its generation. */
void reader_pass(void *ctx, const struct entry *entry);
/* Delivers the notifications that are ready. For several shards. */
void reader_release(struct reader *reader);
/* Stops waiting for shards that have lagged for too long. */
void reader_stop_waiting(struct reader *reader);

#endif
