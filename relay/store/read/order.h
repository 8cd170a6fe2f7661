/* order.h: merges the streams of several shards in commit order: endless streams, and pages. */
#ifndef CLAIRON_STORE_ORDER_H
#define CLAIRON_STORE_ORDER_H

#include "store/connection/reply.h"
#include "store/entry.h"

/*
 * Each user reads at most two shards, shard 0 and the shard of the user, and receives their
 * notifications in commit order. A notification waits while the other shard has an older
 * undelivered notification: either the head of that shard's queue, or a notification that the field
 * `after` names and that was not added yet (shard_dependency_text). Retries and stream entries
 * without a commit wait only for earlier entries of the same stream. Finite pages follow the
 * same rules (shard_pages_next).
 */
struct order;

typedef void order_deliver(void *ctx, const struct entry *entry); /* valid during the call */

struct order *order_new(unsigned shards, order_deliver *deliver, void *ctx);
void order_free(struct order *order); /* accepts NULL */

/*
 * Drops all stream entries. Notifications of shard k up to stored[k] were already delivered.
 * has_changed[k]: shard k was emptied or rewound, so no notification waits for its earlier
 * positions.
 */
void order_begin(struct order *order, const struct position *stored, const bool *has_changed);

/* Drops the shard's undelivered stream entries, which are read again. */
void order_rewind(struct order *order, unsigned shard);

/* Drops the shard's stream entries. Other shards no longer wait for it. Not for shard 0. */
void order_leave(struct order *order, unsigned shard);
/*
 * Reverses order_leave. The stream is now read from a later entry on. Notifications of the shard up
 * to `stored` were not read, and their field `after` names notifications of shard 0 up to `after`.
 */
void order_join(struct order *order, unsigned shard, struct position stored, struct position after);
/*
 * True if commit order applies to the shard: all further entries of the shard and of shard 0 are
 * later than all entries that were delivered, or stored before order_join.
 */
bool order_has_joined(const struct order *order, unsigned shard);

/* Adds a reply with new entries of a shard's stream. The reply must live until order_release. */
void order_add(struct order *order, unsigned shard, const struct redisReply *entries);

/* Delivers all stream entries that are ready, and copies all other entries. */
void order_release(struct order *order, int64_t now_us);

/*
 * Finds a shard for which other shards have been waiting since `before_us` or longer. These shards
 * stop waiting until the shard adds a notification; the next order_release delivers their
 * notifications. Returns the shard, or -1 if there is none. Call the function until it returns -1.
 */
int order_skip_overdue(struct order *order, int64_t before_us);

/*
 * Returns the position up to which all notifications of the shard were added, or skipped after a
 * timeout.
 */
struct position order_seen(const struct order *order, unsigned shard);
/* True if the shard has enough stream entries in memory, so no more should be read. */
bool order_is_full(const struct order *order, unsigned shard);
/* True if a notification waits for an unread entry of the shard, which is then read regardless. */
bool order_is_awaited(const struct order *order, unsigned shard);
/* True if a notification waits for another shard. */
bool order_waits(const struct order *order);

/* Counts the shard's foreign entries, which are not notifications, since the last call. */
size_t order_foreign_entries(struct order *order, unsigned shard);
/* Counts the notifications that were delivered without their dependencies since the last call. */
size_t order_unordered(struct order *order);

/*
 * The merge of finite pages. It is separate from struct order, which uses the field `after` to
 * detect a missing older notification: most notifications that `after` names are not on a page. An
 * page of a pending list also contains retries. They are ordered by their commit, but in struct
 * order by their own stream entry. A shared merge would need a mode for each of these rules.
 */

/* A page of stream entries, and the progress of its merge. Points into the reply. */
struct shard_page {
    const struct redisReply *entries; /* entries in stream order */
    const struct history *history;    /* of the server that replied */
    unsigned char shard;
    size_t count;      /* number of entries up to `end` */
    bool is_truncated; /* the stream may contain more entries after them */
    size_t next;
    size_t foreign_entries;  /* number of skipped foreign entries */
    struct entry_id reached; /* all entries up to this id were merged or skipped */
    bool has_entry;
    struct entry entry; /* the next entry to merge */
    /* shard_pages_next: index where the search for a notification with a commit stopped */
    size_t ahead;
    bool has_position; /* the search found `position` */
    struct position position;
};

#define SHARD_PAGE_WHOLE ((struct entry_id){UINT64_MAX, UINT64_MAX}) /* no end */

/*
 * Begins a page of the stream entries after `after`, up to `end`. `entries` is the reply, `history`
 * that of the server.
 */
void shard_page_begin(struct shard_page *page, unsigned shard, const struct history *history,
                      struct entry_id after, struct entry_id end, const struct redisReply *entries,
                      bool is_truncated);

/*
 * Returns the page with the next stream entry. Notifications are in commit order. Entries without a
 * commit are ordered by id, as far as commit order allows. NULL: all pages are used up, or a
 * truncated page is used up whose stream may contain the next entry.
 */
struct shard_page *shard_pages_next(struct shard_page *pages, unsigned count);
void shard_page_advance(struct shard_page *page);

/* Returns the number of stream entries that were merged or skipped. */
size_t shard_page_seen(const struct shard_page *page);

#endif
