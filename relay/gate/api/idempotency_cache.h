/*
 * cache.h: the newest idempotency keys of each asker, in front of the store that knows them all.
 *
 * It answers most repeats without a round trip, also while the store is away. What it does not
 * hold, the store decides: a key is kept here only once the store said what became of it.
 */
#ifndef CLAIRON_GATE_API_IDEMPOTENCY_CACHE_H
#define CLAIRON_GATE_API_IDEMPOTENCY_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/frame.h"

#define IDEMPOTENCY_KEYS_PER_CLIENT 50 /* of an asker; then the oldest goes */
#define IDEMPOTENCY_CLIENTS_MAX 1000   /* then whoever has asked longest ago goes */
#define IDEMPOTENCY_DIGEST_MAX 64      /* bytes of the request's digest */

struct idempotency_cache;

struct idempotency_cache *idempotency_cache_new(void);
void idempotency_cache_free(struct idempotency_cache *cache); /* accepts NULL */

/*
 * True when `key` of `asker` is known and not older than `kept_us`: ret_id is then the id it
 * stands for, ret_is_same whether the digest is that of the first time. `epoch` is the store's:
 * another than before forgets all. Times are monotonic, in us.
 */
bool idempotency_cache_find(struct idempotency_cache *cache, const char *epoch, const char *asker,
                            const char *key, const char *digest, int64_t now_us, int64_t kept_us,
                            bool *ret_is_same, char ret_id[FRAME_UUID_TEXT + 1]);

/* The store has lost what this key stands for. */
void idempotency_cache_forget(struct idempotency_cache *cache, const char *asker, const char *key);

/*
 * The store holds `key` for this digest and id since `now_us`, at the latest. Texts are copied;
 * a digest or id that is too long is not kept.
 */
void idempotency_cache_keep(struct idempotency_cache *cache, const char *epoch, const char *asker,
                            const char *key, const char *digest, const char *id, int64_t now_us);

#endif
