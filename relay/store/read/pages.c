/*
 * pages.c: what a session reads of its user: a range of the streams, the pending, and the
 * memberships.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/read/reader_private.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"

/* ---- the merge of finite pages */

static void
next_entry(struct shard_page *page)
{
    struct entry_id id;

    page->has_entry = false;
    while (page->next < page->count) {
        const struct redisReply *element = reply_at(page->entries, page->next++);

        page->has_entry = entry_read(element, &page->entry) == RC_OK;
        if (page->has_entry)
            break;
        page->foreign_entries++;
        if (reply_entry_id(element, &id) == RC_OK)
            page->reached = history_label(page->history, id);
    }
    page->entry.id = history_label(page->history, page->entry.id);
    page->entry.shard = page->shard;
}

void
shard_page_begin(struct shard_page *page, unsigned shard, const struct history *history,
                 struct entry_id after, struct entry_id end, const struct redisReply *entries,
                 bool is_truncated)
{
    struct entry_id id;

    *page = (struct shard_page){.entries = entries,
                                .history = history,
                                .count = reply_count(entries),
                                .shard = (unsigned char)shard,
                                .is_truncated = is_truncated,
                                .reached = after};
    /*
     * The stream grows while it is read. Without the entries after the end, the page is complete.
     */
    while (page->count > 0 && reply_entry_id(reply_at(entries, page->count - 1), &id) == RC_OK &&
           entry_id_less(end, history_label(history, id))) {
        page->count--;
        page->is_truncated = false;
    }
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
        if (entry_read(reply_at(page->entries, page->ahead - 1), &entry) != RC_OK ||
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

/* ---- a range of the streams */

#define PARTS_MAX 2 /* shard 0 and the own shard */

/* One shard's part of a range. */
struct range_part {
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
    struct range_part parts[PARTS_MAX];
    unsigned part_count;
};

/* Returns the id before the oldest remaining stream entry, so that no second gap is reported. */
static struct entry_id
begin_of(const struct range_part *part, struct entry_id after)
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

static void
finish_range(struct shard_request *request, enum rc rc)
{
    struct range *range = (struct range *)request;
    struct store_page page = {.first = range->after, .last = range->after};
    struct shard_page pages[PARTS_MAX], *next;
    struct entry *entries;
    size_t room = 1;

    if (rc != RC_OK) {
        range->done(range->ctx, RC_IO, NULL);
        return;
    }
    for (unsigned i = 0; i < range->part_count; i++) {
        const struct range_part *part = &range->parts[i];
        struct entry_id *start = cursor_in(&page.first, i);

        *start = begin_of(part, *start);
        shard_page_begin(&pages[i], part->shard->number, &part->shard->history, *start,
                         *cursor_in(&range->end, i), part->entries, part->is_truncated);
        page.state = part->state > page.state ? part->state : page.state;
        room += reply_count(part->entries);
    }
    page.entries = entries = memory_new(room * sizeof(*entries));
    while ((next = shard_pages_next(pages, range->part_count)) != NULL) {
        entries[page.count++] = next->entry;
        shard_page_advance(next);
    }
    for (unsigned i = 0; i < range->part_count; i++) {
        *cursor_in(&page.last, i) = pages[i].reached;
        page.seen += shard_page_seen(&pages[i]);
        stats_add(range->request.store->stats, STAT_STORE_ERRORS, pages[i].foreign_entries);
    }
    range->done(range->ctx, RC_OK, &page);
    free(entries);
}

static void
request_range_part(struct range *range, unsigned i)
{
    struct range_part *part = &range->parts[i];
    struct arguments arguments = {.argc = 0};

    shard_arguments(part->shard, &arguments);
    argument_entry(&arguments,
                   history_position(&part->shard->history, *cursor_in(&range->after, i)));
    argument_number(&arguments, (int64_t)range->max);
    shard_request_send_script(&range->request, part->shard, STORE_SCRIPT_range, 1, &arguments);
}

/*
 * Reads the large entry of a part, unless it is beyond the end of the range: then the part is
 * complete up to there.
 */
static void
read_large(struct range *range, unsigned i, const char *text)
{
    struct range_part *part = &range->parts[i];
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
    struct range_part *part = &range->parts[i];

    if (!reply_is_array(reply, 0) || part->generation != history_current(&part->shard->history))
        return false;
    part->is_large = false;
    if (reply_count(reply) > 0)
        part->entries = shard_request_keep_reply(&range->request, reply);
    else
        request_range_part(range, i);
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
    struct range_part *part = &range->parts[i];
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

static const struct shard_request_kind range_kind = {
    .failure = "could not read the stream", .on_reply = on_range_reply, .finish = finish_range};

enum rc
store_range(struct store *store, unsigned own_shard, struct cursor after, struct cursor end,
            size_t max, store_paged *done, void *ctx)
{
    struct range *range;

    if (!store_has_shared(store) || store->shards[own_shard].is_left_out ||
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
        request_range_part(range, i);
    return shard_request_sent(&range->request);
}

/* A page backwards, in flight. */
struct earlier {
    struct shard_request request;
    store_paged *done;
    void *ctx;
    struct shard *shard;
    const struct redisReply *entries;
    bool has_more;
};

static bool
on_earlier_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct earlier *earlier = (struct earlier *)request;

    if (!store_is_read(shard->store, shard->number) || !reply_is_array(reply_at(reply, 0), 0))
        return false;
    earlier->has_more = reply_integer(reply_at(reply, 1)) != 0;
    earlier->entries = shard_request_keep_reply(request, reply_at(reply, 0));
    return true;
}

static void
finish_earlier(struct shard_request *request, enum rc rc)
{
    struct earlier *earlier = (struct earlier *)request;
    const size_t count = rc == RC_OK ? reply_count(earlier->entries) : 0;
    struct store_page page = {.has_more = earlier->has_more};
    struct entry *entries = memory_new((count + 1) * sizeof(*entries));

    page.entries = entries;
    for (size_t i = 0; i < count; i++) {
        struct entry *entry = &entries[page.count];

        if (entry_read(reply_at(earlier->entries, i), entry) != RC_OK)
            continue; /* a foreign entry */
        entry->id = history_label(&earlier->shard->history, entry->id);
        entry->shard = (unsigned char)earlier->shard->number;
        page.count++;
    }
    earlier->done(earlier->ctx, rc, &page);
    free(entries);
}

static const struct shard_request_kind earlier_kind = {
    .failure = "could not read the stream", .on_reply = on_earlier_reply, .finish = finish_earlier};

enum rc
store_earlier(struct store *store, unsigned number, struct entry_id last, size_t max,
              store_paged *done, void *ctx)
{
    struct shard *shard = &store->shards[number];
    struct arguments arguments = {.argc = 0};
    struct earlier *earlier;

    if (!store->is_up || shard->is_left_out || !store_is_read(store, number))
        return RC_AGAIN;
    earlier = shard_request_new(sizeof(*earlier), store, &earlier_kind);
    earlier->done = done;
    earlier->ctx = ctx;
    earlier->shard = shard;
    shard_arguments(shard, &arguments);
    argument_entry(&arguments, entry_id_after(history_position(&shard->history, last)));
    argument_number(&arguments, (int64_t)max);
    shard_request_send_script(&earlier->request, shard, STORE_SCRIPT_earlier, 1, &arguments);
    return shard_request_sent(&earlier->request);
}

#define PENDING_PAGE_MAX 1024
#define SCORE_TEXT_MAX 24

/* One shard's part of a page. */
struct pending_part {
    struct shard *shard;
    const char *last; /* score of the last notification read; "": the part was read to its end */
    const struct redisReply *entries; /* stream entries of the notifications */
    const struct redisReply *scores;  /* pending scores of these notifications */
    const struct redisReply *states;  /* 0 pending, 1 acknowledged, 2 ended otherwise */
    bool lacks_ended;
    unsigned lost_count;
    bool is_large; /* the only entry is large, and read by a command of its own */
    struct shard_page page;
};

/* A page in flight. */
struct pending {
    struct shard_request request;
    store_paged *done;
    void *ctx;
    struct cursor after;
    struct cursor end;
    struct pending_part parts[PARTS_MAX];
    unsigned count; /* number of parts */
};

/* Returns the first stream entry of a notification with this score. */
static struct entry_id
first_entry(const struct pending_part *part, const char *score)
{
    return history_label(&part->shard->history, entry_id_of_score(strtoull(score, NULL, 10)));
}

/* Returns the start of the next page: after the merged notifications of a part. */
static struct entry_id
pending_end_of(const struct pending_part *part, struct entry_id after, struct entry_id end)
{
    const size_t seen = shard_page_seen(&part->page);

    if (!part->page.has_entry && part->last[0] == '\0')
        return end;
    if (part->page.has_entry && seen == 0)
        return after;
    return first_entry(part, part->page.has_entry ? reply_text(reply_at(part->scores, seen - 1))
                                                  : part->last);
}

/* Merges the parts. Returns the number of merged notifications. */
static size_t
merge_parts(struct pending *pending, struct entry *ret_entries)
{
    struct shard_page pages[PARTS_MAX], *next;
    size_t merged = 0;

    for (unsigned i = 0; i < pending->count; i++) {
        struct pending_part *part = &pending->parts[i];

        shard_page_begin(&pages[i], part->shard->number, &part->shard->history,
                         (struct entry_id){0, 0}, SHARD_PAGE_WHOLE, part->entries,
                         part->last[0] != '\0');
    }
    while ((next = shard_pages_next(pages, pending->count)) != NULL) {
        const struct pending_part *part = &pending->parts[next - pages];
        struct entry *entry = &ret_entries[merged++];
        const int64_t state = reply_integer(reply_at(part->states, next->next - 1));

        *entry = next->entry;
        entry->first = first_entry(part, reply_text(reply_at(part->scores, next->next - 1)));
        entry->is_ended = state != 0;
        entry->is_acked = state == 1;
        shard_page_advance(next);
    }
    for (unsigned i = 0; i < pending->count; i++) {
        pending->parts[i].page = pages[i];
        stats_add(pending->request.store->stats, STAT_STORE_ERRORS, pages[i].foreign_entries);
    }
    return merged;
}

static void
finish_pending(struct shard_request *request, enum rc rc)
{
    struct pending *pending = (struct pending *)request;
    struct store_page page = {.last = pending->after};
    struct entry *entries;
    size_t room = 1;

    if (rc != RC_OK) {
        pending->done(pending->ctx, RC_IO, NULL);
        return;
    }
    for (unsigned i = 0; i < pending->count; i++)
        room += reply_count(pending->parts[i].entries);
    page.entries = entries = memory_new(room * sizeof(*entries));
    page.seen = page.count = merge_parts(pending, entries);
    for (unsigned i = 0; i < pending->count; i++) {
        const struct pending_part *part = &pending->parts[i];
        struct entry_id *last = cursor_in(&page.last, i);

        *last = pending_end_of(part, *last, *cursor_in(&pending->end, i));
        page.has_more |= part->page.has_entry || part->last[0] != '\0';
        page.lacks_ended |= part->lacks_ended;
        page.lost_count += part->lost_count;
    }
    pending->done(pending->ctx, RC_OK, &page);
    free(entries);
}

/* The reply contains the score and the state of each notification. */
static bool
read_part(struct pending_part *part, const struct redisReply *reply)
{
    size_t count;

    if (!reply_is_array(reply, 7) || reply_text(reply_at(reply, 0)) == NULL ||
        strlen(reply_text(reply_at(reply, 0))) >= SCORE_TEXT_MAX ||
        !reply_is_array(reply_at(reply, 1), 0))
        return false;
    count = reply_count(reply_at(reply, 1));
    part->last = reply_text(reply_at(reply, 0));
    part->entries = reply_at(reply, 1);
    part->scores = reply_at(reply, 2);
    part->states = reply_at(reply, 3);
    part->lacks_ended = reply_integer(reply_at(reply, 4)) != 0;
    part->lost_count = (unsigned)reply_integer(reply_at(reply, 5));
    if (!reply_is_array(part->scores, count) || !reply_is_array(part->states, count))
        return false;
    for (size_t i = 0; i < count; i++) {
        const size_t len = reply_bytes(reply_at(part->scores, i)).len;

        if (len == 0 || len >= SCORE_TEXT_MAX)
            return false;
    }
    return true;
}

static bool
on_pending_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct pending *pending = (struct pending *)request;
    struct pending_part *part = &pending->parts[shard == pending->parts[0].shard ? 0 : 1];
    const char *large = reply_text(reply_at(reply, 6));

    if (part->is_large) { /* without the entry if its notification ended meanwhile */
        part->entries = shard_request_keep_reply(request, reply);
        return reply_is_array(reply, 0);
    }
    part->is_large = large != NULL && large[0] != '\0';
    if (part->is_large)
        shard_request_read_entry(request, shard, large);
    return read_part(part, shard_request_keep_reply(request, reply));
}

static const struct shard_request_kind pending_kind = {.failure = "could not read a pending list",
                                                       .on_reply = on_pending_reply,
                                                       .finish = finish_pending};

/* A cursor of a client may be beyond all scores. */
static void
add_score(struct arguments *arguments, const struct cursor *cursor, unsigned part)
{
    const uint64_t score = entry_id_score(part == 0 ? cursor->shared : cursor->own);

    argument_number(arguments, score < INT64_MAX ? (int64_t)score : INT64_MAX);
}

static void
request_pending_part(struct pending *pending, unsigned nth, const char *user,
                     const struct store_pending_part *wanted)
{
    struct arguments arguments = {.argc = 0};
    struct pending_part *part = &pending->parts[nth];

    shard_arguments(part->shard, &arguments);
    argument(&arguments, user);
    add_score(&arguments, &wanted->after, nth);
    add_score(&arguments, &wanted->last, nth);
    argument_number(&arguments,
                    (int64_t)(wanted->max < PENDING_PAGE_MAX ? wanted->max : PENDING_PAGE_MAX));
    if (wanted->has_received)
        add_score(&arguments, &wanted->received, nth);
    else
        argument(&arguments, "");
    argument(&arguments, wanted->ended_only         ? "ended"
                         : wanted->undelivered_only ? "undelivered"
                                                    : "all");
    shard_request_send_script(&pending->request, part->shard, STORE_SCRIPT_pending_page, 1,
                              &arguments);
}

enum rc
store_pending(struct store *store, const char *user, const struct store_pending_part *part,
              store_paged *done, void *ctx)
{
    const unsigned own_shard = store_shard_of(store, user);
    struct pending *pending;

    if (!store_serves(store, user))
        return RC_AGAIN;
    pending = shard_request_new(sizeof(*pending), store, &pending_kind);
    pending->done = done;
    pending->ctx = ctx;
    pending->after = part->after;
    pending->end = part->last;
    pending->parts[pending->count++].shard = &store->shards[0];
    if (own_shard > 0)
        pending->parts[pending->count++].shard = &store->shards[own_shard];
    for (unsigned i = 0; i < pending->count; i++)
        request_pending_part(pending, i, user, part);
    return shard_request_sent(&pending->request);
}

struct groups {
    struct shard_request request;
    store_grouped *done;
};

static bool
is_list(const struct redisReply *reply)
{
    return reply_is_array(reply, 0);
}

static void
finish_groups(struct shard_request *request, enum rc rc)
{
    const struct groups *groups = (struct groups *)request;
    const size_t count = rc == RC_OK ? reply_count(request->reply) : 0;
    struct bytes *texts = memory_new((count + 1) * sizeof(*texts));

    for (size_t i = 0; i < count; i++)
        texts[i] = reply_bytes(reply_at(request->reply, i));
    groups->done(request->ctx, rc, texts, count);
    free(texts);
}

static const struct shard_request_kind groups_kind = {
    .failure = "could not read a user's memberships", .is_valid = is_list, .finish = finish_groups};

enum rc
store_groups(struct store *store, const char *user, store_grouped *done, void *ctx)
{
    struct shard *shard = &store->shards[0];
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX + 256];
    struct groups *groups;

    if (!store_has_shared(store))
        return RC_AGAIN;
    groups = shard_request_new(sizeof(*groups), store, &groups_kind);
    groups->done = done;
    groups->request.ctx = ctx;
    key_write_of(key, sizeof(key), shard->prefix, KEY_GROUPS, user);
    argument(&arguments, "SMEMBERS");
    argument(&arguments, key);
    shard_request_send_command(&groups->request, shard, &arguments);
    return shard_request_sent(&groups->request);
}
