/* inbox.c: a user's pending notifications, merged from shard 0 and the user's own shard. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/read/merge.h"
#include "store/shards/shard_request.h"
#include "store/shards/store_private.h"

#define PAGE_MAX 1024
#define PARTS_MAX 2
#define PART_CURSOR_MAX 24 /* cursor of one part: a score */
#define INBOX_ENDED "-"
#define INBOX_AND ','

/* One shard's part of a page. */
struct inbox_part {
    struct shard *shard;
    char after[PART_CURSOR_MAX]; /* INBOX_ENDED: no notifications left */
    const char *last;
    const struct redisReply *entries; /* stream entries of the notifications */
    const struct redisReply *scores;  /* inbox scores of these notifications */
    bool is_requested;
    bool is_large; /* the only entry is large, and read by a command of its own */
    struct shard_page page;
};

/* A page in flight. */
struct inbox {
    struct shard_request request;
    store_paged *done;
    void *ctx;
    struct inbox_part parts[PARTS_MAX];
    unsigned count; /* number of parts */
};

/* Returns the inbox cursor after the merged notifications of a part. */
static const char *
cursor_behind(const struct inbox_part *part)
{
    const size_t seen = part->is_requested ? shard_page_seen(&part->page) : 0;

    if (part->is_requested && !part->page.has_entry)
        return part->last[0] != '\0' ? part->last : INBOX_ENDED;
    return seen > 0 ? reply_text(reply_at(part->scores, seen - 1)) : part->after;
}

static void
next_page(const struct inbox *inbox, char ret_next[STORE_INBOX_CURSOR_MAX])
{
    const char *cursors[PARTS_MAX];
    bool has_more = false;

    for (unsigned i = 0; i < inbox->count; i++) {
        cursors[i] = cursor_behind(&inbox->parts[i]);
        has_more = has_more || strcmp(cursors[i], INBOX_ENDED) != 0;
    }
    ret_next[0] = '\0';
    if (has_more && inbox->count == 1)
        snprintf(ret_next, STORE_INBOX_CURSOR_MAX, "%s", cursors[0]);
    else if (has_more)
        snprintf(ret_next, STORE_INBOX_CURSOR_MAX, "%s%c%s", cursors[0], INBOX_AND, cursors[1]);
}

/* Returns the inbox score of the next notification. */
static uint64_t
score_of(const struct inbox_part *part, const struct shard_page *page)
{
    return strtoull(reply_text(reply_at(part->scores, page->next - 1)), NULL, 10);
}

/* Merges the parts. Returns the number of merged notifications. */
static size_t
merge_parts(struct inbox *inbox, struct entry *ret_entries)
{
    struct shard_page pages[PARTS_MAX], *next;
    struct inbox_part *of[PARTS_MAX];
    unsigned count = 0;
    size_t merged = 0;

    for (unsigned i = 0; i < inbox->count; i++) {
        struct inbox_part *part = &inbox->parts[i];

        if (!part->is_requested)
            continue;
        shard_page_begin(&pages[count], part->shard->number, &part->shard->history,
                         (struct entry_id){0, 0}, SHARD_PAGE_WHOLE, part->entries,
                         part->last[0] != '\0');
        of[count++] = part;
    }
    while ((next = shard_pages_next(pages, count)) != NULL) {
        ret_entries[merged] = next->entry;
        ret_entries[merged++].score = score_of(of[next - pages], next);
        shard_page_advance(next);
    }
    for (unsigned i = 0; i < count; i++) {
        of[i]->page = pages[i];
        stats_add(inbox->request.store->stats, STAT_STORE_ERRORS, pages[i].foreign_entries);
    }
    return merged;
}

static void
deliver_inbox(struct inbox *inbox)
{
    char next[STORE_INBOX_CURSOR_MAX];
    struct store_page page = {.next = next};
    struct entry *entries;
    size_t room = 1;

    for (unsigned i = 0; i < inbox->count; i++)
        room += inbox->parts[i].is_requested ? reply_count(inbox->parts[i].entries) : 0;
    entries = memory_new(room * sizeof(*entries));
    page.entries = entries;
    page.count = merge_parts(inbox, entries);
    page.seen = page.count;
    next_page(inbox, next);
    inbox->done(inbox->ctx, RC_OK, &page);
    free(entries);
}

static bool
is_score(const struct redisReply *reply)
{
    const struct bytes text = reply_bytes(reply);

    return text.len > 0 && text.len < PART_CURSOR_MAX;
}

/* The reply contains the inbox score of each notification. */
static bool
read_part(struct inbox_part *part, const struct redisReply *reply)
{
    if (!reply_is_array(reply, 4) || reply_text(reply_at(reply, 0)) == NULL ||
        strlen(reply_text(reply_at(reply, 0))) >= PART_CURSOR_MAX ||
        !reply_is_array(reply_at(reply, 1), 0))
        return false;
    part->last = reply_text(reply_at(reply, 0));
    part->entries = reply_at(reply, 1);
    part->scores = reply_at(reply, 2);
    if (!reply_is_array(part->scores, reply_count(part->entries)))
        return false;
    for (size_t i = 0; i < reply_count(part->entries); i++)
        if (!is_score(reply_at(part->scores, i)))
            return false;
    return true;
}

static bool
on_inbox_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct inbox *inbox = (struct inbox *)request;
    struct inbox_part *part = &inbox->parts[shard == inbox->parts[0].shard ? 0 : 1];
    const char *large = reply_text(reply_at(reply, 3));

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
request_part(struct inbox *inbox, struct inbox_part *part, const char *user, const char *count,
             bool undelivered_only)
{
    struct arguments arguments = {.argc = 0};

    shard_arguments(part->shard, &arguments);
    argument(&arguments, user);
    argument(&arguments, part->after);
    argument(&arguments, count);
    argument(&arguments, undelivered_only ? "undelivered" : "all");
    part->is_requested = true;
    shard_request_send_script(&inbox->request, part->shard, STORE_SCRIPT_inbox, 1, &arguments);
}

/* A cursor that is a single score applies to both parts. */
static void
parse_cursor(struct inbox *inbox, const char *after)
{
    const size_t len = strcspn(after, (const char[]){INBOX_AND, '\0'});

    snprintf(inbox->parts[0].after, PART_CURSOR_MAX, "%.*s", (int)len, after);
    snprintf(inbox->parts[1].after, PART_CURSOR_MAX, "%s",
             after[len] != '\0' ? after + len + 1 : after);
}

void
store_inbox_cursor_after(struct cursor cursor, char ret_after[STORE_INBOX_CURSOR_MAX])
{
    snprintf(ret_after, STORE_INBOX_CURSOR_MAX, "%" PRIu64 "%c%" PRIu64,
             entry_id_score(cursor.shared), INBOX_AND, entry_id_score(cursor.own));
}

enum rc
store_inbox(struct store *store, const char *user, const char *after, size_t max,
            bool undelivered_only, store_paged *done, void *ctx)
{
    const unsigned own_shard = store_shard_of(store, user);
    struct inbox *inbox;
    char count[24];

    if (!store_serves(store, user))
        return RC_AGAIN;
    inbox = shard_request_new(sizeof(*inbox), store, &inbox_kind);
    inbox->done = done;
    inbox->ctx = ctx;
    inbox->parts[inbox->count++].shard = &store->shards[0];
    if (own_shard > 0)
        inbox->parts[inbox->count++].shard = &store->shards[own_shard];
    parse_cursor(inbox, after);
    snprintf(count, sizeof(count), "%zu", max < PAGE_MAX ? max : PAGE_MAX);
    for (unsigned i = 0; i < inbox->count; i++) {
        struct inbox_part *part = &inbox->parts[i];

        if (strcmp(part->after, INBOX_ENDED) != 0)
            request_part(inbox, part, user, count, undelivered_only);
    }
    return shard_request_await(&inbox->request);
}
