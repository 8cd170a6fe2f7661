/* merge.c: what several streams answered, as one row of entries. */
#include "store/merge.h"

/* What is no notification of ours is passed over. */
static void
pass_over(struct strand *strand, const redisReply *element)
{
    struct bytes id = {NULL, 0};
    struct entry_id read;

    strand->strays++;
    if (reply_is_array(element, 1))
        id = reply_bytes(element->element[0]);
    if (id.at != NULL && entry_id_read((const char *)id.at, id.len, &read) == RC_OK)
        strand->reached = read;
}

static void
look_on(struct strand *strand)
{
    strand->has_entry = false;
    while (!strand->has_entry && strand->next < strand->entries->elements) {
        const redisReply *element = strand->entries->element[strand->next++];

        strand->has_entry = reply_entry(element, &strand->entry) == RC_OK;
        if (!strand->has_entry)
            pass_over(strand, element);
    }
    strand->entry.shard = strand->shard;
}

void
strand_begin(struct strand *strand, unsigned shard, struct entry_id after,
             const redisReply *entries, bool is_cut)
{
    *strand = (struct strand){
        .entries = entries, .shard = (unsigned char)shard, .is_cut = is_cut, .reached = after};
    look_on(strand);
}

void
strand_take(struct strand *strand)
{
    strand->reached = strand->entry.id;
    look_on(strand);
}

static bool
goes_before(const struct entry *a, const struct entry *b)
{
    const struct frame *x = &a->frame, *y = &b->frame;

    if (x->commit_lsn == 0 || y->commit_lsn == 0)
        return entry_id_less(a->id, b->id);
    if (x->commit_lsn != y->commit_lsn)
        return x->commit_lsn < y->commit_lsn;
    return x->ordinal != y->ordinal ? x->ordinal < y->ordinal : entry_id_less(a->id, b->id);
}

struct strand *
strands_next(struct strand *strands, unsigned count)
{
    struct strand *first = NULL;

    for (unsigned i = 0; i < count; i++) {
        struct strand *strand = &strands[i];

        if (strand->has_entry) {
            if (first == NULL || goes_before(&strand->entry, &first->entry))
                first = strand;
        } else if (strand->is_cut) {
            return NULL;
        }
    }
    return first;
}

size_t
strand_seen(const struct strand *strand)
{
    return strand->next - (strand->has_entry ? 1 : 0);
}
