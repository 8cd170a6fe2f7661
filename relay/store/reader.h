/* reader.h: follows the streams of the store: notifications, acks, memberships, reloads. */
#ifndef CLAIRON_STORE_READER_H
#define CLAIRON_STORE_READER_H

#include "base/config.h"
#include "base/stats.h"
#include "store/entry.h"

struct cutoff;
struct ev_loop;
struct reader;
struct store;

struct reader_member {
    bool added;
    uint64_t xid; /* transaction of the change; 0: unknown */
    struct bytes audience;
    struct bytes target;
    struct bytes user;
};

/* The rows of a live rule changed without notifications. */
struct reader_reload {
    uint64_t xid;     /* transaction of the change; 0: unknown */
    int64_t added_us; /* time when it was added, by the store's wall clock */
    struct bytes source;
    struct bytes rule; /* empty: all rules of the source */
};

/* A shard whose following has started. */
struct reader_followed {
    unsigned shard;
    struct entry_id newest; /* stream entries up to this id were not read */
    uint64_t early_lsn; /* what was read up to here may precede earlier notifications; 0: none */
    struct transactions notified; /* the newest transactions with a notification up to `newest` */
};

/*
 * All stream entries of a shard that were delivered before are those of the WAL before `lsn`, of
 * this timeline. Positions of different timelines are not comparable.
 */
struct reader_covered {
    uint64_t lsn; /* 0: unknown */
    uint32_t timeline;
};

struct reader_events {
    /*
     * The stream entry is valid during the call. Shard 0 and any other shard are merged in commit
     * order.
     */
    void (*on_entry)(void *ctx, const struct entry *entry);
    void (*on_member)(void *ctx, const struct reader_member *member);
    /* NULL: any rule may have been reloaded, because reloads may have been missed. */
    void (*on_reload)(void *ctx, const struct reader_reload *reload);
    void (*on_cutoff)(void *ctx, const struct cutoff *cutoff);
    /*
     * A user was removed from the store: the hash of the name (audit_hash). `added_us`: when, wall
     * clock, if it was read after an outage, and may have been read before; otherwise 0.
     */
    void (*on_forgotten)(void *ctx, struct bytes hash, int64_t added_us);
    /*
     * Pairs that ended: other processes stored their acks; or they expired, were exhausted or
     * dropped. User, id, user, id ... encoded as targets.
     */
    void (*on_acked_pairs)(void *ctx, struct bytes pairs);
    void (*on_gone_pairs)(void *ctx, struct bytes pairs);
    /*
     * The shard has another history (struct history). Translate all ids of the shard by
     * store_translate_id before its next stream entry. `newest_lsn`: of what was delivered of all
     * shards, or stored before the start; 0 with one shard.
     */
    void (*on_history)(void *ctx, unsigned shard, uint64_t newest_lsn);
    /* Stream entries up to `reached` were trimmed before all of them were read. */
    void (*on_trimmed)(void *ctx, unsigned shard, struct entry_id reached);
    /* After a reconnect or a trimmed stream: memberships, acks or cut-offs may have been missed. */
    void (*on_resumed)(void *ctx);
    /* After reader_follow: later stream entries of the shard and of shard 0 are in commit order. */
    void (*on_followed)(void *ctx, const struct reader_followed *followed);
    /* What was reported before on_history, on_trimmed and reader_seek does not count (cover.c). */
    void (*on_covered)(void *ctx, unsigned shard, const struct reader_covered *covered);
    void *ctx;
};

/*
 * Reads nothing before reader_seek. Reconnects and resumes automatically. `store` must outlive it.
 */
struct reader *reader_open(struct ev_loop *loop, const struct config *config, struct store *store,
                           struct stats *stats, const struct reader_events *events);
void reader_close(struct reader *reader); /* accepts NULL */

/* Reads the stream entries after `after`, which contains an id for each shard. */
void reader_seek(struct reader *reader, const struct entry_id *after);

/* Call it when the store has gone up: reads the followed shards that were not up before. */
void reader_resume(struct reader *reader);

/*
 * In a cluster, shards other than shard 0 are read only while they are followed; on a single server
 * all are read. A reader_follow before the first reader_seek takes effect after it.
 */
void reader_follow(struct reader *reader, unsigned shard);
void reader_unfollow(struct reader *reader, unsigned shard);
bool reader_follows(const struct reader *reader, unsigned shard);

#endif
