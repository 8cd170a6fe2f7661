/* feed_confirm.c: how far the slot may be confirmed: what is stored, once it is safe on disk. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "feed/feed_private.h"

/* PostgreSQL can be built with WAL pages of up to 64 kB. */
#define WAL_PAGE_BYTES_MAX (64 * 1024)

/*
 * A server that waits for WAL says so without asking for a reply. One that asks for a reply may
 * be amid its reading, with a packet of earlier transactions still in the decoder's hands. The
 * decoder lets go of it before it reads another page, so all is here up to where the server was
 * one page ago, or where it still is.
 */
uint64_t
feed_confirm_read_lsn(struct feed *feed, const struct walmsg *keepalive)
{
    uint64_t before = feed->asked_lsn;

    feed->asked_lsn = keepalive->wal_end;
    if (!keepalive->reply_requested || keepalive->wal_end == before)
        return keepalive->wal_end;
    return keepalive->wal_end / WAL_PAGE_BYTES_MAX > before / WAL_PAGE_BYTES_MAX ? before : 0;
}

/*
 * An entry that the store acknowledged may still be lost with its machine, or with a kill while a
 * background fsync is slow, until that fsync is over. KeyDB has no WAITAOF, so time stands in for
 * it. If the store then comes back with less, its progress is less too, and PostgreSQL still has
 * the rest.
 */
static void
update_synced(struct feed *feed)
{
    int64_t now_us = clock_monotonic_us();
    int64_t delay_us = store_fsync_delay_us(feed->store);

    if (delay_us == 0) {
        feed->mark_count = 0;
        feed->synced_lsn = feed->stored_lsn;
        return;
    }
    while (feed->mark_count > 0 && feed->marks[feed->mark_first].at_us + delay_us <= now_us) {
        feed->synced_lsn = feed->marks[feed->mark_first].lsn;
        feed->mark_first = (feed->mark_first + 1) % FEED_MARKS_MAX;
        feed->mark_count--;
    }
    if (feed->stored_lsn <= feed->marked_lsn || feed->mark_count == FEED_MARKS_MAX)
        return;
    feed->marks[(feed->mark_first + feed->mark_count) % FEED_MARKS_MAX] =
        (struct feed_mark){now_us, feed->stored_lsn};
    feed->mark_count++;
    feed->marked_lsn = feed->stored_lsn;
}

void
feed_confirm_update(struct feed *feed)
{
    bool wants_replicas = store_min_replicas(feed->store) > 0;

    update_synced(feed);
    feed->confirmed_lsn = wants_replicas && feed->replicated_lsn < feed->synced_lsn
                              ? feed->replicated_lsn
                              : feed->synced_lsn;
}

static void
on_replicated(void *ctx, enum rc rc)
{
    struct feed *feed = feed_take_ticket(ctx);

    if (feed == NULL)
        return;
    if (rc == RC_OK)
        feed->replicated_lsn = feed->replicating_lsn;
    feed->replicating_lsn = 0;
}

void
feed_confirm_replicas(struct feed *feed)
{
    struct feed_ticket *ticket;

    if (store_min_replicas(feed->store) == 0 || feed->replicating_lsn != 0 ||
        feed->stored_lsn <= feed->replicated_lsn)
        return;
    ticket = memory_new(sizeof(*ticket));
    *ticket = (struct feed_ticket){feed, feed->attempt};
    if (store_replicate(feed->store, on_replicated, ticket) != RC_OK)
        free(ticket); /* next time */
    else
        feed->replicating_lsn = feed->stored_lsn;
}

void
feed_confirm_reset(struct feed *feed)
{
    feed->received_lsn = 0;
    feed->stored_lsn = 0;
    feed->synced_lsn = 0;
    feed->replicated_lsn = 0;
    feed->replicating_lsn = 0;
    feed->confirmed_lsn = 0;
    feed->marked_lsn = 0;
    feed->told_lsn = 0;
    feed->asked_lsn = 0;
    feed->idle_lsn = 0;
    feed->mark_first = 0;
    feed->mark_count = 0;
}
