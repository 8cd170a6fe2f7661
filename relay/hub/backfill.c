/*
 * backfill.c: fills the replay buffer at the start of a relay. Its clients reconnect together, and
 * most have missed the same notifications, which are then read from the store once.
 */
#include "hub/hub_private.h"

#include <utlist.h>

#define PAGE 256

static void request(struct hub *hub);

/* The sessions that waited read from the buffer what it has, and the rest from the store. */
static void
finish(struct hub *hub)
{
    struct session *session;

    hub->backfill.state = BACKFILL_DONE;
    DL_FOREACH (hub->sessions, session)
        session_mark(session, READY_ADVANCE);
}

static void
on_earlier(void *ctx, enum rc rc, const struct store_page *page)
{
    struct hub *hub = ctx;
    struct replay_buffer *buffer = &hub->replay_buffer;
    /* Otherwise it was emptied, or was full and has dropped its oldest notification. */
    bool has_room = entry_id_equal(buffer->base[0], hub->backfill.base);

    for (size_t i = 0; rc == RC_OK && i < page->count && has_room; i++) {
        const struct entry *entry = &page->entries[i];
        struct notification *notification = hub_notification_new(hub, entry, &entry->id);

        has_room = replay_buffer_prepend(buffer, notification);
        notification_unref(notification);
    }
    if (rc == RC_OK && page->count > 0 && page->has_more && has_room)
        request(hub);
    else
        finish(hub);
}

static void
request(struct hub *hub)
{
    hub->backfill = (struct backfill){BACKFILL_READING, hub->replay_buffer.base[0]};
    if (store_earlier(hub->store, hub->backfill.base, PAGE, on_earlier, hub) != RC_OK)
        finish(hub);
}

void
backfill_start(struct hub *hub)
{
    /* With several shards the order of earlier notifications depends on all of them. */
    if (hub->backfill.state == BACKFILL_WAITING && hub->has_head && hub->shards == 1 &&
        store_is_read(hub->store, 0))
        request(hub);
}
