/*
 * idempotency_cache.h: caches the most recent idempotency keys of each client.
 *
 * A repeated request with a cached key needs no store, so it succeeds even if the store is down.
 * The store checks all other keys. A key is cached only after the store's reply.
 */
#ifndef CLAIRON_GATE_API_IDEMPOTENCY_CACHE_H
#define CLAIRON_GATE_API_IDEMPOTENCY_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/frame.h"

#define IDEMPOTENCY_KEYS_PER_CLIENT 50 /* the oldest key is evicted first */
#define IDEMPOTENCY_CLIENTS_MAX 1000 /* the client without a new key for longest is evicted first */
#define IDEMPOTENCY_DIGEST_MAX 64    /* bytes of the request's digest */

struct idempotency_cache;

struct idempotency_cache *idempotency_cache_new(void);
void idempotency_cache_free(struct idempotency_cache *cache); /* accepts NULL */

/*
 * True if `key` of `client` is cached and not older than `kept_us`. ret_id is its notification;
 * ret_is_same is true if the digest is equal. `epoch` is the store's epoch; a new epoch empties the
 * cache. Times are monotonic, in microseconds.
 */
bool idempotency_cache_find(struct idempotency_cache *cache, const char *epoch, const char *client,
                            const char *key, const char *digest, int64_t now_us, int64_t kept_us,
                            bool *ret_is_same, char ret_id[FRAME_UUID_TEXT + 1]);

/* Removes a key whose notification the store has lost. */
void idempotency_cache_remove(struct idempotency_cache *cache, const char *client, const char *key);

/*
 * Adds a key that the store recorded at `now_us` or later, so that the cached key expires first.
 * Copies the strings; ignores a digest or id that exceeds its limit.
 */
void idempotency_cache_add(struct idempotency_cache *cache, const char *epoch, const char *client,
                           const char *key, const char *digest, const char *id, int64_t now_us);

#endif
