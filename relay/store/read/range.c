/* range.c: reads stream entries after a cursor, merged from shard 0 and the user's own shard. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/read/merge.h"
#include "store/shards/shard.h"
#include "store/shards/store_private.h"

#define PARTS_MAX 2

/* One shard's part of a range. */
struct part {
    struct shard *shard;
    enum store_range_state state;
    const struct redisReply *entries;
    struct entry_id newest; /* the newest id ever added, even if it was trimmed */
    bool is_truncated;      /* the stream has more entries */
    bool is_large;          /* the only entry is large, and read by a command of its own */
    uint32_t generation;    /* of the server that replied to the script */
};

/* A range query in flight. */
struct range {
    struct shard_request request;
    store_paged *done;
    void *ctx;
    struct cursor after;
    struct cursor end;
    size_t max;
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

static void
request_part(struct range *range, unsigned i)
{
    struct part *part = &range->parts[i];
    struct arguments arguments = {.argc = 0};
    char after[ENTRY_ID_TEXT_MAX], count[24];

    entry_id_text(history_position(&part->shard->history, *cursor_in(&range->after, i)), after);
    snprintf(count, sizeof(count), "%zu", range->max);
    shard_arguments(part->shard, &arguments);
    argument(&arguments, after);
    argument(&arguments, count);
    shard_request_send_script(&range->request, part->shard, STORE_SCRIPT_range, 1, &arguments);
}

/*
 * Reads the large entry of a part, unless it is beyond the end of the range: then the part is
 * complete up to there.
 */
static void
read_large(struct range *range, unsigned i, const char *text)
{
    struct part *part = &range->parts[i];
    struct entry_id id;

    if (part->state == STORE_RANGE_WHOLE && entry_id_read(text, strlen(text), &id) == RC_OK &&
        entry_id_less(*cursor_in(&range->end, i), history_label(&part->shard->history, id))) {
        part->is_truncated = false;
        return;
    }
    part->is_large = true;
    part->generation = history_current(&part->shard->history);
    shard_request_read_entry(&range->request, part->shard, text);
}

/* An entry that was deleted meanwhile may have been trimmed, so the part is read again. */
static bool
on_large_reply(struct range *range, unsigned i, const struct redisReply *reply)
{
    struct part *part = &range->parts[i];

    if (!reply_is_array(reply, 0) || part->generation != history_current(&part->shard->history))
        return false;
    part->is_large = false;
    if (reply_count(reply) > 0)
        part->entries = shard_request_keep_reply(&range->request, reply);
    else
        request_part(range, i);
    return true;
}

/*
 * A page counts only if its server is the one that the reader reads. Otherwise the session would
 * continue with the reader's entries after a page of the former primary, which lacks earlier ones.
 */
static bool
on_range_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct range *range = (struct range *)request;
    const unsigned i = shard == range->parts[0].shard ? 0 : 1;
    struct part *part = &range->parts[i];
    const char *large;

    if (!store_is_read(shard->store, shard->number))
        return false;
    if (part->is_large)
        return on_large_reply(range, i, reply);
    large = reply_text(reply_at(reply, 4));
    if (!reply_is_array(reply_at(reply, 1), 0) ||
        reply_id(reply_at(reply, 2), &part->newest) != RC_OK || large == NULL)
        return false;
    part->newest = history_label(&shard->history, part->newest);
    part->state = (enum store_range_state)reply_integer(reply_at(reply, 0));
    part->is_truncated = reply_integer(reply_at(reply, 3)) != 0;
    if (large[0] != '\0')
        read_large(range, i, large);
    else
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
    range->max = max;
    range->parts[range->part_count++].shard = &store->shards[0];
    if (own_shard > 0)
        range->parts[range->part_count++].shard = &store->shards[own_shard];
    for (unsigned i = 0; i < range->part_count; i++)
        request_part(range, i);
    return shard_request_await(&range->request);
}
