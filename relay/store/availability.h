/* availability.h: whether the store is up, and with which shards. */
#ifndef CLAIRON_STORE_AVAILABILITY_H
#define CLAIRON_STORE_AVAILABILITY_H

#include <stdbool.h>

struct store;

/*
 * Called when the store goes up or down. The caller owns the struct, which must outlive the store.
 */
struct store_listener {
    void (*on_up)(void *ctx);
    void (*on_down)(void *ctx);
    void *ctx;
    struct store_listener *next; /* set by the store */
};

void store_listen(struct store *store, struct store_listener *listener);
bool store_is_up(const struct store *store);

/*
 * In a cluster the store may be up without some of its shards. The users of these shards wait, and
 * the feed's batches omit their notifications.
 */
bool store_is_complete(const struct store *store);
/*
 * Shard 0 stores memberships, tickets and idempotency keys. Without shard 0, only live sessions
 * continue, and they receive only notifications of their users' shards.
 */
bool store_has_shared(const struct store *store);
/* True if the store is up, including shard 0 and this user's shard. */
bool store_serves(const struct store *store, const char *user);

/*
 * True if the store is up with shard 0, and so is this process's reader, if any. Clients can then
 * connect and receive notifications.
 */
bool store_is_serving(const struct store *store);
/* True if the store has contained the progress of a slot since a shard was prepared. */
bool store_has_progress(const struct store *store);
/*
 * Called by the reader when one of its connections starts or stops following its shards
 * (topology.h).
 */
void store_set_reader_follows(struct store *store, unsigned connection, bool follows);

/*
 * True if the store replies but rejects heartbeats, because it is full: blocked readers then
 * receive no data.
 */
bool store_rejects_heartbeats(const struct store *store);

#endif
