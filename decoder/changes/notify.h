/* notify.h: messages of clairon.notify, as notifications. */
#ifndef CLAIRON_NOTIFY_H
#define CLAIRON_NOTIFY_H

#include "postgres.h"

#include "replication/logical.h"

struct decoder;

/* Verifies the message and writes, or spools, its notification. */
extern void notify_write(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, const char *content,
                         Size size);

/* Counts a repeated key of clairon.once or clairon.notify; only the relay reads the count. */
extern void notify_count_repeat(struct decoder *decoder);

/* Writes a spooled message. `bytes` contains the topic, then the message: `size` bytes in total. */
extern void notify_replay(LogicalDecodingContext *ctx, const char *bytes, int topic_len, Size size);

#endif
