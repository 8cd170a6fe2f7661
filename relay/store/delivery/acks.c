/* acks.c: stores positive and negative acknowledgements. Each shard ignores ids of other shards. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/store_private.h"

struct ack {
    struct shard_request request;
    store_acked *done;
    void *ctx;
};

static struct ack *
ack_new(struct store *store, const struct shard_request_kind *kind, store_acked *done, void *ctx)
{
    struct ack *ack = shard_request_new(sizeof(*ack), store, kind);

    ack->done = done;
    ack->ctx = ctx;
    return ack;
}

static void
finish_acks(struct shard_request *request, enum rc rc)
{
    const struct ack *ack = (struct ack *)request;

    ack->done(ack->ctx, rc);
}

static bool
on_ack_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct stats *stats = request->store->stats;

    (void)shard;
    if (!reply_is_array(reply, 2))
        return false;
    stats_add(stats, STAT_STORE_ACKS, (uint64_t)reply_integer(reply_at(reply, 0)));
    stats_add(stats, STAT_STORE_COMPLETED, (uint64_t)reply_integer(reply_at(reply, 1)));
    return true;
}

static const struct shard_request_kind ack_kind = {
    .failure = "could not store acknowledgements", .on_reply = on_ack_reply, .finish = finish_acks};

static bool
may_be_of(const struct store *store, const struct store_ack *ack, unsigned shard)
{
    if (ack->shard >= 0 && (unsigned)ack->shard < store->shard_count)
        return (unsigned)ack->shard == shard;
    return shard == 0 || store_shard_of(store, ack->user) == shard;
}

bool
store_acks_wait(const struct store *store, const struct store_ack *ack)
{
    for (unsigned k = 0; k < store->shard_count; k++) {
        if (store->shards[k].is_unavailable && may_be_of(store, ack, k))
            return true;
    }
    return false;
}

/* The number of leading acks that have the same user. */
static size_t
count_same_user(const struct store_ack *acks, size_t count)
{
    size_t row = 1;

    while (row < count && strcmp(acks[row].user, acks[0].user) == 0)
        row++;
    return row;
}

static int
compare_users(const void *a, const void *b)
{
    return strcmp(((const struct store_ack *)a)->user, ((const struct store_ack *)b)->user);
}

/* Sorts the acks, because ack.lua reads each user once, followed by the ids. */
static void
send_acks(struct ack *ack, struct shard *shard, struct store_ack *acks, size_t count)
{
    const struct store *store = shard->store;
    struct arguments arguments = {.argc = 0};
    char(*rows)[24] = memory_new((count + 1) * sizeof(*rows));
    size_t users = 0;

    qsort(acks, count, sizeof(*acks), compare_users);
    for (size_t at = 0; at < count; at += count_same_user(acks + at, count - at))
        users++;
    snprintf(rows[count], sizeof(rows[count]), "%zu", users);
    shard_arguments(shard, &arguments);
    argument(&arguments, store->owner);
    argument(&arguments, store->delivery.retention);
    argument(&arguments, rows[count]);
    for (size_t at = 0, row; at < count; at += row) {
        row = count_same_user(acks + at, count - at);
        snprintf(rows[at], sizeof(rows[at]), "%zu", row);
        argument(&arguments, acks[at].user);
        argument(&arguments, rows[at]);
    }
    for (size_t i = 0; i < count; i++)
        argument(&arguments, acks[i].id);
    shard_request_send_script(&ack->request, shard, STORE_SCRIPT_ack, 1, &arguments);
    free(rows);
}

enum rc
store_ack(struct store *store, const struct store_ack *acks, size_t count, store_acked *done,
          void *ctx)
{
    struct store_ack *mine;
    struct ack *ack;

    if (!store->is_up)
        return RC_AGAIN;
    ack = ack_new(store, &ack_kind, done, ctx);
    mine = memory_new((count + 1) * sizeof(*mine));
    for (unsigned k = 0; k < store->shard_count; k++) {
        size_t mine_count = 0;

        for (size_t i = 0; i < count; i++) {
            if (may_be_of(store, &acks[i], k))
                mine[mine_count++] = acks[i];
        }
        if (mine_count > 0)
            send_acks(ack, &store->shards[k], mine, mine_count);
    }
    free(mine);
    return shard_request_await(&ack->request);
}

static bool
on_nack_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    (void)shard;
    if (!reply_is_integer(reply))
        return false;
    stats_add(request->store->stats, STAT_STORE_NACKS, (uint64_t)reply_integer(reply));
    return true;
}

static const struct shard_request_kind nack_kind = {.failure =
                                                        "could not store negative acknowledgements",
                                                    .on_reply = on_nack_reply,
                                                    .finish = finish_acks};

enum rc
store_nack(struct store *store, const char *user, const char *const *ids, size_t count,
           int64_t delay_ms, store_acked *done, void *ctx)
{
    const struct delivery *delivery = &store->delivery;
    unsigned own = store_shard_of(store, user);
    struct ack *ack;
    char delay[24];

    if (!store_serves(store, user))
        return RC_AGAIN;
    ack = ack_new(store, &nack_kind, done, ctx);
    snprintf(delay, sizeof(delay), "%" PRId64, delay_ms > 0 ? delay_ms : 0);
    for (unsigned k = 0; k <= own; k += own > 0 ? own : 1) {
        struct arguments arguments = {.argc = 0};

        shard_arguments(&store->shards[k], &arguments);
        argument(&arguments, delivery->backoff_base);
        argument(&arguments, delivery->backoff_cap);
        argument(&arguments, delay);
        argument(&arguments, delivery->retention);
        argument(&arguments, user);
        for (size_t i = 0; i < count; i++)
            argument(&arguments, ids[i]);
        shard_request_send_script(&ack->request, &store->shards[k], STORE_SCRIPT_nack, 1,
                                  &arguments);
    }
    return shard_request_await(&ack->request);
}
