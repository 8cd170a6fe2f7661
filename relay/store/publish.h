/* publish.h: stores notifications published over HTTP. */
#ifndef CLAIRON_STORE_PUBLISH_H
#define CLAIRON_STORE_PUBLISH_H

#include "store/store.h"

struct publication;

enum store_publish {
    STORE_PUBLISHED,
    STORE_PUBLISHED_BEFORE,    /* with the same key: nothing was stored */
    STORE_PUBLISHED_DIFFERENT, /* the key stands for something else: nothing was stored */
    STORE_PUBLISHED_EXPIRED    /* the key is unknown, and the notification is expired: likewise */
};

#define STORE_DIGEST_TEXT 64       /* hexadecimal digits */
#define STORE_KEY_KEPT_MS 86400000 /* how long a key is known */

/*
 * Stores it, once for each `key` (NULL: none; any bytes); `digest` tells whether
 * the same is asked again. `id`: of what was stored, now or then. The arguments are copied.
 */
typedef void store_published(void *ctx, enum rc rc, enum store_publish how, const char *id);
MUST_CHECK enum rc store_publish(struct store *store, const struct publication *publication,
                                 const char *key, const char digest[STORE_DIGEST_TEXT + 1],
                                 store_published *done, void *ctx);

#endif
