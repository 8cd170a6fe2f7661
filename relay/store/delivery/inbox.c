/* inbox.c: a user's pending notifications, merged from shard 0 and the user's own shard. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/read/merge.h"
#include "store/shards/shard.h"
#include "store/shards/store_private.h"

#define PAGE_MAX 1024
#define PARTS_MAX 2
#define SCORE_TEXT_MAX 24

/* One shard's part of a page. */
struct inbox_part {
    struct shard *shard;
    const char *last; /* score of the last notification read; "": the part was read to its end */
    const struct redisReply *entries; /* stream entries of the notifications */
    const struct redisReply *scores;  /* inbox scores of these notifications */
    const struct redisReply *states;  /* 0 pending, 1 acknowledged, 2 ended otherwise */
    bool lacks_ended;
    unsigned lost_count;
    bool is_large; /* the only entry is large, and read by a command of its own */
    struct shard_page page;
};

/* A page in flight. */
struct inbox {
    struct shard_request request;
    store_paged *done;
    void *ctx;
    struct cursor after;
    struct cursor end;
    struct inbox_part parts[PARTS_MAX];
    unsigned count; /* number of parts */
};

/* Returns the first stream entry of a notification with this score. */
static struct entry_id
first_entry(const struct inbox_part *part, const char *score)
{
    return history_label(&part->shard->history, entry_id_of_score(strtoull(score, NULL, 10)));
}

/* Returns the start of the next page: after the merged notifications of a part. */
static struct entry_id
end_of(const struct inbox_part *part, struct entry_id after, struct entry_id end)
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
merge_parts(struct inbox *inbox, struct entry *ret_entries)
{
    struct shard_page pages[PARTS_MAX], *next;
    size_t merged = 0;

    for (unsigned i = 0; i < inbox->count; i++) {
        struct inbox_part *part = &inbox->parts[i];

        shard_page_begin(&pages[i], part->shard->number, &part->shard->history,
                         (struct entry_id){0, 0}, SHARD_PAGE_WHOLE, part->entries,
                         part->last[0] != '\0');
    }
    while ((next = shard_pages_next(pages, inbox->count)) != NULL) {
        const struct inbox_part *part = &inbox->parts[next - pages];
        struct entry *entry = &ret_entries[merged++];
        const int64_t state = reply_integer(reply_at(part->states, next->next - 1));

        *entry = next->entry;
        entry->first = first_entry(part, reply_text(reply_at(part->scores, next->next - 1)));
        entry->is_ended = state != 0;
        entry->is_acked = state == 1;
        shard_page_advance(next);
    }
    for (unsigned i = 0; i < inbox->count; i++) {
        inbox->parts[i].page = pages[i];
        stats_add(inbox->request.store->stats, STAT_STORE_ERRORS, pages[i].foreign_entries);
    }
    return merged;
}

static void
deliver_inbox(struct inbox *inbox)
{
    struct store_page page = {.last = inbox->after};
    struct entry *entries;
    size_t room = 1;

    for (unsigned i = 0; i < inbox->count; i++)
        room += reply_count(inbox->parts[i].entries);
    entries = memory_new(room * sizeof(*entries));
    page.entries = entries;
    page.count = merge_parts(inbox, entries);
    page.seen = page.count;
    for (unsigned i = 0; i < inbox->count; i++) {
        const struct inbox_part *part = &inbox->parts[i];
        struct entry_id *last = cursor_in(&page.last, i);

        *last = end_of(part, *last, *cursor_in(&inbox->end, i));
        page.has_more |= part->page.has_entry || part->last[0] != '\0';
        page.lacks_ended |= part->lacks_ended;
        page.lost_count += part->lost_count;
    }
    inbox->done(inbox->ctx, RC_OK, &page);
    free(entries);
}

static bool
is_score(const struct redisReply *reply)
{
    const struct bytes text = reply_bytes(reply);

    return text.len > 0 && text.len < SCORE_TEXT_MAX;
}

/* The reply contains the inbox score and the state of each notification. */
static bool
read_part(struct inbox_part *part, const struct redisReply *reply)
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
    for (size_t i = 0; i < count; i++)
        if (!is_score(reply_at(part->scores, i)))
            return false;
    return true;
}

static bool
on_inbox_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct inbox *inbox = (struct inbox *)request;
    struct inbox_part *part = &inbox->parts[shard == inbox->parts[0].shard ? 0 : 1];
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

static void
finish_inbox(struct shard_request *request, enum rc rc)
{
    struct inbox *inbox = (struct inbox *)request;

    if (rc == RC_OK)
        deliver_inbox(inbox);
    else
        inbox->done(inbox->ctx, RC_IO, NULL);
}

static const struct shard_request_kind inbox_kind = {
    .failure = "could not read an inbox", .on_reply = on_inbox_reply, .finish = finish_inbox};

static void
write_score(const struct cursor *cursor, unsigned part, char ret_text[SCORE_TEXT_MAX])
{
    const struct entry_id id = part == 0 ? cursor->shared : cursor->own;

    snprintf(ret_text, SCORE_TEXT_MAX, "%" PRIu64, entry_id_score(id));
}

static void
request_part(struct inbox *inbox, unsigned nth, const char *user,
             const struct store_inbox_part *wanted)
{
    struct arguments arguments = {.argc = 0};
    char after[SCORE_TEXT_MAX], last[SCORE_TEXT_MAX], received[SCORE_TEXT_MAX] = "", count[24];
    struct inbox_part *part = &inbox->parts[nth];

    write_score(&wanted->after, nth, after);
    write_score(&wanted->last, nth, last);
    if (wanted->has_received)
        write_score(&wanted->received, nth, received);
    snprintf(count, sizeof(count), "%zu", wanted->max < PAGE_MAX ? wanted->max : PAGE_MAX);
    shard_arguments(part->shard, &arguments);
    argument(&arguments, user);
    argument(&arguments, after);
    argument(&arguments, last);
    argument(&arguments, count);
    argument(&arguments, received);
    argument(&arguments, wanted->ended_only         ? "ended"
                         : wanted->undelivered_only ? "undelivered"
                                                    : "all");
    shard_request_send_script(&inbox->request, part->shard, STORE_SCRIPT_inbox, 1, &arguments);
}

enum rc
store_inbox(struct store *store, const char *user, const struct store_inbox_part *part,
            store_paged *done, void *ctx)
{
    const unsigned own_shard = store_shard_of(store, user);
    struct inbox *inbox;

    if (!store_serves(store, user))
        return RC_AGAIN;
    inbox = shard_request_new(sizeof(*inbox), store, &inbox_kind);
    inbox->done = done;
    inbox->ctx = ctx;
    inbox->after = part->after;
    inbox->end = part->last;
    inbox->parts[inbox->count++].shard = &store->shards[0];
    if (own_shard > 0)
        inbox->parts[inbox->count++].shard = &store->shards[own_shard];
    for (unsigned i = 0; i < inbox->count; i++)
        request_part(inbox, i, user, part);
    return shard_request_await(&inbox->request);
}
