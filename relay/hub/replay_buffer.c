/*
 * replay_buffer.c: the newest notifications in memory, for sessions that are slightly behind; and
 * how the buffer is filled from the store at the start of a relay.
 */
#include "hub/replay_buffer.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/memory.h"
#include "hub/hub_private.h"

#define BACKFILL_PAGE 256
#define BACKFILL_PAGE_OF_SHARD 64 /* with several shards */

void
replay_buffer_open(struct replay_buffer *buffer, unsigned shards)
{
    buffer->shards = shards;
    buffer->reached = memory_new(REPLAY_BUFFER_COUNT_MAX * shards * sizeof(*buffer->reached));
}

static unsigned
slot_of(const struct replay_buffer *buffer, unsigned cursor)
{
    return (buffer->first + cursor) % REPLAY_BUFFER_COUNT_MAX;
}

static void
drop_oldest(struct replay_buffer *buffer)
{
    struct notification *oldest = buffer->notifications[buffer->first];

    /* otherwise see replay_buffer_begin */
    if (entry_id_less(buffer->base[oldest->shard], oldest->id))
        buffer->base[oldest->shard] = oldest->id;
    buffer->bytes -= oldest->text_len;
    buffer->first = slot_of(buffer, 1);
    buffer->count--;
    notification_unref(oldest);
}

static void
empty(struct replay_buffer *buffer)
{
    while (buffer->count > 0)
        drop_oldest(buffer);
}

void
replay_buffer_close(struct replay_buffer *buffer)
{
    empty(buffer);
    free(buffer->reached);
    buffer->reached = NULL;
}

void
replay_buffer_reset(struct replay_buffer *buffer, const struct entry_id *head)
{
    empty(buffer);
    memcpy(buffer->base, head, buffer->shards * sizeof(*head));
    memcpy(buffer->head, head, buffer->shards * sizeof(*head));
    memcpy(buffer->newest, head, buffer->shards * sizeof(*head));
    memset(buffer->begin, 0, sizeof(buffer->begin));
}

/* The buffer may contain earlier notifications of the shard: all cursors are past them. */
void
replay_buffer_begin(struct replay_buffer *buffer, unsigned shard, struct entry_id newest)
{
    buffer->base[shard] = buffer->head[shard] = buffer->newest[shard] = newest;
    buffer->begin[shard] = buffer->head[0];
}

void
replay_buffer_add(struct replay_buffer *buffer, struct notification *notification)
{
    unsigned slot;

    while (buffer->count > 0 && (buffer->count == REPLAY_BUFFER_COUNT_MAX ||
                                 buffer->bytes + notification->text_len > REPLAY_BUFFER_BYTES_MAX))
        drop_oldest(buffer);
    slot = slot_of(buffer, buffer->count++);
    buffer->notifications[slot] = notification_ref(notification);
    buffer->bytes += notification->text_len;
    buffer->head[notification->shard] = buffer->newest[notification->shard] = notification->id;
    memcpy(buffer->reached + slot * buffer->shards, buffer->newest,
           buffer->shards * sizeof(*buffer->newest));
}

/* Up to the next one of its shard, the first notification is what was read of the shard. */
static void
precede(struct replay_buffer *buffer, const struct notification *first)
{
    unsigned nth = 0;

    do
        buffer->reached[slot_of(buffer, nth++) * buffer->shards + first->shard] = first->id;
    while (nth < buffer->count &&
           buffer->notifications[slot_of(buffer, nth)]->shard != first->shard);
    if (nth == buffer->count)
        buffer->newest[first->shard] = first->id;
}

bool
replay_buffer_prepend(struct replay_buffer *buffer, struct notification *notification)
{
    const unsigned shard = notification->shard;

    if (buffer->count == REPLAY_BUFFER_COUNT_MAX ||
        buffer->bytes + notification->text_len > REPLAY_BUFFER_BYTES_MAX)
        return false;
    buffer->first = slot_of(buffer, REPLAY_BUFFER_COUNT_MAX - 1);
    buffer->count++;
    buffer->bytes += notification->text_len;
    buffer->notifications[buffer->first] = notification_ref(notification);
    memcpy(buffer->reached + buffer->first * buffer->shards, buffer->base,
           buffer->shards * sizeof(*buffer->base));
    precede(buffer, notification);
    buffer->base[shard] = entry_id_before(notification->id);
    return true;
}

struct cursor
replay_buffer_base(const struct replay_buffer *buffer, unsigned own)
{
    return cursor_max(cursor_from_heads(buffer->base, own),
                      (struct cursor){.shared = buffer->begin[own]});
}

struct cursor
replay_buffer_head(const struct replay_buffer *buffer, unsigned own)
{
    return cursor_from_heads(buffer->head, own);
}

bool
replay_buffer_follows(const struct replay_buffer *buffer, unsigned own, struct cursor after)
{
    return cursor_reaches(after, replay_buffer_base(buffer, own));
}

bool
replay_buffer_covers(const struct replay_buffer *buffer, unsigned own, struct cursor after)
{
    return replay_buffer_follows(buffer, own, after) &&
           cursor_reaches(replay_buffer_head(buffer, own), after);
}

/* Binary search: `reached` never decreases from one notification to the next. */
struct notification *
replay_buffer_next(const struct replay_buffer *buffer, unsigned own, struct cursor after)
{
    unsigned low = 0;
    unsigned high = buffer->count;

    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        const struct entry_id *reached = buffer->reached + slot_of(buffer, middle) * buffer->shards;

        if (cursor_reaches(after, cursor_from_heads(reached, own)))
            low = middle + 1;
        else
            high = middle;
    }
    return low < buffer->count ? buffer->notifications[slot_of(buffer, low)] : NULL;
}

/*
 * ---- the start of a relay
 *
 * Its clients reconnect together, and most have missed the same notifications, which are then read
 * from the store once: backwards, and from several shards in commit order (order.c). Where a stream
 * cannot be read further, all end: a cursor of shard 0 names all shards.
 */

/* Notifications of one shard that are not in the buffer yet, newest first. */
struct earlier_page {
    struct hub *hub;
    struct notification *notifications[BACKFILL_PAGE];
    unsigned at;
    unsigned count;
    bool has_more; /* the stream may have earlier ones */
    bool is_cut;   /* they cannot be read */
};

static size_t
page_size(const struct hub *hub)
{
    return hub->shards == 1 ? BACKFILL_PAGE : BACKFILL_PAGE_OF_SHARD;
}

/* The sessions that waited read from the buffer what it has, and the rest from the store. */
static void
backfill_finish(struct hub *hub)
{
    struct backfill *backfill = &hub->backfill;
    struct session *session;

    for (unsigned k = 0; backfill->pages != NULL && k < hub->shards; k++) {
        struct earlier_page *page = &backfill->pages[k];

        while (page->at < page->count)
            notification_unref(page->notifications[page->at++]);
    }
    free(backfill->pages);
    backfill->pages = NULL;
    backfill->state = BACKFILL_DONE;
    DL_FOREACH (hub->sessions, session)
        session_mark(session, READY_ADVANCE);
}

/* True if `one` is delivered later than `other`, of another shard. */
static bool
is_later(const struct notification *one, const struct notification *other)
{
    const struct frame *a = &one->frame, *b = &other->frame;

    if (one->is_retry || a->commit_lsn == 0)
        return true; /* commit order does not apply */
    if (other->is_retry || b->commit_lsn == 0)
        return false;
    return position_less((struct position){b->commit_lsn, b->ordinal},
                         (struct position){a->commit_lsn, a->ordinal});
}

/* Returns the page with the latest notification; NULL: a page must be read, or all are empty. */
static struct earlier_page *
latest_page(struct backfill *backfill, unsigned shards)
{
    struct earlier_page *latest = NULL;

    for (unsigned k = 0; k < shards; k++) {
        struct earlier_page *page = &backfill->pages[k];

        if (page->at == page->count && (page->has_more || page->is_cut))
            return NULL;
        if (page->at < page->count &&
            (latest == NULL ||
             is_later(page->notifications[page->at], latest->notifications[latest->at])))
            latest = page;
    }
    return latest;
}

/* Adds a notification, whose cursor names what precedes the buffer. False: there is no room. */
static bool
prepend(struct hub *hub, struct notification *notification)
{
    struct replay_buffer *buffer = &hub->replay_buffer;
    struct entry_id heads[STORE_SHARDS_MAX], own[STORE_SHARDS_MAX];
    struct notification *moved;
    bool has_room;

    memcpy(heads, buffer->base, hub->shards * sizeof(*heads));
    heads[notification->shard] = notification->id;
    cursor_to_heads(cursor_from_heads(heads, notification->shard), notification->shard, own,
                    hub->shards);
    moved =
        notification_new_at(notification, hub->epoch, notification->shard == 0 ? heads : own, NULL);
    has_room = replay_buffer_prepend(buffer, moved);
    notification_unref(moved);
    memcpy(hub->backfill.base, buffer->base, sizeof(hub->backfill.base));
    return has_room;
}

static void backfill_continue(struct hub *hub);

static void
on_earlier(void *ctx, enum rc rc, const struct store_page *page)
{
    struct earlier_page *earlier = ctx;
    struct hub *hub = earlier->hub;

    earlier->at = earlier->count = 0;
    for (size_t i = 0; rc == RC_OK && i < page->count; i++) {
        const struct entry *entry = &page->entries[i];
        struct entry_id heads[STORE_SHARDS_MAX] = {{0, 0}};

        heads[entry->shard] = entry->id;
        earlier->notifications[earlier->count++] = hub_notification_new(hub, entry, heads);
    }
    earlier->has_more = rc == RC_OK && page->has_more && page->count > 0;
    earlier->is_cut = rc != RC_OK || (page->has_more && page->count == 0);
    if (--hub->backfill.requests == 0)
        backfill_continue(hub);
}

static void
request_page(struct hub *hub, unsigned shard)
{
    struct earlier_page *page = &hub->backfill.pages[shard];

    page->has_more = false;
    if (store_earlier(hub->store, shard, hub->replay_buffer.base[shard], page_size(hub), on_earlier,
                      page) == RC_OK)
        hub->backfill.requests++;
    else
        page->is_cut = true;
}

/* Otherwise the buffer was emptied, or was full and has dropped its oldest notification. */
static bool
is_unchanged(const struct hub *hub)
{
    return memcmp(hub->backfill.base, hub->replay_buffer.base,
                  hub->shards * sizeof(*hub->backfill.base)) == 0;
}

static void
backfill_continue(struct hub *hub)
{
    struct backfill *backfill = &hub->backfill;
    struct earlier_page *page;
    bool has_room = is_unchanged(hub);

    while (has_room && (page = latest_page(backfill, hub->shards)) != NULL) {
        struct notification *notification = page->notifications[page->at++];

        has_room = prepend(hub, notification);
        notification_unref(notification);
    }
    for (unsigned k = 0; has_room && k < hub->shards; k++)
        has_room = backfill->pages[k].at < backfill->pages[k].count || !backfill->pages[k].is_cut;
    for (unsigned k = 0; has_room && k < hub->shards; k++)
        if (backfill->pages[k].at == backfill->pages[k].count && backfill->pages[k].has_more)
            request_page(hub, k);
    if (backfill->requests == 0)
        backfill_finish(hub);
}

/* In a cluster, a relay does not read all shards (follow.c). */
static bool
reads_all(const struct hub *hub)
{
    for (unsigned k = 0; k < hub->shards; k++) {
        if (!store_is_read(hub->store, k) || !reader_follows(hub->reader, k))
            return false;
    }
    return true;
}

void
backfill_start(struct hub *hub)
{
    struct backfill *backfill = &hub->backfill;

    if (backfill->state != BACKFILL_WAITING || !hub->has_head || !reads_all(hub))
        return;
    *backfill = (struct backfill){
        .state = BACKFILL_READING,
        .pages = memory_new(hub->shards * sizeof(*backfill->pages)),
    };
    memcpy(backfill->base, hub->replay_buffer.base, sizeof(backfill->base));
    for (unsigned k = 0; k < hub->shards; k++) {
        backfill->pages[k].hub = hub;
        request_page(hub, k);
    }
    if (backfill->requests == 0)
        backfill_finish(hub);
}
