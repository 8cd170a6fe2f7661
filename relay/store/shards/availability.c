/* availability.c: the current capabilities of the store. */
#include "store/availability.h"

#include <string.h>

#include "store/shards/maintenance.h"
#include "store/shards/placement.h"
#include "store/shards/store_private.h"

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

void
store_update_connected(const struct store *store)
{
    stats_set(store->stats, STAT_STORE_CONNECTED, store->is_up && has_reader(store) ? 1 : 0);
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
    store_update_connected(store);
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
