/* topic_prefix.h: the prefix of all topics, which the feed stores for the other relays. */
#ifndef CLAIRON_STORE_TOPIC_PREFIX_H
#define CLAIRON_STORE_TOPIC_PREFIX_H

#include "store/store.h"

#define STORE_TOPIC_PREFIX_MAX 256 /* including the zero byte */

/* Stores the feed's topic prefix for relays without a feed, unless it is too long. */
void store_set_topic_prefix(struct store *store, const char *prefix);

/* Returns "" if no feed has stored a prefix. */
const char *store_topic_prefix(const struct store *store);

/* Copies the prefix from the store. If the store has no prefix, the old prefix is kept. */
void topic_prefix_set(char prefix[STORE_TOPIC_PREFIX_MAX], struct bytes text);

#endif
