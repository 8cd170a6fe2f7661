/* store.c: opens and closes the store, and returns its state. */
#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/shards/placement.h"
#include "store/shards/replicas.h"
#include "store/shards/store_private.h"

#define STORE_FSYNC_DELAY_US 2000000 /* twice the interval of appendfsync everysec */

unsigned
store_shards(const struct store *store)
{
    return store->shard_count;
}

unsigned
store_shard_of(const struct store *store, const char *user)
{
    return shard_of_user(store->shard_count, user, strlen(user));
}

void
delivery_settings(const struct config *config, struct delivery *ret_delivery)
{
    struct delivery *d = ret_delivery;

    snprintf(d->ack_timeout, sizeof(d->ack_timeout), "%" PRId64, config->delivery.ack_timeout_ms);
    snprintf(d->backoff_base, sizeof(d->backoff_base), "%" PRId64,
             config->delivery.backoff_base_ms);
    snprintf(d->backoff_cap, sizeof(d->backoff_cap), "%" PRId64, config->delivery.backoff_cap_ms);
    snprintf(d->retention, sizeof(d->retention), "%" PRId64, config->store.retention_ms);
    snprintf(d->owner_pairs, sizeof(d->owner_pairs), "%d", config->feed.owner_pairs);
}

static void
free_shards(struct store *store)
{
    for (unsigned k = 0; k < store->shard_count; k++)
        shard_close(&store->shards[k]);
    for (unsigned k = 0; k < store->shard_count; k++)
        shard_free(&store->shards[k]);
    free(store->shards);
    servers_close(store->servers);
}

struct store *
store_open_with(struct ev_loop *loop, const struct config *config, struct stats *stats,
                const struct shard_events *events, struct command *command)
{
    struct store *store = memory_new(sizeof(*store));

    store->loop = loop;
    store->config = config;
    store->stats = stats;
    store->command = command;
    store->min_replicas = config->store.min_replicas;
    shard_random_hex(store->owner, STORE_TOKEN_TEXT);
    delivery_settings(config, &store->delivery);
    store->shard_count = (unsigned)config->store.shards;
    store->topology = topology_of(config);
    store->servers = servers_open(loop, config);
    if (store->servers == NULL) {
        free(store);
        return NULL;
    }
    regroup_open(store);
    store->shards = memory_new(store->shard_count * sizeof(*store->shards));
    for (unsigned k = 0; k < store->shard_count; k++)
        shard_open(&store->shards[k], store, k, config, events);
    return store;
}

struct store *
store_open(struct ev_loop *loop, const struct config *config, struct stats *stats)
{
    return store_open_with(loop, config, stats, &regroup_events, NULL);
}

void
store_close(struct store *store)
{
    if (store == NULL)
        return;
    store->is_up = false; /* callbacks from free_shards must not find a shard */
    replicas_down(store); /* ends a pending wait for replicas */
    regroup_close(store);
    free_shards(store);
    free(store);
}

const char *
store_relay_id(const struct store *store)
{
    return store->owner;
}

const char *
store_epoch(const struct store *store)
{
    return store->epoch;
}

void
store_record_entry(struct store *store, unsigned shard, struct entry_id id)
{
    if (shard < store->shard_count && entry_id_less(store->shards[shard].seen, id))
        store->shards[shard].seen = id;
}

enum rc
store_limit(const struct store *store, unsigned shard, struct entry_id *id)
{
    const struct shard *of = &store->shards[shard];

    return history_translate(&of->former_history, &of->reader_history, id);
}

bool
store_is_read(const struct store *store, unsigned shard)
{
    const struct shard *of = &store->shards[shard];

    return history_current(&of->history) == history_current(&of->reader_history);
}

void
store_record_position(struct store *store, unsigned shard, struct entry_id id, struct position to)
{
    store_record_entry(store, shard, id);
    if (shard < store->shard_count)
        position_raise(&store->shards[shard].seen_position, to);
}

struct position
store_newest_position(const struct store *store, unsigned shard)
{
    return store->newest_position[shard];
}

int64_t
store_fsync_delay_us(const struct store *store)
{
    for (unsigned k = 0; k < store->shard_count; k++) {
        if (!store->shards[k].syncs_always)
            return STORE_FSYNC_DELAY_US;
    }
    return 0;
}

const struct entry_id *
store_newest(const struct store *store)
{
    return store->newest;
}

uint64_t
store_undone_count(const struct store *store)
{
    uint64_t sum = 0;

    for (unsigned k = 0; k < store->shard_count; k++)
        sum += store->shards[k].undone_count;
    return sum;
}

const struct transactions *
store_newest_transactions(const struct store *store, unsigned shard)
{
    return &store->shards[shard].newest_transactions;
}
