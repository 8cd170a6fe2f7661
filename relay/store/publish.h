/* publish.h: stores notifications that were published over HTTP. */
#ifndef CLAIRON_STORE_PUBLISH_H
#define CLAIRON_STORE_PUBLISH_H

#include "store/store.h"

struct publication;

enum store_publish {
    STORE_PUBLISHED,
    STORE_PUBLISHED_BEFORE,    /* a repeat of an earlier request: nothing was stored */
    STORE_PUBLISHED_DIFFERENT, /* the key belongs to a different notification: nothing was stored */
    STORE_PUBLISHED_EXPIRED    /* unknown key but expired notification: nothing was stored */
};

#define STORE_DIGEST_TEXT 64                    /* hexadecimal digits */
#define STORE_IDEMPOTENCY_RETENTION_MS 86400000 /* how long a key is stored */

/* Returns the shard in which the notification is stored. */
unsigned store_publish_shard(const struct store *store, const struct publication *publication,
                             const char *key);

/*
 * Stores the notification, once per idempotency `key` (any bytes; NULL: no key). `digest`
 * identifies the request. `id`: the id of the stored notification, new or old. The arguments are
 * copied.
 */
typedef void store_published(void *ctx, enum rc rc, enum store_publish outcome, const char *id);
MUST_CHECK enum rc store_publish(struct store *store, const struct publication *publication,
                                 const char *key, const char digest[STORE_DIGEST_TEXT + 1],
                                 store_published *done, void *ctx);

/*
 * Like store_replicate, for the writes of one shard, and any number of calls at a time. The
 * callback receives RC_AGAIN after the timeout.
 */
MUST_CHECK enum rc store_replicate_shard(struct store *store, unsigned shard, int64_t timeout_us,
                                         store_replicated *done, void *ctx);

#endif
