/* merge.h: merges pages of several streams by commit order. */
#ifndef CLAIRON_STORE_MERGE_H
#define CLAIRON_STORE_MERGE_H

#include "store/connection/reply.h"
#include "store/entry.h"

/*
 * This is separate from order.c, which merges endless streams and uses the field `after` to detect
 * a missing older notification. Pages are finite, and most notifications that `after` names are not
 * on them. An inbox page also contains retries. This module orders them by their commit, but
 * order.c by their own stream entry. A shared merge would need a mode for each of these rules.
 */

/* A page of stream entries, and the progress of its merge. Points into the reply. */
struct shard_page {
    const struct redisReply *entries; /* entries in stream order */
    const struct history *history;    /* of the server that replied */
    unsigned char shard;
    size_t count;        /* number of entries up to `end` */
    bool is_truncated;   /* the stream may contain more entries after them */
    struct entry_id end; /* later entries are ignored */
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
