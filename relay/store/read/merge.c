/* merge.c: merges pages of several streams by commit order. */
#include "store/read/merge.h"

static void
skip_foreign(struct shard_page *page, const struct redisReply *element)
{
    struct entry_id id;

    page->foreign_entries++;
    if (reply_entry_id(element, &id) == RC_OK)
        page->reached = history_label(page->history, id);
}

/* True if the stream entry is newer than the end: the stream grows while it is read. */
static bool
is_beyond(const struct shard_page *page, const struct redisReply *element)
{
    struct entry_id id;

    return reply_entry_id(element, &id) == RC_OK &&
           entry_id_less(page->end, history_label(page->history, id));
}

/* Drops the stream entries after the end. The page is then complete up to its end. */
static void
cut_at_end(struct shard_page *page)
{
    while (page->count > 0 && is_beyond(page, reply_at(page->entries, page->count - 1))) {
        page->count--;
        page->is_truncated = false;
    }
}

static void
next_entry(struct shard_page *page)
{
    page->has_entry = false;
    while (!page->has_entry && page->next < page->count) {
        const struct redisReply *element = reply_at(page->entries, page->next++);

        page->has_entry = reply_entry(element, &page->entry) == RC_OK;
        if (!page->has_entry)
            skip_foreign(page, element);
    }
    page->entry.id = history_label(page->history, page->entry.id);
    page->entry.shard = page->shard;
}

void
shard_page_begin(struct shard_page *page, unsigned shard, const struct history *history,
                 struct entry_id after, struct entry_id end, const struct redisReply *entries,
                 bool is_truncated)
{
    *page = (struct shard_page){.entries = entries,
                                .history = history,
                                .count = reply_count(entries),
                                .shard = (unsigned char)shard,
                                .is_truncated = is_truncated,
                                .end = end,
                                .reached = after};
    cut_at_end(page);
    next_entry(page);
}

void
shard_page_advance(struct shard_page *page)
{
    page->reached = page->entry.id;
    next_entry(page);
}

/* Finds the next notification with a commit, starting at the page's current stream entry. */
static void
look_ahead(struct shard_page *page)
{
    struct entry entry;

    if (page->ahead >= page->next)
        return; /* the previous match is still ahead, or no match is left */
    page->has_position = false;
    for (page->ahead = page->next; page->ahead <= page->count; page->ahead++) {
        if (reply_entry(reply_at(page->entries, page->ahead - 1), &entry) != RC_OK ||
            entry.frame.commit_lsn == 0)
            continue;
        page->has_position = true;
        page->position = (struct position){entry.frame.commit_lsn, entry.frame.ordinal};
        return;
    }
}

/* True if the next notification of `a` is, or may be, older than the next notification of `b`. */
static bool
precedes(const struct shard_page *a, const struct shard_page *b)
{
    bool a_may = !a->has_position && a->is_truncated, b_may = !b->has_position && b->is_truncated;

    if (a_may != b_may)
        return a_may;
    if (!a_may && a->has_position != b->has_position)
        return a->has_position;
    if (a->has_position && b->has_position)
        return position_less(a->position, b->position);
    return entry_id_less(a->entry.id, b->entry.id);
}

struct shard_page *
shard_pages_next(struct shard_page *pages, unsigned count)
{
    struct shard_page *first = NULL, *next;

    if (count == 1)
        return pages->has_entry ? pages : NULL;
    for (unsigned i = 0; i < count; i++) {
        struct shard_page *page = &pages[i];

        if (!page->has_entry && page->is_truncated)
            return NULL;
        if (!page->has_entry)
            continue;
        look_ahead(page);
        if (first == NULL || precedes(page, first))
            first = page;
    }
    next = first;
    for (unsigned i = 0; i < count; i++) {
        struct shard_page *page = &pages[i];

        if (page->has_entry && page->entry.frame.commit_lsn == 0 &&
            entry_id_less(page->entry.id, next->entry.id))
            next = page;
    }
    return next;
}

size_t
shard_page_seen(const struct shard_page *page)
{
    return page->next - (page->has_entry ? 1 : 0);
}
