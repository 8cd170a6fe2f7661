/*
 * tail.h: a stream that holds its newest entries only, as somebody follows it who may come too
 * late.
 */
#ifndef CLAIRON_STORE_TAIL_H
#define CLAIRON_STORE_TAIL_H

#include <stdbool.h>
#include <stddef.h>

#include "store/connection/reply.h"
#include "store/entry.h"
#include "store/shards/shard.h"

struct link;

struct tail {
    char key[STORE_KEY_MAX];
    char at[ENTRY_ID_TEXT_MAX];     /* the entry read last */
    char before[ENTRY_ID_TEXT_MAX]; /* `at`, as it was before the last full answer */
    bool is_late;                   /* entries were gone before they were read */
};

/*
 * Before the entries of an answer, of `most` at most, are read; true when it is full. Only then may
 * older ones be gone: the store is asked, on the connection that the answer came from.
 */
bool tail_begin(struct tail *tail, struct link *link, const struct redisReply *entries,
                size_t most);

/* Whether entries were missed since it was asked last: for whoever has read an answer not full. */
bool tail_has_missed(struct tail *tail);

#endif
