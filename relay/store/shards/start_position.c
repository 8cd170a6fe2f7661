/* start_position.c: finds one WAL position from which all shards can be read. */
#include "store/shards/start_position.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/shards/shard_request.h"
#include "store/shards/store_private.h"

/* A search in flight. */
struct start_position {
    struct shard_request request;
    start_position_found *found;
    struct position min;
    bool is_superseded; /* replaced by a later search */
};

/* Returns the lowest known position. An emptied shard has no position. */
static struct position
min_of(const struct store *store)
{
    struct position min = {0, 0};

    for (unsigned k = 0; k < store->shard_count; k++) {
        const struct position to = store->newest_position[k];

        if (to.lsn != 0 && (min.lsn == 0 || position_less(to, min)))
            min = to;
    }
    return min;
}

/*
 * If the search fails in a shard, the shard keeps its position. If a connection is lost, the store
 * goes up later.
 */
static void
finish_start_position(struct shard_request *request, enum rc rc)
{
    struct start_position *start = (struct start_position *)request;
    struct store *store = request->store;

    (void)rc;
    if (start->is_superseded)
        return;
    store->start = NULL;
    for (unsigned k = 0; k < store->shard_count; k++) {
        if (request->is_disconnected || !store->shards[k].is_up)
            return;
    }
    start->found(store);
}

static void
send_start_position(struct start_position *start, struct shard *shard, const char *last)
{
    struct arguments arguments = {.argc = 0};
    char position[FRAME_POSITION_TEXT + 1];

    frame_position_text(start->min.lsn, start->min.ordinal, position);
    argument(&arguments, shard->stream_key);
    argument(&arguments, position);
    argument(&arguments, last);
    shard_request_send_script(&start->request, shard, STORE_SCRIPT_start_position, 1, &arguments);
}

static bool
on_start_position_reply(struct shard_request *request, struct shard *shard,
                        const struct redisReply *reply)
{
    struct start_position *start = (struct start_position *)request;
    const struct bytes found = reply_bytes(reply);
    struct entry_id id;

    if (!start->is_superseded && found.len > 0 && found.at[0] == '(') {
        send_start_position(start, shard, (const char *)found.at); /* continues after many bytes */
        return true;
    }
    if (start->is_superseded || found.at == NULL ||
        entry_id_read((const char *)found.at, found.len, &id) != RC_OK)
        return true;
    request->store->newest[shard->number] = history_label(&shard->history, id);
    request->store->newest_position[shard->number] = start->min;
    return true;
}

static const struct shard_request_kind start_kind = {.failure = "could not find the start position",
                                                     .on_reply = on_start_position_reply,
                                                     .finish = finish_start_position};

void
start_position_find(struct store *store, start_position_found *found)
{
    struct start_position *start = shard_request_new(sizeof(*start), store, &start_kind);
    bool has_failed;

    if (store->start != NULL)
        store->start->is_superseded = true;
    store->start = start;
    start->found = found;
    start->min = min_of(store);
    for (unsigned k = 0; k < store->shard_count; k++) {
        char newest[ENTRY_ID_TEXT_MAX];

        entry_id_text(history_position(&store->shards[k].history, store->shards[k].seen), newest);
        if (position_less(start->min, store->newest_position[k]))
            send_start_position(start, &store->shards[k], newest);
    }
    has_failed = start->request.has_failed; /* a shard went down */
    start->is_superseded = has_failed;
    if (shard_request_await(&start->request) == RC_OK && !has_failed)
        return;
    store->start = NULL;
    if (!has_failed)
        found(store);
}
