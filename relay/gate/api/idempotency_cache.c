/* cache.c: the newest idempotency keys of each asker, oldest out first. */
#include "gate/api/idempotency_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/memory.h"
#include "hub/fanout/notification.h"

struct known_key {
    char *key; /* NULL: free */
    char digest[IDEMPOTENCY_DIGEST_MAX + 1];
    char id[FRAME_UUID_TEXT + 1];
    int64_t since_us;
};

/* A ring: `next` is where the oldest is, once it is full. */
struct asker {
    char *name;
    struct known_key keys[IDEMPOTENCY_KEYS_PER_CLIENT];
    unsigned next;
    UT_hash_handle hh; /* in the order of their last key */
};

struct idempotency_cache {
    struct asker *askers;
    char epoch[CLIENT_POS_EPOCH_MAX + 1];
};

struct idempotency_cache *
idempotency_cache_new(void)
{
    return memory_new(sizeof(struct idempotency_cache));
}

static void
forget_asker(struct idempotency_cache *cache, struct asker *asker)
{
    HASH_DEL(cache->askers, asker);
    for (unsigned i = 0; i < IDEMPOTENCY_KEYS_PER_CLIENT; i++)
        free(asker->keys[i].key);
    free(asker->name);
    free(asker);
}

static void
forget_all(struct idempotency_cache *cache)
{
    struct asker *asker, *next;

    HASH_ITER (hh, cache->askers, asker, next)
        forget_asker(cache, asker);
}

void
idempotency_cache_free(struct idempotency_cache *cache)
{
    if (cache != NULL)
        forget_all(cache);
    free(cache);
}

/* An emptied store knows no key: neither may we. */
static void
see_epoch(struct idempotency_cache *cache, const char *epoch)
{
    if (strcmp(cache->epoch, epoch) == 0)
        return;
    forget_all(cache);
    snprintf(cache->epoch, sizeof(cache->epoch), "%s", epoch);
}

static struct known_key *
find_key(struct asker *asker, const char *key)
{
    for (unsigned i = 0; i < IDEMPOTENCY_KEYS_PER_CLIENT; i++)
        if (asker->keys[i].key != NULL && strcmp(asker->keys[i].key, key) == 0)
            return &asker->keys[i];
    return NULL;
}

bool
idempotency_cache_find(struct idempotency_cache *cache, const char *epoch, const char *asker,
                       const char *key, const char *digest, int64_t now_us, int64_t kept_us,
                       bool *ret_is_same, char ret_id[FRAME_UUID_TEXT + 1])
{
    struct asker *found;
    struct known_key *known;

    see_epoch(cache, epoch);
    HASH_FIND_STR(cache->askers, asker, found);
    known = found != NULL ? find_key(found, key) : NULL;
    if (known == NULL || now_us - known->since_us > kept_us)
        return false;
    *ret_is_same = strcmp(known->digest, digest) == 0;
    memcpy(ret_id, known->id, sizeof(known->id));
    return true;
}

void
idempotency_cache_forget(struct idempotency_cache *cache, const char *asker, const char *key)
{
    struct asker *found;
    struct known_key *known;

    HASH_FIND_STR(cache->askers, asker, found);
    known = found != NULL ? find_key(found, key) : NULL;
    if (known == NULL)
        return;
    free(known->key);
    known->key = NULL;
}

/* Moved or added to the end: whoever asked longest ago is first. */
static struct asker *
newest_asker(struct idempotency_cache *cache, const char *name)
{
    struct asker *asker;

    HASH_FIND_STR(cache->askers, name, asker);
    if (asker != NULL) {
        HASH_DEL(cache->askers, asker);
    } else {
        if (HASH_COUNT(cache->askers) >= IDEMPOTENCY_CLIENTS_MAX)
            forget_asker(cache, cache->askers);
        asker = memory_new(sizeof(*asker));
        asker->name = memory_text(name, strlen(name));
    }
    HASH_ADD_KEYPTR(hh, cache->askers, asker->name, strlen(asker->name), asker);
    return asker;
}

void
idempotency_cache_keep(struct idempotency_cache *cache, const char *epoch, const char *asker,
                       const char *key, const char *digest, const char *id, int64_t now_us)
{
    struct asker *owner;
    struct known_key *known;

    if (strlen(digest) > IDEMPOTENCY_DIGEST_MAX || strlen(id) > FRAME_UUID_TEXT)
        return;
    see_epoch(cache, epoch);
    owner = newest_asker(cache, asker);
    known = find_key(owner, key);
    if (known == NULL) {
        known = &owner->keys[owner->next];
        owner->next = (owner->next + 1) % IDEMPOTENCY_KEYS_PER_CLIENT;
        free(known->key);
        known->key = memory_text(key, strlen(key));
    }
    snprintf(known->digest, sizeof(known->digest), "%s", digest);
    snprintf(known->id, sizeof(known->id), "%s", id);
    known->since_us = now_us;
}
