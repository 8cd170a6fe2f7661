/* store.c: the store is up while all of its shards are. */
#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "store/shards/maintenance.h"
#include "store/shards/replicas.h"
#include "store/shards/start_position.h"
#include "store/shards/store_private.h"

#define STORE_FSYNC_DELAY_US 2000000 /* twice the interval of everysec */

/* FNV-1a. It must never change: it decides the shard of each user. */
#define FNV_START UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

static uint64_t
hash_bytes(uint64_t hash, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * FNV_PRIME;
    return hash;
}

unsigned
store_shards(const struct store *store)
{
    return store->shard_count;
}

unsigned
shard_of_user(unsigned shard_count, const char *user, size_t len)
{
    if (shard_count == 1)
        return 0;
    return 1 + (unsigned)(hash_bytes(FNV_START, user, len) % (shard_count - 1));
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
}

/* Up and down. */

static void
notify_listeners(struct store *store)
{
    for (struct store_listener *l = store->listeners; l != NULL; l = l->next) {
        if (store->is_up)
            l->on_up(l->ctx);
        else
            l->on_down(l->ctx);
    }
}

static void
update_connected(const struct store *store)
{
    stats_set(store->stats, STAT_STORE_CONNECTED, store->is_up && !store->lacks_reader ? 1 : 0);
}

/* With several shards it changes when the epoch of any shard changes. */
static void
make_epoch(struct store *store)
{
    uint64_t hash = FNV_START ^ store->shard_count;

    if (store->shard_count == 1) {
        memcpy(store->epoch, store->shards[0].epoch, sizeof(store->epoch));
        return;
    }
    for (unsigned k = 0; k < store->shard_count; k++) {
        hash = hash_bytes(hash, store->shards[k].epoch, strlen(store->shards[k].epoch));
        hash = hash_bytes(hash, ":", 1);
    }
    snprintf(store->epoch, sizeof(store->epoch), "%016" PRIx64, hash);
}

static void
come_up(struct store *store)
{
    store->has_begun = true;
    log_info("store", "store connected", LOG_TEXT("epoch", store->epoch));
    store->is_up = true;
    update_connected(store);
    notify_listeners(store);
}

static void
on_shard_up(struct store *store)
{
    for (unsigned k = 0; k < store->shard_count; k++) {
        if (!store->shards[k].is_up)
            return;
    }
    for (unsigned k = 0; k < store->shard_count; k++) {
        store->newest[k] = store->shards[k].seen;
        store->newest_position[k] = store->shards[k].seen_position;
    }
    make_epoch(store);
    if (store->shard_count > 1 && !store->has_begun)
        start_position_find(store, come_up);
    else
        come_up(store);
}

static void
on_shard_down(struct store *store)
{
    if (!store->is_up)
        return;
    store->is_up = false;
    replicas_down(store);
    update_connected(store);
    notify_listeners(store);
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

static const struct shard_events shard_events = {.on_up = on_shard_up, .on_down = on_shard_down};

struct store *
store_open(struct ev_loop *loop, const struct config *config, struct stats *stats)
{
    struct store *store = memory_new(sizeof(*store));

    store->loop = loop;
    store->stats = stats;
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
    store->shards = memory_new(store->shard_count * sizeof(*store->shards));
    for (unsigned k = 0; k < store->shard_count; k++)
        shard_open(&store->shards[k], store, k, config, &shard_events);
    return store;
}

void
store_close(struct store *store)
{
    if (store == NULL)
        return;
    store->is_up = false; /* callbacks called by free_shards must not find a shard */
    replicas_down(store); /* ends a wait for replicas */
    free_shards(store);
    free(store);
}

void
store_listen(struct store *store, struct store_listener *listener)
{
    listener->next = store->listeners;
    store->listeners = listener;
}

const char *
store_relay_id(const struct store *store)
{
    return store->owner;
}

bool
store_is_up(const struct store *store)
{
    for (unsigned k = 0; store->is_up && k < store->shard_count; k++) {
        if (!link_is_up(store->shards[k].link))
            return false;
    }
    return store->is_up;
}

bool
store_is_serving(const struct store *store)
{
    return store_is_up(store) && !store->lacks_reader;
}

void
store_set_reader_follows(struct store *store, bool follows)
{
    store->lacks_reader = !follows;
    update_connected(store);
}

bool
store_rejects_heartbeats(const struct store *store)
{
    for (unsigned k = 0; store_is_up(store) && k < store->shard_count; k++) {
        if (maintenance_is_rejected(store->shards[k].maintenance))
            return true;
    }
    return false;
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

void
store_newest_transactions(const struct store *store, unsigned shard,
                          struct transaction ret_newest[STORE_NEWEST_TRANSACTIONS])
{
    ret_newest[0] = store->shards[shard].newest_notified;
    ret_newest[1] = store->shards[shard].newest_change;
}
