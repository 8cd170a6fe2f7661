/* merge.c: what several streams answered, as one row of entries. */
#include "store/read/merge.h"

/* What is no notification of ours is passed over. */
static void
pass_over(struct strand *strand, const struct redisReply *element)
{
    struct bytes id = {NULL, 0};
    struct entry_id read;

    strand->strays++;
    if (reply_is_array(element, 1))
        id = reply_bytes(reply_at(element, 0));
    if (id.at != NULL && entry_id_read((const char *)id.at, id.len, &read) == RC_OK)
        strand->reached = read;
}

/* Streams grow while they are read. */
static bool
is_beyond(const struct strand *strand, const struct redisReply *element)
{
    struct bytes id = {NULL, 0};
    struct entry_id read;

    if (reply_is_array(element, 1))
        id = reply_bytes(reply_at(element, 0));
    return id.at != NULL && entry_id_read((const char *)id.at, id.len, &read) == RC_OK &&
           entry_id_less(strand->end, read);
}

/* What is beyond the end is as if it were not there. */
static void
cut_at_end(struct strand *strand)
{
    while (strand->count > 0 && is_beyond(strand, reply_at(strand->entries, strand->count - 1))) {
        strand->count--;
        strand->is_cut = false;
    }
}

static void
look_on(struct strand *strand)
{
    strand->has_entry = false;
    while (!strand->has_entry && strand->next < strand->count) {
        const struct redisReply *element = reply_at(strand->entries, strand->next++);

        strand->has_entry = reply_entry(element, &strand->entry) == RC_OK;
        if (!strand->has_entry)
            pass_over(strand, element);
    }
    strand->entry.shard = strand->shard;
}

void
strand_begin(struct strand *strand, unsigned shard, struct entry_id after, struct entry_id end,
             const struct redisReply *entries, bool is_cut)
{
    *strand = (struct strand){.entries = entries,
                              .count = reply_count(entries),
                              .shard = (unsigned char)shard,
                              .is_cut = is_cut,
                              .end = end,
                              .reached = after};
    cut_at_end(strand);
    look_on(strand);
}

void
strand_take(struct strand *strand)
{
    strand->reached = strand->entry.id;
    look_on(strand);
}

/* Finds the next note from a commit, from the strand's entry on. */
static void
look_ahead(struct strand *strand)
{
    struct entry entry;

    if (strand->ahead >= strand->next)
        return; /* it is still to come, or there is none */
    strand->has_note = false;
    for (strand->ahead = strand->next; strand->ahead <= strand->count; strand->ahead++) {
        if (reply_entry(reply_at(strand->entries, strand->ahead - 1), &entry) != RC_OK ||
            entry.frame.commit_lsn == 0)
            continue;
        strand->has_note = true;
        strand->note = (struct position){entry.frame.commit_lsn, entry.frame.ordinal};
        return;
    }
}

/* Its next note is the older one, or may be. */
static bool
leads(const struct strand *a, const struct strand *b)
{
    bool a_may = !a->has_note && a->is_cut, b_may = !b->has_note && b->is_cut;

    if (a_may != b_may)
        return a_may;
    if (!a_may && a->has_note != b->has_note)
        return a->has_note;
    if (a->has_note && b->has_note)
        return position_less(a->note, b->note);
    return entry_id_less(a->entry.id, b->entry.id);
}

struct strand *
strands_next(struct strand *strands, unsigned count)
{
    struct strand *first = NULL, *next;

    if (count == 1)
        return strands->has_entry ? strands : NULL;
    for (unsigned i = 0; i < count; i++) {
        struct strand *strand = &strands[i];

        if (!strand->has_entry && strand->is_cut)
            return NULL;
        if (!strand->has_entry)
            continue;
        look_ahead(strand);
        if (first == NULL || leads(strand, first))
            first = strand;
    }
    next = first;
    for (unsigned i = 0; i < count; i++) {
        struct strand *strand = &strands[i];

        if (strand->has_entry && strand->entry.frame.commit_lsn == 0 &&
            entry_id_less(strand->entry.id, next->entry.id))
            next = strand;
    }
    return next;
}

size_t
strand_seen(const struct strand *strand)
{
    return strand->next - (strand->has_entry ? 1 : 0);
}
