/* funnel.c: the newest idempotency keys of each asker, oldest out first. */
#include "gate/api/idempotency_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/memory.h"
#include "hub/fanout/note.h"

struct known_key {
    char *key; /* NULL: free */
    char digest[FUNNEL_DIGEST_MAX + 1];
    char id[FRAME_UUID_TEXT + 1];
    int64_t since_us;
};

/* A ring: `next` is where the oldest is, once it is full. */
struct asker {
    char *name;
    struct known_key keys[FUNNEL_KEYS];
    unsigned next;
    UT_hash_handle hh; /* in the order of their last key */
};

struct funnel {
    struct asker *askers;
    char epoch[NOTE_POS_EPOCH_MAX + 1];
};

struct funnel *
funnel_new(void)
{
    return memory_new(sizeof(struct funnel));
}

static void
forget_asker(struct funnel *funnel, struct asker *asker)
{
    HASH_DEL(funnel->askers, asker);
    for (unsigned i = 0; i < FUNNEL_KEYS; i++)
        free(asker->keys[i].key);
    free(asker->name);
    free(asker);
}

static void
forget_all(struct funnel *funnel)
{
    struct asker *asker, *next;

    HASH_ITER (hh, funnel->askers, asker, next)
        forget_asker(funnel, asker);
}

void
funnel_free(struct funnel *funnel)
{
    if (funnel != NULL)
        forget_all(funnel);
    free(funnel);
}

/* An emptied store knows no key: neither may we. */
static void
see_epoch(struct funnel *funnel, const char *epoch)
{
    if (strcmp(funnel->epoch, epoch) == 0)
        return;
    forget_all(funnel);
    snprintf(funnel->epoch, sizeof(funnel->epoch), "%s", epoch);
}

static struct known_key *
find_key(struct asker *asker, const char *key)
{
    for (unsigned i = 0; i < FUNNEL_KEYS; i++)
        if (asker->keys[i].key != NULL && strcmp(asker->keys[i].key, key) == 0)
            return &asker->keys[i];
    return NULL;
}

bool
funnel_find(struct funnel *funnel, const char *epoch, const char *asker, const char *key,
            const char *digest, int64_t now_us, int64_t kept_us, bool *ret_is_same,
            char ret_id[FRAME_UUID_TEXT + 1])
{
    struct asker *found;
    struct known_key *known;

    see_epoch(funnel, epoch);
    HASH_FIND_STR(funnel->askers, asker, found);
    known = found != NULL ? find_key(found, key) : NULL;
    if (known == NULL || now_us - known->since_us > kept_us)
        return false;
    *ret_is_same = strcmp(known->digest, digest) == 0;
    memcpy(ret_id, known->id, sizeof(known->id));
    return true;
}

void
funnel_forget(struct funnel *funnel, const char *asker, const char *key)
{
    struct asker *found;
    struct known_key *known;

    HASH_FIND_STR(funnel->askers, asker, found);
    known = found != NULL ? find_key(found, key) : NULL;
    if (known == NULL)
        return;
    free(known->key);
    known->key = NULL;
}

/* Moved or added to the end: whoever asked longest ago is first. */
static struct asker *
newest_asker(struct funnel *funnel, const char *name)
{
    struct asker *asker;

    HASH_FIND_STR(funnel->askers, name, asker);
    if (asker != NULL) {
        HASH_DEL(funnel->askers, asker);
    } else {
        if (HASH_COUNT(funnel->askers) >= FUNNEL_ASKERS)
            forget_asker(funnel, funnel->askers);
        asker = memory_new(sizeof(*asker));
        asker->name = memory_text(name, strlen(name));
    }
    HASH_ADD_KEYPTR(hh, funnel->askers, asker->name, strlen(asker->name), asker);
    return asker;
}

void
funnel_keep(struct funnel *funnel, const char *epoch, const char *asker, const char *key,
            const char *digest, const char *id, int64_t now_us)
{
    struct asker *owner;
    struct known_key *known;

    if (strlen(digest) > FUNNEL_DIGEST_MAX || strlen(id) > FRAME_UUID_TEXT)
        return;
    see_epoch(funnel, epoch);
    owner = newest_asker(funnel, asker);
    known = find_key(owner, key);
    if (known == NULL) {
        known = &owner->keys[owner->next];
        owner->next = (owner->next + 1) % FUNNEL_KEYS;
        free(known->key);
        known->key = memory_text(key, strlen(key));
    }
    snprintf(known->digest, sizeof(known->digest), "%s", digest);
    snprintf(known->id, sizeof(known->id), "%s", id);
    known->since_us = now_us;
}
