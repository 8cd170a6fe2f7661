/* delivery.c: tells the store what was shown, acknowledged and put off. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/call.h"
#include "store/reply.h"

void
delivery_settings(const struct config *config, struct delivery *ret_delivery)
{
    struct delivery *d = ret_delivery;

    snprintf(d->ack_timeout, sizeof(d->ack_timeout), "%" PRId64, config->delivery.ack_timeout_ms);
    snprintf(d->backoff_base, sizeof(d->backoff_base), "%" PRId64,
             config->delivery.backoff_base_ms);
    snprintf(d->backoff_cap, sizeof(d->backoff_cap), "%" PRId64, config->delivery.backoff_cap_ms);
    snprintf(d->retention, sizeof(d->retention), "%" PRId64, config->store.retention_ms);
}

/* Who is here. */

static void
on_here(void *ctx, const redisReply *reply)
{
    struct call *call = ctx;
    bool is_good = call_succeeded(call->shard, reply, "store who is connected") &&
                   reply->type == REDIS_REPLY_INTEGER;

    call->done.told(call->ctx, is_good ? RC_OK : RC_IO, is_good && reply->integer != 0);
    free(call);
}

enum rc
store_here(struct store *store, enum store_here_what what, const char *const *users, size_t count,
           store_told *done, void *ctx)
{
    static const char *const words[] = {"=", "+", "-", "."};
    struct call *call;
    struct long_arguments arguments;

    if (!store->is_up)
        return RC_AGAIN;
    call = call_new(&store->shards[0], ctx);
    call->done.told = done;
    long_arguments_init(&arguments, 4 + count);
    long_argument(&arguments, store->shards[0].stream_key);
    long_argument(&arguments, store->shards[0].prefix);
    long_argument(&arguments, store->owner);
    long_argument(&arguments, words[what]);
    for (size_t i = 0; i < count; i++)
        long_argument(&arguments, users[i]);
    return call_send_long(call, STORE_SCRIPT_here, 1, on_here, &arguments);
}

/* Shown. */

static void
on_shown(void *ctx, const redisReply *reply)
{
    struct call *call = ctx;
    size_t *places = NULL;
    size_t count = 0;
    enum rc rc = RC_IO;

    if (call_succeeded(call->shard, reply, "store what was shown") && reply_is_array(reply, 0)) {
        places = memory_new((reply->elements + 1) * sizeof(*places));
        while (count < reply->elements) {
            places[count] = (size_t)reply->element[count]->integer;
            count++;
        }
        rc = RC_OK;
    }
    call->done.reported(call->ctx, rc, places, count);
    free(places);
    free(call);
}

/* As shown.lua reads it. */
static const char *
how_text(const struct store_shown *shown)
{
    static const char *const texts[2][4][2] = {
        {{"SEC", "SEO"}, {"SLC", "SLO"}, {"SFC", "SFO"}, {"S-C", "S-O"}},
        {{"DEC", "DEO"}, {"DLC", "DLO"}, {"DFC", "DFO"}, {"D-C", "D-O"}},
    };
    unsigned backoff = shown->backoff <= FRAME_BACKOFF_FIXED ? shown->backoff : 0;

    return texts[shown->is_deferred][shown->is_retried ? backoff : 3][shown->is_open];
}

enum rc
store_shown(struct store *store, const struct store_shown *shown, size_t count,
            store_reported *done, void *ctx)
{
    struct call *call;
    struct long_arguments arguments;
    char(*ids)[FRAME_UUID_TEXT + 1];
    enum rc rc;

    if (!store->is_up)
        return RC_AGAIN;
    call = call_new(&store->shards[0], ctx);
    call->done.reported = done;
    ids = memory_new((count + 1) * sizeof(*ids));
    long_arguments_init(&arguments, 6 + 3 * count);
    long_argument(&arguments, store->shards[0].stream_key);
    long_argument(&arguments, store->shards[0].prefix);
    long_argument(&arguments, store->delivery.ack_timeout);
    long_argument(&arguments, store->delivery.backoff_base);
    long_argument(&arguments, store->delivery.backoff_cap);
    long_argument(&arguments, store->delivery.retention);
    for (size_t i = 0; i < count; i++) {
        frame_id_text(shown[i].id, ids[i]);
        long_argument(&arguments, how_text(&shown[i]));
        long_argument(&arguments, shown[i].user);
        long_argument(&arguments, ids[i]);
    }
    rc = call_send_long(call, STORE_SCRIPT_shown, 1, on_shown, &arguments);
    free(ids);
    return rc;
}

/* Acknowledgements. */

static void
on_acked(void *ctx, const redisReply *reply)
{
    struct call *call = ctx;
    struct store *store = call->store;
    enum rc rc = RC_IO;

    if (call_succeeded(call->shard, reply, "store acks") && reply_is_array(reply, 2)) {
        stats_add(store->stats, STAT_STORE_ACKS, (uint64_t)reply->element[0]->integer);
        stats_add(store->stats, STAT_STORE_COMPLETED, (uint64_t)reply->element[1]->integer);
        rc = RC_OK;
    }
    call->done.acked(call->ctx, rc);
    free(call);
}

enum rc
store_ack(struct store *store, const struct store_ack *acks, size_t count, store_acked *done,
          void *ctx)
{
    struct call *call;
    struct long_arguments arguments;

    if (!store->is_up)
        return RC_AGAIN;
    call = call_new(&store->shards[0], ctx);
    call->done.acked = done;
    long_arguments_init(&arguments, 4 + 2 * count);
    long_argument(&arguments, store->shards[0].stream_key);
    long_argument(&arguments, store->shards[0].prefix);
    long_argument(&arguments, store->owner);
    long_argument(&arguments, store->delivery.retention);
    for (size_t i = 0; i < count; i++) {
        long_argument(&arguments, acks[i].user);
        long_argument(&arguments, acks[i].id);
    }
    return call_send_long(call, STORE_SCRIPT_ack, 1, on_acked, &arguments);
}

static void
on_nacked(void *ctx, const redisReply *reply)
{
    struct call *call = ctx;
    struct store *store = call->store;
    enum rc rc = RC_IO;

    if (call_succeeded(call->shard, reply, "store nacks") && reply->type == REDIS_REPLY_INTEGER) {
        stats_add(store->stats, STAT_STORE_NACKS, (uint64_t)reply->integer);
        rc = RC_OK;
    }
    call->done.acked(call->ctx, rc);
    free(call);
}

enum rc
store_nack(struct store *store, const char *user, const char *const *ids, size_t count,
           int64_t delay_ms, store_acked *done, void *ctx)
{
    struct call *call;
    struct long_arguments arguments;
    char delay[24];

    if (!store->is_up)
        return RC_AGAIN;
    call = call_new(&store->shards[0], ctx);
    call->done.acked = done;
    snprintf(delay, sizeof(delay), "%" PRId64, delay_ms > 0 ? delay_ms : 0);
    long_arguments_init(&arguments, 7 + count);
    long_argument(&arguments, store->shards[0].stream_key);
    long_argument(&arguments, store->shards[0].prefix);
    long_argument(&arguments, store->delivery.backoff_base);
    long_argument(&arguments, store->delivery.backoff_cap);
    long_argument(&arguments, delay);
    long_argument(&arguments, store->delivery.retention);
    long_argument(&arguments, user);
    for (size_t i = 0; i < count; i++)
        long_argument(&arguments, ids[i]);
    return call_send_long(call, STORE_SCRIPT_nack, 1, on_nacked, &arguments);
}
