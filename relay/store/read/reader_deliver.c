/* reader_deliver.c: passes notifications to the hub, in commit order across shards. */
#include "store/read/reader_deliver.h"

#include "base/clock.h"
#include "base/log.h"
#include "store/connection/reply.h"
#include "store/read/order.h"
#include "store/store.h"

static void
report_foreign_entries(struct reader *reader, const struct shard_stream *stream, size_t count)
{
    if (count == 0)
        return;
    stats_add(reader->stats, STAT_STORE_ERRORS, count);
    log_warn("store", "skipped foreign stream entries", LOG_TEXT("key", stream->stream_key),
             LOG_UINT("count", count));
}

void
reader_pass(void *ctx, const struct entry *entry)
{
    struct reader *reader = ctx;
    struct shard_stream *stream = &reader->streams[entry->shard];
    struct entry labelled = *entry;

    labelled.id = stream->delivered = history_label(&stream->history, entry->id);
    reader->events.on_entry(reader->events.ctx, &labelled);
}

/* Delivers directly, with a single shard. */
static void
deliver_entries(struct reader *reader, const struct shard_stream *stream,
                const struct redisReply *entries)
{
    struct entry entry;
    size_t foreign_entries = 0;

    for (size_t i = 0; i < reply_count(entries); i++) {
        if (reply_entry(reply_at(entries, i), &entry) == RC_OK)
            reader_pass(reader, &entry);
        else
            foreign_entries++;
    }
    report_foreign_entries(reader, stream, foreign_entries);
}

void
reader_deliver(struct reader *reader, unsigned shard, const struct redisReply *entries)
{
    struct shard_stream *stream = &reader->streams[shard];
    struct entry_id last;

    if (reply_count(entries) == 0)
        return;
    if (reader->order == NULL)
        deliver_entries(reader, stream, entries);
    else
        order_add(reader->order, shard, entries);
    if (reply_entry_id(reply_at(entries, reply_count(entries) - 1), &last) != RC_OK)
        return;
    stream->at = history_label(&stream->history, last);
    if (reader->order != NULL)
        store_record_position(reader->store, shard, stream->at, order_seen(reader->order, shard));
}

void
reader_release(struct reader *reader)
{
    if (reader->order == NULL)
        return;
    order_release(reader->order, clock_monotonic_us());
    stats_add(reader->stats, STAT_STORE_UNORDERED, order_unordered(reader->order));
    for (unsigned i = 0; i < reader->stream_count; i++)
        report_foreign_entries(reader, &reader->streams[i],
                               order_foreign_entries(reader->order, i));
    if (order_waits(reader->order) && !ev_is_active(&reader->order_timer))
        ev_timer_again(reader->loop, &reader->order_timer);
}

void
reader_stop_waiting(struct reader *reader)
{
    int64_t before_us = clock_monotonic_us() - READER_ORDER_WAIT_S * INT64_C(1000000);
    int shard;

    while ((shard = order_skip_overdue(reader->order, before_us)) >= 0)
        log_warn("store",
                 "shard is behind or lost data: delivering other shards' notifications regardless",
                 LOG_INT("shard", shard), LOG_INT("waited_s", READER_ORDER_WAIT_S));
}
