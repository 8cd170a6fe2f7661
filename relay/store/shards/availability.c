/*
 * availability.c: whether the store is up, and with which of its shards.
 *
 * The store is up while all of its shards are up. In a cluster it comes up without shards that have
 * not replied for three seconds, or wait for their keys (place.h): PostgreSQL retains the WAL with
 * their notifications until they return. At the start all shards are required.
 */
#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "store/servers/topology.h"
#include "store/shards/maintenance.h"
#include "store/shards/placement.h"
#include "store/shards/replicas.h"
#include "store/shards/start_position.h"
#include "store/shards/store_private.h"

/*
 * The time for which commit order makes notifications wait for another shard (reader_deliver.c). A
 * planned failover or a slot migration is shorter, and users notice only a pause.
 */
#define REGROUP_AFTER_S 3.0
#define REGROUP_TOGETHER_S 0.5 /* the shards of a node fail and return together */

void
store_listen(struct store *store, struct store_listener *listener)
{
    listener->next = store->listeners;
    store->listeners = listener;
}

static bool
has_reader(const struct store *store)
{
    for (unsigned c = 0; c < store->topology.connections; c++) {
        if (store->shards[c].lacks_reader && !store->shards[c].is_unavailable)
            return false;
    }
    return true;
}

static void
update_connected(const struct store *store)
{
    stats_set(store->stats, STAT_STORE_CONNECTED, store->is_up && has_reader(store) ? 1 : 0);
}

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

static unsigned
count_down(const struct store *store)
{
    unsigned count = 0;

    for (unsigned k = 0; k < store->shard_count; k++)
        count += !store->shards[k].is_up;
    return count;
}

/* With several shards, the store's epoch changes when the epoch of any shard changes. */
static void
make_epoch(struct store *store)
{
    uint64_t hash = PLACEMENT_HASH_START ^ store->shard_count;

    if (store->shard_count == 1) {
        memcpy(store->epoch, store->shards[0].epoch, sizeof(store->epoch));
        return;
    }
    for (unsigned k = 0; k < store->shard_count; k++) {
        hash = placement_hash(hash, store->shards[k].epoch, strlen(store->shards[k].epoch));
        hash = placement_hash(hash, ":", 1);
    }
    snprintf(store->epoch, sizeof(store->epoch), "%016" PRIx64, hash);
}

static void
log_unavailable(const struct store *store)
{
    char list[SHARD_LIST_MAX] = "";

    for (unsigned k = 0; k < store->shard_count; k++) {
        if (store->shards[k].is_unavailable)
            shard_list_add(list, k);
    }
    if (list[0] != '\0')
        log_warn("store", "shards are unavailable: storing and delivering without them",
                 LOG_TEXT("shards", list),
                 LOG_TEXT("hint", "PostgreSQL retains WAL until they are available again"));
}

static void
go_up(struct store *store)
{
    store->has_begun = true;
    log_info("store", "store connected", LOG_TEXT("epoch", store->epoch));
    log_unavailable(store);
    store->is_up = true;
    update_connected(store);
    notify_listeners(store);
}

static void
go_down(struct store *store)
{
    store->is_up = false;
    replicas_down(store);
    update_connected(store);
    notify_listeners(store);
}

/* Goes up with the available shards. Listeners see each change of the set as down, then up. */
static void
regroup(struct store *store)
{
    ev_timer_stop(store->loop, &store->regroup);
    if (store->is_up)
        go_down(store);
    for (unsigned k = 0; k < store->shard_count; k++) {
        struct shard *shard = &store->shards[k];

        shard->is_unavailable = !shard->is_up;
        store->newest[k] = shard->seen;
        store->newest_position[k] = shard->seen_position;
    }
    make_epoch(store);
    if (store->shard_count > 1 && !store->has_begun)
        start_position_find(store, go_up);
    else
        go_up(store);
}

static bool
is_grouped(const struct store *store)
{
    for (unsigned k = 0; k < store->shard_count; k++) {
        if (store->shards[k].is_unavailable == store->shards[k].is_up)
            return false;
    }
    return store->is_up;
}

static void
on_regroup(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct store *store = timer->data;

    (void)events;
    ev_timer_stop(loop, timer);
    /* If all shards are down, the return of a shard restarts the timer. */
    if (count_down(store) < store->shard_count && !is_grouped(store))
        regroup(store);
}

/* On a single server all shards are up or down together. */
static void
regroup_later(struct store *store, double after_s)
{
    if (!store->has_begun || !store->topology.is_cluster || ev_is_active(&store->regroup))
        return;
    ev_timer_set(&store->regroup, after_s > REGROUP_TOGETHER_S ? after_s : REGROUP_TOGETHER_S, 0.0);
    ev_timer_start(store->loop, &store->regroup);
}

static void
on_shard_up(struct shard *shard)
{
    struct store *store = shard->store;
    const unsigned down = count_down(store);

    stats_set(store->stats, STAT_STORE_UNAVAILABLE, down);
    if (down == 0)
        regroup(store);
    else
        regroup_later(store, REGROUP_TOGETHER_S);
}

static void
on_shard_down(struct shard *shard)
{
    struct store *store = shard->store;

    stats_set(store->stats, STAT_STORE_UNAVAILABLE, count_down(store));
    if (shard->is_unavailable)
        return;
    if (store->is_up)
        go_down(store);
    regroup_later(store, REGROUP_AFTER_S - link_was_silent_s(shard->link));
}

const struct shard_events regroup_events = {.on_up = on_shard_up, .on_down = on_shard_down};

void
regroup_open(struct store *store)
{
    ev_timer_init(&store->regroup, on_regroup, 0.0, 0.0);
    store->regroup.data = store;
}

void
regroup_close(struct store *store)
{
    ev_timer_stop(store->loop, &store->regroup);
}

bool
store_is_up(const struct store *store)
{
    for (unsigned k = 0; store->is_up && k < store->shard_count; k++) {
        if (!store->shards[k].is_unavailable && !link_is_up(store->shards[k].link))
            return false;
    }
    return store->is_up;
}

bool
store_is_complete(const struct store *store)
{
    for (unsigned k = 0; k < store->shard_count; k++) {
        if (store->shards[k].is_unavailable)
            return false;
    }
    return true;
}

bool
store_has_shared(const struct store *store)
{
    return store->is_up && !store->shards[0].is_unavailable;
}

bool
store_serves(const struct store *store, const char *user)
{
    const unsigned own = shard_of_user(store->shard_count, user, strlen(user));

    return store_has_shared(store) && !store->shards[own].is_unavailable;
}

bool
store_is_serving(const struct store *store)
{
    return store_is_up(store) && store_has_shared(store) && has_reader(store);
}

bool
store_has_progress(const struct store *store)
{
    return store->has_progress;
}

void
store_set_reader_follows(struct store *store, unsigned connection, bool follows)
{
    store->shards[connection].lacks_reader = !follows;
    update_connected(store);
}

bool
store_rejects_heartbeats(const struct store *store)
{
    for (unsigned k = 0; store_is_up(store) && k < store->shard_count; k++) {
        if (!store->shards[k].is_unavailable &&
            maintenance_is_rejected(store->shards[k].maintenance))
            return true;
    }
    return false;
}
