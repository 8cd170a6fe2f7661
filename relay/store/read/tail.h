/* tail.h: follows a stream that is trimmed to its newest entries, and detects missed entries. */
#ifndef CLAIRON_STORE_TAIL_H
#define CLAIRON_STORE_TAIL_H

#include <stdbool.h>
#include <stddef.h>

#include "store/connection/reply.h"
#include "store/entry.h"
#include "store/shards/shard.h"

struct link;

struct tail {
    struct link *link; /* link that reads the stream */
    char key[STORE_KEY_MAX];
    char at[ENTRY_ID_TEXT_MAX];     /* id of the last entry read */
    char before[ENTRY_ID_TEXT_MAX]; /* `at` before the last full reply */
    bool has_missed;                /* entries were trimmed before they were read */
};

/*
 * Call it before the entries of a reply are handled. Returns whether the reply is full, that is,
 * has `max` entries. Only after a full reply may older entries have been trimmed: requests the
 * oldest entry from the store.
 */
bool tail_begin(struct tail *tail, const struct redisReply *entries, size_t max);

/* The next reader of the stream starts at its end. */
void tail_reset(struct tail *tail);

/*
 * Returns whether entries were missed since the last call. Call it after a reply that was not full.
 */
bool tail_has_missed(struct tail *tail);

#endif
