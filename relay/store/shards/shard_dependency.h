/* shard_dependency.h: the notifications of other shards that precede a stream entry. */
#ifndef CLAIRON_STORE_SHARD_DEPENDENCY_H
#define CLAIRON_STORE_SHARD_DEPENDENCY_H

#include "store/position.h"
#include "store/store.h"
#include "wire/bytes.h"

/*
 * A user reads only shard 0 and the user's own shard. So a stream entry of shard 0 names the newest
 * notification of each other shard. An entry of another shard names the newest notification of
 * shard 0. Format, separated by blanks: shard, colon, LSN, dot, ordinal, all in hexadecimal.
 */
#define SHARD_DEPENDENCY_MAX (STORE_SHARDS_MAX * 37 + 1)

/*
 * Writes the dependencies of a stream entry of `shard`. `newest_sent`: the newest notification of
 * each shard; (0, 0): no notification.
 */
void shard_dependency_text(unsigned shard, const struct position *newest_sent, unsigned shards,
                           char ret_text[SHARD_DEPENDENCY_MAX]);

/* Raises `needs` of each shard to the positions in `text`, which may be invalid. */
void shard_dependency_read(struct bytes text, struct position *needs, unsigned shards);

#endif
