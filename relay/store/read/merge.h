/* merge.h: merges pages of several streams by commit order. */
#ifndef CLAIRON_STORE_MERGE_H
#define CLAIRON_STORE_MERGE_H

#include "store/connection/reply.h"
#include "store/position.h"

/*
 * Not shared with order.c. That merges endless streams, and uses the field `after` to detect a
 * missing older entry. Here pages end, and most of the entries that
 * `after` names are not on it. An inbox page also holds retries, which are ordered by their first
 * commit here and by their own entry there. One merge for both would need a mode for each of these
 * rules.
 */

/* A page of one stream's entries, and how far it was merged. Views into the reply. */
struct shard_page {
    const struct redisReply *entries; /* in the stream's order */
    unsigned char shard;
    size_t count;        /* of the entries up to `end` */
    bool is_truncated;   /* the stream may hold more entries after them */
    struct entry_id end; /* later entries do not count */
    size_t next;
    size_t foreign_entries;  /* skipped */
    struct entry_id reached; /* all entries up to here were merged or skipped */
    bool has_entry;
    struct entry entry; /* the next one */
    size_t ahead;       /* shard_pages_next: index of the search for a notification of a commit */
    bool has_position;  /* the search found `position` */
    struct position position;
};

#define SHARD_PAGE_WHOLE ((struct entry_id){UINT64_MAX, UINT64_MAX}) /* no end */

/* A page of the entries after `after`, up to `end`. */
void shard_page_begin(struct shard_page *page, unsigned shard, struct entry_id after,
                      struct entry_id end, const struct redisReply *entries, bool is_truncated);

/*
 * The page with the next entry. Notifications are in commit order. Entries without a commit are
 * ordered by id, as far as commit order allows. NULL: all pages are used up, or a cut page is: the
 * rest of its stream may hold the next entry.
 */
struct shard_page *shard_pages_next(struct shard_page *pages, unsigned count);
void shard_page_advance(struct shard_page *page);

/* The number of entries that were merged or skipped. */
size_t shard_page_seen(const struct shard_page *page);

#endif
