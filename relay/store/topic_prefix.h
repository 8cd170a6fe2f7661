/* topic_prefix.h: what topics begin with, as the feed that writes to this store knows it. */
#ifndef CLAIRON_STORE_TOPIC_PREFIX_H
#define CLAIRON_STORE_TOPIC_PREFIX_H

#include "store/store.h"

#define STORE_TOPIC_PREFIX_MAX 256 /* with its zero */

/* The feed's, for relays that have none; one that is too long is not kept. Without an answer. */
void store_set_topic_prefix(struct store *store, const char *prefix);

/* "" if no feed has stored one. */
const char *store_topic_prefix(const struct store *store);

/* Takes over what the store says. */
void topic_prefix_set(char prefix[STORE_TOPIC_PREFIX_MAX], struct bytes text);

#endif
