/*
 * idempotency.c: the cache of the newest idempotency keys of each client.
 *
 * A repeated request with a cached key needs no store, so it succeeds even if the store is down.
 * The store checks all other keys. A key is cached only after the store's reply.
 */
#include "gate/routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/memory.h"
#include "hub/notification.h"

struct known_key {
    char *key; /* NULL: unused */
    char digest[IDEMPOTENCY_DIGEST_MAX + 1];
    char id[FRAME_UUID_TEXT + 1];
    int64_t since_us;
};

/* A ring buffer; once it is full, `next` is its oldest element. */
struct cache_client {
    char *name;
    struct known_key keys[IDEMPOTENCY_KEYS_PER_CLIENT];
    unsigned next;
    UT_hash_handle hh; /* ordered by the time of the newest key */
};

struct idempotency_cache {
    struct cache_client *clients;
    char epoch[CLIENT_POS_EPOCH_MAX + 1];
};

struct idempotency_cache *
idempotency_cache_new(void)
{
    return memory_new(sizeof(struct idempotency_cache));
}

static void
evict_client(struct idempotency_cache *cache, struct cache_client *client)
{
    HASH_DEL(cache->clients, client);
    for (unsigned i = 0; i < IDEMPOTENCY_KEYS_PER_CLIENT; i++)
        free(client->keys[i].key);
    free(client->name);
    free(client);
}

static void
clear(struct idempotency_cache *cache)
{
    struct cache_client *client, *next;

    HASH_ITER (hh, cache->clients, client, next)
        evict_client(cache, client);
}

void
idempotency_cache_free(struct idempotency_cache *cache)
{
    if (cache != NULL)
        clear(cache);
    free(cache);
}

/* A store with a new epoch has no keys, so the cached keys are invalid. */
static void
check_epoch(struct idempotency_cache *cache, const char *epoch)
{
    if (strcmp(cache->epoch, epoch) == 0)
        return;
    clear(cache);
    snprintf(cache->epoch, sizeof(cache->epoch), "%s", epoch);
}

static struct known_key *
find_key(struct cache_client *client, const char *key)
{
    for (unsigned i = 0; i < IDEMPOTENCY_KEYS_PER_CLIENT; i++)
        if (client->keys[i].key != NULL && strcmp(client->keys[i].key, key) == 0)
            return &client->keys[i];
    return NULL;
}

bool
idempotency_cache_find(struct idempotency_cache *cache, const char *epoch, const char *client,
                       const char *key, const char *digest, int64_t now_us, int64_t kept_us,
                       bool *ret_is_same, char ret_id[FRAME_UUID_TEXT + 1])
{
    struct cache_client *found;
    struct known_key *known;

    check_epoch(cache, epoch);
    HASH_FIND_STR(cache->clients, client, found);
    known = found != NULL ? find_key(found, key) : NULL;
    if (known == NULL || now_us - known->since_us > kept_us)
        return false;
    *ret_is_same = strcmp(known->digest, digest) == 0;
    memcpy(ret_id, known->id, sizeof(known->id));
    return true;
}

void
idempotency_cache_remove(struct idempotency_cache *cache, const char *client, const char *key)
{
    struct cache_client *found;
    struct known_key *known;

    HASH_FIND_STR(cache->clients, client, found);
    known = found != NULL ? find_key(found, key) : NULL;
    if (known == NULL)
        return;
    free(known->key);
    known->key = NULL;
}

/* Moves or adds the client to the end of the list. The first client is evicted next. */
static struct cache_client *
touch_client(struct idempotency_cache *cache, const char *name)
{
    struct cache_client *client;

    HASH_FIND_STR(cache->clients, name, client);
    if (client != NULL) {
        HASH_DEL(cache->clients, client);
    } else {
        if (HASH_COUNT(cache->clients) >= IDEMPOTENCY_CLIENTS_MAX)
            evict_client(cache, cache->clients);
        client = memory_new(sizeof(*client));
        client->name = memory_text(name, strlen(name));
    }
    HASH_ADD_KEYPTR(hh, cache->clients, client->name, strlen(client->name), client);
    return client;
}

void
idempotency_cache_add(struct idempotency_cache *cache, const char *epoch, const char *client,
                      const char *key, const char *digest, const char *id, int64_t now_us)
{
    struct cache_client *owner;
    struct known_key *known;

    if (strlen(digest) > IDEMPOTENCY_DIGEST_MAX || strlen(id) > FRAME_UUID_TEXT)
        return;
    check_epoch(cache, epoch);
    owner = touch_client(cache, client);
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
