/* shard_dependency.h: which notifications of other shards precede a stream entry. */
#ifndef CLAIRON_STORE_SHARD_DEPENDENCY_H
#define CLAIRON_STORE_SHARD_DEPENDENCY_H

#include "store/position.h"
#include "store/store.h"
#include "wire/bytes.h"

/*
 * Nobody reads two shards but the shared one and a user's own. So what is added to shard 0 tells
 * the newest note of each other shard, and what is added there tells that of shard 0: for each, the
 * shard, a colon, LSN, a dot, ordinal, in hexadecimal; a blank between two.
 */
#define SHARD_DEPENDENCY_MAX (STORE_SHARDS_MAX * 37 + 1)

/*
 * For an entry of `shard`: `noted` has the newest note of each shard, (0, 0) where there is none.
 */
void shard_dependency_text(unsigned shard, const struct position *noted, unsigned shards,
                           char ret_text[SHARD_DEPENDENCY_MAX]);

/* Raises `needs`, of each shard, to what the text tells. Any bytes may be given. */
void shard_dependency_read(struct bytes text, struct position *needs, unsigned shards);

#endif
