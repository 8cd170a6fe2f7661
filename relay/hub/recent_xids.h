/* recent_xids.h: the transactions that the rows of a client must contain. */
#ifndef CLAIRON_HUB_RECENT_XIDS_H
#define CLAIRON_HUB_RECENT_XIDS_H

#include <stdbool.h>
#include <stdint.h>

#include "store/entry.h"
#include "wire/snapshot.h"

#define RECENT_XIDS_MAX 4096
#define RECENT_XIDS_EARLIER_MAX (UINT64_C(1) << 20) /* number of ids */
/*
 * A transaction becomes visible within this time after its commit record, or never, if a failover
 * has lost it. With synchronous replication, a commit becomes visible when the standby has
 * confirmed it.
 */
#define RECENT_XIDS_AGE_US (600 * INT64_C(1000000))

/* A transaction, and its first notification in a shard. */
struct recent_xid {
    uint64_t xid;
    struct entry_id id;  /* 0-0: no notification, but all clients depend on it */
    int64_t commit_us;   /* commit time; wall clock */
    unsigned char shard; /* shard of the notification */
};

/*
 * PostgreSQL sends a commit to the feed before new snapshots contain it. So a client may have
 * received a change that rows read afterwards do not contain. A client whose cursor is past the
 * notification never receives it again, so the client's rows must contain the transaction.
 * Initially zeroed.
 *
 * A full ring drops its oldest transaction. After a restart the ring is empty: then the last
 * transactions in the store are added as earlier transactions. All snapshots must contain the
 * earlier transactions with the last RECENT_XIDS_EARLIER_MAX ids: a commit that waits for a
 * synchronous standby may remain invisible for a long time while thousands of other commits become
 * visible.
 */
struct recent_xids {
    struct recent_xid *items; /* ring */
    unsigned first;
    unsigned count;
    struct recent_xid greatest; /* earlier transaction with the greatest id; xid 0: none */
    struct recent_xid newest;   /* earlier transaction with the latest commit_us */
    /* bitmap of earlier ids, indexed by the low bits of an id; NULL: none */
    uint64_t *earlier;
};

/*
 * Adds a transaction unless it is known. An xid of 0 is ignored. If the ring is full, its oldest
 * transaction becomes an earlier transaction.
 */
void recent_xids_add(struct recent_xids *recent, const struct recent_xid *item);

/*
 * Adds a transaction whose notifications may precede all cursors. An xid of 0 is ignored.
 * commit_us: wall clock.
 */
void recent_xids_add_earlier(struct recent_xids *recent, uint64_t xid, int64_t commit_us);

/*
 * True if the snapshot contains all known transactions that have a notification before the cursor,
 * in the shared stream or in shard `own`. now_us: wall clock.
 */
bool recent_xids_are_in(const struct recent_xids *recent, struct cursor cursor, unsigned own,
                        const struct snapshot *snapshot, int64_t now_us);

/*
 * Call it in a new epoch, in which the ids are invalid and all cursors are past these
 * notifications.
 */
void recent_xids_clear_ids(struct recent_xids *recent);

void recent_xids_free(struct recent_xids *recent);

#endif
