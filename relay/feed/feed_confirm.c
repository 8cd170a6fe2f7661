/* feed_confirm.c: determines which WAL is stored and safe on disk, so that it may be confirmed. */
#include "feed/feed_confirm.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "feed/feed_parts.h"

/* PostgreSQL can be built with WAL pages of up to 64 kB. */
#define WAL_PAGE_BYTES_MAX (64 * 1024)

/*
 * A server that waits for new WAL sends keepalives without a reply request. A keepalive with a
 * reply request may arrive while the server is still reading WAL and the decoder buffers earlier
 * transactions. The decoder flushes them before it reads another WAL page. So all changes up to the
 * previous keepalive have arrived if the server is now on another page or has not advanced.
 */
uint64_t
feed_confirm_read_lsn(struct feed *feed, const struct walmsg *keepalive)
{
    uint64_t before = feed->confirm.keepalive_lsn;

    feed->confirm.keepalive_lsn = keepalive->wal_end;
    if (!keepalive->reply_requested || keepalive->wal_end == before)
        return keepalive->wal_end;
    return keepalive->wal_end / WAL_PAGE_BYTES_MAX > before / WAL_PAGE_BYTES_MAX ? before : 0;
}

/*
 * Until its fsync is complete, a stored notification can be lost if the machine fails, or if the
 * store is killed during a slow background fsync. KeyDB has no WAITAOF, so the feed waits for a
 * fixed delay. If the store restarts with less data before that, its progress is also older, and
 * PostgreSQL still has the lost changes.
 */
static void
update_synced(struct feed *feed)
{
    int64_t now_us = clock_monotonic_us();
    int64_t delay_us = store_fsync_delay_us(feed->store);

    if (delay_us == 0) {
        feed->confirm.mark_count = 0;
        feed->confirm.synced_lsn = feed->confirm.stored_lsn;
        return;
    }
    while (feed->confirm.mark_count > 0 &&
           feed->confirm.marks[feed->confirm.mark_first].at_us + delay_us <= now_us) {
        feed->confirm.synced_lsn = feed->confirm.marks[feed->confirm.mark_first].lsn;
        feed->confirm.mark_first = (feed->confirm.mark_first + 1) % FEED_MARKS_MAX;
        feed->confirm.mark_count--;
    }
    if (feed->confirm.stored_lsn <= feed->confirm.marked_lsn ||
        feed->confirm.mark_count == FEED_MARKS_MAX)
        return;
    feed->confirm.marks[(feed->confirm.mark_first + feed->confirm.mark_count) % FEED_MARKS_MAX] =
        (struct feed_mark){now_us, feed->confirm.stored_lsn};
    feed->confirm.mark_count++;
    feed->confirm.marked_lsn = feed->confirm.stored_lsn;
}

/*
 * While a shard is unavailable, no WAL is confirmed, so PostgreSQL sends the shard's notifications
 * again.
 */
void
feed_confirm_update(struct feed *feed)
{
    bool wants_replicas = store_min_replicas(feed->store) > 0;

    if (!store_is_complete(feed->store))
        return;
    update_synced(feed);
    feed->confirm.confirmed_lsn =
        wants_replicas && feed->confirm.replicated_lsn < feed->confirm.synced_lsn
            ? feed->confirm.replicated_lsn
            : feed->confirm.synced_lsn;
}

static void
on_replicated(void *ctx, enum rc rc)
{
    struct feed *feed = feed_ticket_redeem(ctx);

    if (feed == NULL)
        return;
    if (rc == RC_OK)
        feed->confirm.replicated_lsn = feed->confirm.replicating_lsn;
    feed->confirm.replicating_lsn = 0;
}

void
feed_confirm_replicas(struct feed *feed)
{
    struct feed_ticket *ticket;

    if (store_min_replicas(feed->store) == 0 || !store_is_complete(feed->store) ||
        feed->confirm.replicating_lsn != 0 ||
        feed->confirm.stored_lsn <= feed->confirm.replicated_lsn)
        return;
    ticket = memory_new(sizeof(*ticket));
    *ticket = (struct feed_ticket){feed, feed->link.attempt};
    if (store_replicate(feed->store, on_replicated, ticket) != RC_OK)
        free(ticket); /* the feedback timer retries the request */
    else
        feed->confirm.replicating_lsn = feed->confirm.stored_lsn;
}

void
feed_confirm_reset(struct feed *feed)
{
    feed->confirm.received_lsn = 0;
    feed->confirm.stored_lsn = 0;
    feed->confirm.synced_lsn = 0;
    feed->confirm.replicated_lsn = 0;
    feed->confirm.replicating_lsn = 0;
    feed->confirm.confirmed_lsn = 0;
    feed->confirm.marked_lsn = 0;
    feed->feedback.reported_lsn = 0;
    feed->confirm.keepalive_lsn = 0;
    feed->confirm.idle_lsn = 0;
    feed->confirm.mark_first = 0;
    feed->confirm.mark_count = 0;
}
