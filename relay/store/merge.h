/* merge.h: what several streams answered, as one row of entries. */
#ifndef CLAIRON_STORE_MERGE_H
#define CLAIRON_STORE_MERGE_H

#include "store/reply.h"

/* One stream's answer, and how far it was taken. Views, as long as the answer lives. */
struct strand {
    const redisReply *entries; /* in the stream's order */
    unsigned char shard;
    bool is_cut; /* the stream may hold more behind them */
    size_t next;
    size_t strays;           /* of those looked at, that are no notifications of ours */
    struct entry_id reached; /* all up to here was taken, or is a stray */
    bool has_entry;
    struct entry entry; /* the next to take */
};

/* An answer to what comes after `after`. */
void strand_begin(struct strand *strand, unsigned shard, struct entry_id after,
                  const redisReply *entries, bool is_cut);

/*
 * The one whose entry is next: that of the oldest commit, as far as both come from one, else the
 * oldest by its id. NULL when there is none, or none is known to be: the stream that was cut, and
 * is used up, may hold it.
 */
struct strand *strands_next(struct strand *strands, unsigned count);
void strand_take(struct strand *strand);

/* How many of its entries were looked at for good. */
size_t strand_seen(const struct strand *strand);

#endif
