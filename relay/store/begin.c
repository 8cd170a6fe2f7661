/* begin.c: where to begin to read several shards: behind one position in all of them. */
#include "store/begin.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/call.h"
#include "store/reply.h"

/* A beginning that is looked for. */
struct begin {
    struct store *store; /* NULL: another one has begun, or the store has gone */
    struct position least;
    unsigned left; /* answers to come */
};

/* Of those that know theirs: one that was emptied knows none. */
static struct position
least_of(const struct store *store)
{
    struct position least = {0, 0};

    for (unsigned k = 0; k < store->shard_count; k++) {
        const struct position to = store->newest_to[k];

        if (to.lsn != 0 && (least.lsn == 0 || position_less(to, least)))
            least = to;
    }
    return least;
}

static void
give_up(struct begin *begin)
{
    if (begin->store != NULL)
        begin->store->begin = NULL;
    begin->store = NULL;
}

static void
finish(struct begin *begin)
{
    struct store *store = begin->store;

    give_up(begin);
    free(begin);
    for (unsigned k = 0; store != NULL && k < store->shard_count; k++) {
        if (!store->shards[k].is_up)
            return; /* it will be back */
    }
    if (store != NULL)
        store_come_up(store);
}

static void
on_found(void *ctx, const redisReply *reply)
{
    struct call *call = ctx;
    struct begin *begin = call->ctx;
    const unsigned k = call->shard->number;
    const struct bytes found = reply_bytes(reply);
    struct entry_id id;

    if (reply == NULL)
        give_up(begin); /* its shard goes */
    else if (call_succeeded(call->shard, reply, "find where to begin") && begin->store != NULL &&
             entry_id_read((const char *)found.at, found.len, &id) == RC_OK) {
        begin->store->newest[k] = id;
        begin->store->newest_to[k] = begin->least;
    }
    free(call);
    if (--begin->left == 0)
        finish(begin);
}

static void
ask(struct begin *begin, struct shard *shard)
{
    struct arguments arguments = {.argc = 0};
    char position[FRAME_POSITION_TEXT + 1], newest[ENTRY_ID_TEXT_MAX];

    frame_position_text(begin->least.lsn, begin->least.ordinal, position);
    entry_id_text(shard->seen, newest);
    argument(&arguments, shard->stream_key);
    argument(&arguments, position);
    argument(&arguments, newest);
    if (call_send(call_new(shard, begin), STORE_SCRIPT_begin, 1, on_found, &arguments) == RC_OK)
        begin->left++;
    else
        give_up(begin);
}

void
store_begin(struct store *store)
{
    struct begin *begin = memory_new(sizeof(*begin));

    if (store->begin != NULL)
        give_up(store->begin);
    *begin = (struct begin){.store = store, .least = least_of(store), .left = 1};
    store->begin = begin;
    for (unsigned k = 0; k < store->shard_count && begin->store != NULL; k++) {
        if (position_less(begin->least, store->newest_to[k]))
            ask(begin, &store->shards[k]);
    }
    if (--begin->left == 0)
        finish(begin);
}
