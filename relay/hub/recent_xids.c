/*
 * recent_xids.c: the transactions whose changes clients may have received, which the rows that they
 * read must contain.
 */
#include "hub/recent_xids.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static struct recent_xid *
nth(const struct recent_xids *recent, unsigned at)
{
    return &recent->items[(recent->first + at) % RECENT_XIDS_MAX];
}

static bool
is_for_all(const struct recent_xid *item)
{
    return item->id.ms == 0 && item->id.seq == 0;
}

/* The notifications of a transaction are consecutive in each of its shards. */
static struct recent_xid *
find_known(const struct recent_xids *recent, const struct recent_xid *item)
{
    for (unsigned at = recent->count; at > 0 && nth(recent, at - 1)->xid == item->xid; at--) {
        struct recent_xid *known = nth(recent, at - 1);

        if (known->shard == item->shard || is_for_all(known))
            return known;
    }
    return NULL;
}

static uint64_t *
word_of(const struct recent_xids *recent, uint64_t xid)
{
    return &recent->earlier[xid % RECENT_XIDS_EARLIER_MAX / 64];
}

static bool
is_in_window(const struct recent_xids *recent, uint64_t xid)
{
    return xid <= recent->greatest.xid && recent->greatest.xid - xid < RECENT_XIDS_EARLIER_MAX;
}

/*
 * Makes `item` the transaction with the greatest id. Bits of ids above the former one still
 * represent older ids, so they are cleared.
 */
static void
raise_greatest(struct recent_xids *recent, const struct recent_xid *item)
{
    uint64_t from = recent->greatest.xid;

    recent->greatest = *item;
    if (recent->earlier == NULL)
        recent->earlier = memory_new(RECENT_XIDS_EARLIER_MAX / 8);
    else if (item->xid < from || item->xid - from >= RECENT_XIDS_EARLIER_MAX)
        memset(recent->earlier, 0, RECENT_XIDS_EARLIER_MAX / 8);
    else
        for (uint64_t xid = from + 1; xid <= item->xid; xid++)
            *word_of(recent, xid) &= ~(UINT64_C(1) << xid % 64);
}

void
recent_xids_add_earlier(struct recent_xids *recent, uint64_t xid, int64_t commit_us)
{
    const struct recent_xid item = {.xid = xid, .commit_us = commit_us};

    if (xid == 0)
        return;
    if (xid > recent->greatest.xid || commit_us - recent->greatest.commit_us >= RECENT_XIDS_AGE_US)
        raise_greatest(recent, &item);
    if (is_in_window(recent, xid))
        *word_of(recent, xid) |= UINT64_C(1) << xid % 64;
    if (commit_us >= recent->newest.commit_us)
        recent->newest = item;
}

void
recent_xids_add(struct recent_xids *recent, const struct recent_xid *item)
{
    struct recent_xid *known = find_known(recent, item);

    /* A change of memberships may follow a notification of its transaction. */
    if (known != NULL && is_for_all(item))
        *known = *item;
    if (item->xid == 0 || known != NULL)
        return;
    if (recent->items == NULL)
        recent->items = memory_new(RECENT_XIDS_MAX * sizeof(*recent->items));
    if (recent->count == RECENT_XIDS_MAX) {
        recent_xids_add_earlier(recent, nth(recent, 0)->xid, nth(recent, 0)->commit_us);
        recent->first = (recent->first + 1) % RECENT_XIDS_MAX;
        recent->count--;
    }
    *nth(recent, recent->count++) = *item;
}

static bool
is_missing(const struct recent_xid *item, const struct snapshot *snapshot, int64_t now_us)
{
    return item->xid != 0 && now_us - item->commit_us < RECENT_XIDS_AGE_US &&
           !snapshot_contains(snapshot, item->xid);
}

/* True if an earlier transaction was running when the snapshot was taken. */
static bool
lacks_earlier(const struct recent_xids *recent, const struct snapshot *snapshot, int64_t now_us)
{
    if (recent->earlier == NULL || now_us - recent->newest.commit_us >= RECENT_XIDS_AGE_US)
        return false;
    for (size_t i = 0; i < snapshot->running_count; i++) {
        uint64_t xid = snapshot->running[i];

        if (is_in_window(recent, xid) && (*word_of(recent, xid) & UINT64_C(1) << xid % 64) != 0)
            return true;
    }
    return false;
}

static bool
is_before(const struct recent_xid *item, const struct cursor *cursor, unsigned own)
{
    return (item->shard == 0 || item->shard == own) &&
           !cursor_is_before(cursor, item->shard, item->id);
}

bool
recent_xids_are_in(const struct recent_xids *recent, struct cursor cursor, unsigned own,
                   const struct snapshot *snapshot, int64_t now_us)
{
    if (is_missing(&recent->greatest, snapshot, now_us) ||
        is_missing(&recent->newest, snapshot, now_us) || lacks_earlier(recent, snapshot, now_us))
        return false;
    for (unsigned at = 0; at < recent->count; at++) {
        const struct recent_xid *item = nth(recent, at);

        if (is_missing(item, snapshot, now_us) && is_before(item, &cursor, own))
            return false;
    }
    return true;
}

void
recent_xids_clear_ids(struct recent_xids *recent)
{
    for (unsigned at = 0; at < recent->count; at++) {
        struct recent_xid *item = nth(recent, at);

        item->id = (struct entry_id){0, 0};
        item->shard = 0;
    }
}

void
recent_xids_free(struct recent_xids *recent)
{
    free(recent->items);
    free(recent->earlier);
    *recent = (struct recent_xids){0};
}
