/* range.c: reads stream entries after a cursor, merged from shard 0 and the user's own shard. */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "store/read/merge.h"
#include "store/shards/shard_request.h"
#include "store/shards/store_private.h"

#define PARTS_MAX 2

/* One shard's part of a range. */
struct part {
    const struct shard *shard;
    enum store_range_state state;
    const struct redisReply *entries;
    struct entry_id newest; /* the newest id ever added, even if it was trimmed */
    bool is_truncated;      /* the stream has more entries */
};

/* A range query in flight. */
struct range {
    struct shard_request request;
    store_paged *done;
    void *ctx;
    struct cursor after;
    struct cursor end;
    struct part parts[PARTS_MAX];
    unsigned part_count;
};

/* Returns the id before the oldest remaining stream entry, so that no second gap is reported. */
static struct entry_id
begin_of(const struct part *part, struct entry_id after)
{
    struct entry_id first;

    if (part->state != STORE_RANGE_TRIMMED)
        return after;
    if (reply_count(part->entries) == 0)
        return part->newest;
    if (reply_entry_id(reply_at(part->entries, 0), &first) != RC_OK)
        return after;
    return entry_id_before(history_label(&part->shard->history, first));
}

/* Merges the pages. Returns the number of merged stream entries. */
static size_t
merge_pages(struct shard_page *pages, unsigned count, struct entry *ret_entries)
{
    struct shard_page *next;
    size_t merged = 0;

    while ((next = shard_pages_next(pages, count)) != NULL) {
        ret_entries[merged++] = next->entry;
        shard_page_advance(next);
    }
    return merged;
}

static void
deliver_range(struct range *range)
{
    struct store_page page = {.first = range->after, .last = range->after};
    struct shard_page pages[PARTS_MAX];
    struct entry *entries;
    size_t room = 1;

    for (unsigned i = 0; i < range->part_count; i++) {
        const struct part *part = &range->parts[i];
        struct entry_id *start = cursor_in(&page.first, i);

        *start = begin_of(part, *start);
        shard_page_begin(&pages[i], part->shard->number, &part->shard->history, *start,
                         *cursor_in(&range->end, i), part->entries, part->is_truncated);
        page.state = part->state > page.state ? part->state : page.state;
        room += reply_count(part->entries);
    }
    entries = memory_new(room * sizeof(*entries));
    page.entries = entries;
    page.count = merge_pages(pages, range->part_count, entries);
    for (unsigned i = 0; i < range->part_count; i++) {
        *cursor_in(&page.last, i) = pages[i].reached;
        page.seen += shard_page_seen(&pages[i]);
        stats_add(range->request.store->stats, STAT_STORE_ERRORS, pages[i].foreign_entries);
    }
    range->done(range->ctx, RC_OK, &page);
    free(entries);
}

/*
 * A page counts only if its server is the one that the reader reads. Otherwise the session would
 * continue with the reader's entries after a page of the former primary, which lacks earlier ones.
 */
static bool
on_range_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct range *range = (struct range *)request;
    struct part *part = &range->parts[shard == range->parts[0].shard ? 0 : 1];

    if (!reply_is_array(reply, 4) || !reply_is_array(reply_at(reply, 1), 0) ||
        reply_id(reply_at(reply, 2), &part->newest) != RC_OK ||
        !store_is_read(shard->store, shard->number))
        return false;
    part->newest = history_label(&shard->history, part->newest);
    part->state = (enum store_range_state)reply_integer(reply_at(reply, 0));
    part->is_truncated = reply_integer(reply_at(reply, 3)) != 0;
    part->entries = shard_request_keep_reply(request, reply_at(reply, 1));
    return true;
}

static void
finish_range(struct shard_request *request, enum rc rc)
{
    struct range *range = (struct range *)request;

    if (rc == RC_OK)
        deliver_range(range);
    else
        range->done(range->ctx, RC_IO, NULL);
}

static const struct shard_request_kind range_kind = {
    .failure = "could not read the stream", .on_reply = on_range_reply, .finish = finish_range};

static void
request_part(struct range *range, struct shard *shard, struct entry_id after, size_t max)
{
    struct arguments arguments = {.argc = 0};
    char after_text[ENTRY_ID_TEXT_MAX], count[24];

    entry_id_text(history_position(&shard->history, after), after_text);
    snprintf(count, sizeof(count), "%zu", max);
    shard_arguments(shard, &arguments);
    argument(&arguments, after_text);
    argument(&arguments, count);
    range->parts[range->part_count++].shard = shard;
    shard_request_send_script(&range->request, shard, STORE_SCRIPT_range, 1, &arguments);
}

enum rc
store_range(struct store *store, unsigned own_shard, struct cursor after, struct cursor end,
            size_t max, store_paged *done, void *ctx)
{
    struct range *range;

    if (!store_has_shared(store) || store->shards[own_shard].is_unavailable ||
        !store_is_read(store, 0) || !store_is_read(store, own_shard))
        return RC_AGAIN;
    range = shard_request_new(sizeof(*range), store, &range_kind);
    range->done = done;
    range->ctx = ctx;
    range->after = after;
    range->end = end;
    request_part(range, &store->shards[0], after.shared, max);
    if (own_shard > 0)
        request_part(range, &store->shards[own_shard], after.own, max);
    return shard_request_await(&range->request);
}
