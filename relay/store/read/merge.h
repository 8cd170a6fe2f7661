/* merge.h: what several streams answered, as one row of entries. */
#ifndef CLAIRON_STORE_MERGE_H
#define CLAIRON_STORE_MERGE_H

#include "store/connection/reply.h"
#include "store/position.h"

/* One stream's answer, and how far it was taken. Views, as long as the answer lives. */
struct strand {
    const struct redisReply *entries; /* in the stream's order */
    unsigned char shard;
    size_t count;        /* of them that count */
    bool is_cut;         /* the stream may hold more behind them */
    struct entry_id end; /* of what counts */
    size_t next;
    size_t strays;           /* of those looked at, that are no notifications of ours */
    struct entry_id reached; /* all up to here was taken, or is a stray */
    bool has_entry;
    struct entry entry; /* the next to take */
    size_t ahead;       /* strands_next's: where it has looked for the next note from a commit, */
    bool has_note;      /* .. and found this one */
    struct position note;
};

#define STRAND_WHOLE ((struct entry_id){UINT64_MAX, UINT64_MAX}) /* all counts */

/* An answer to what comes after `after`; what comes after `end` does not count. */
void strand_begin(struct strand *strand, unsigned shard, struct entry_id after, struct entry_id end,
                  const struct redisReply *entries, bool is_cut);

/*
 * The one whose entry is next: notes go in the order of their commits, what comes from none by its
 * id, as far as that allows. NULL when there is none, or none is known to be: the stream that was
 * cut, and is used up, may hold it.
 */
struct strand *strands_next(struct strand *strands, unsigned count);
void strand_take(struct strand *strand);

/* How many of its entries were looked at for good. */
size_t strand_seen(const struct strand *strand);

#endif
