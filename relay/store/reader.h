/* reader.h: follows the stream and the control stream of the store as they grow. */
#ifndef CLAIRON_STORE_READER_H
#define CLAIRON_STORE_READER_H

#include "base/config.h"
#include "base/stats.h"
#include "store/entry.h"

struct ev_loop;
struct reader;
struct store;

struct reader_member {
    bool added;
    struct bytes audience;
    struct bytes target;
    struct bytes user;
};

struct reader_events {
    /*
     * Views that die after the call. Of shard 0 and any other, notes come in the order of the
     * commits.
     */
    void (*on_entry)(void *ctx, const struct entry *entry);
    void (*on_member)(void *ctx, const struct reader_member *member);
    /*
     * Acks that another process stored, or pairs that were given up: user and id, user and id ..,
     * as targets.
     */
    void (*on_ack_events)(void *ctx, struct bytes pairs, bool was_acked);
    /*
     * A connection is back, or was read too late: changes of memberships, or acks, may have been
     * missed meanwhile.
     */
    void (*on_resumed)(void *ctx);
    void *ctx;
};

/*
 * Reads nothing before reader_seek. Comes back by itself and goes on where it was. `store` must
 * outlive it.
 */
struct reader *reader_open(struct ev_loop *loop, const struct config *config, struct store *store,
                           struct stats *stats, const struct reader_events *events);
void reader_close(struct reader *reader); /* accepts NULL */

/* From now on, entries after `after`, which holds a place for each shard. */
void reader_seek(struct reader *reader, const struct entry_id *after);

#endif
