/* start_position.c: where to begin to read several shards: behind one position in all of them. */
#include "store/shards/start_position.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/shards/call.h"
#include "store/connection/reply.h"

/* A beginning that is looked for. */
struct start_position {
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
give_up(struct start_position *start)
{
    if (start->store != NULL)
        start->store->start = NULL;
    start->store = NULL;
}

static void
finish(struct start_position *start)
{
    struct store *store = start->store;

    give_up(start);
    free(start);
    for (unsigned k = 0; store != NULL && k < store->shard_count; k++) {
        if (!store->shards[k].is_up)
            return; /* it will be back */
    }
    if (store != NULL)
        store_come_up(store);
}

static void
on_found(void *ctx, const struct redisReply *reply)
{
    struct call *call = ctx;
    struct start_position *start = call->ctx;
    const unsigned k = call->shard->number;
    const struct bytes found = reply_bytes(reply);
    struct entry_id id;

    if (reply == NULL)
        give_up(start); /* its shard goes */
    else if (call_succeeded(call->shard, reply, "find where to begin") && start->store != NULL &&
             entry_id_read((const char *)found.at, found.len, &id) == RC_OK) {
        start->store->newest[k] = id;
        start->store->newest_to[k] = start->least;
    }
    free(call);
    if (--start->left == 0)
        finish(start);
}

static void
ask(struct start_position *start, struct shard *shard)
{
    struct arguments arguments = {.argc = 0};
    char position[FRAME_POSITION_TEXT + 1], newest[ENTRY_ID_TEXT_MAX];

    frame_position_text(start->least.lsn, start->least.ordinal, position);
    entry_id_text(shard->seen, newest);
    argument(&arguments, shard->stream_key);
    argument(&arguments, position);
    argument(&arguments, newest);
    if (call_send(call_new(shard, start), STORE_SCRIPT_begin, 1, on_found, &arguments) == RC_OK)
        start->left++;
    else
        give_up(start);
}

void
store_find_start(struct store *store)
{
    struct start_position *start = memory_new(sizeof(*start));

    if (store->start != NULL)
        give_up(store->start);
    *start = (struct start_position){.store = store, .least = least_of(store), .left = 1};
    store->start = start;
    for (unsigned k = 0; k < store->shard_count && start->store != NULL; k++) {
        if (position_less(start->least, store->newest_to[k]))
            ask(start, &store->shards[k]);
    }
    if (--start->left == 0)
        finish(start);
}
