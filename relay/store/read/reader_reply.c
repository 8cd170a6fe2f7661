/* reader_reply.c: handles XREAD replies: memberships, reloads, notifications, then ack events. */
#include "store/read/reader_reply.h"

#include "base/log.h"
#include "store/connection/reply.h"
#include "store/read/control.h"
#include "store/read/reader_deliver.h"
#include "store/store.h"

#define READER_SIZE_DECAY 8 /* each reply lowers the largest entry size by an eighth */

static void
measure_entries(struct reader *reader, const struct redisReply *entries)
{
    reader->entry_bytes -= reader->entry_bytes / READER_SIZE_DECAY;
    for (size_t i = 0; i < reply_count(entries); i++) {
        size_t bytes = reply_size(reply_at(entries, i));

        if (bytes > reader->entry_bytes)
            reader->entry_bytes = bytes;
    }
}

static bool
report_missed(struct server_reader *server, struct tail *tail)
{
    struct reader *reader = server->reader;

    if (!tail_has_missed(tail))
        return false;
    log_info(server->name, "stream was trimmed before it was read: reloading its state",
             LOG_TEXT("key", tail->key));
    reader->events.on_resumed(reader->events.ctx);
    return true;
}

static void
report_missed_control(struct server_reader *server)
{
    struct reader *reader = server->reader;

    if (report_missed(server, &reader->control))
        reader->events.on_reload(reader->events.ctx, NULL);
}

/*
 * The entries of one reply by shard; NULL: no entries. Memberships are handled while the reply is
 * sorted.
 */
struct reply_parts {
    const struct redisReply *notifications[STORE_SHARDS_MAX];
    const struct redisReply *ack_events[STORE_SHARDS_MAX];
    enum lag lag;
};

static void
sort_stream(struct server_reader *server, const struct redisReply *stream,
            struct reply_parts *parts)
{
    struct reader *reader = server->reader;
    const struct bytes key = reply_bytes(reply_at(stream, 0));
    const struct redisReply *entries = reply_at(stream, 1);

    if (bytes_equal_text(key, reader->control.key)) {
        if (tail_begin(&reader->control, entries, server->entries_requested))
            parts->lag = LAG_MEMBERS;
        control_handle_changes(&reader->events, entries, reader->control.at);
    }
    for (unsigned i = 0; i < reader->stream_count; i++) {
        if (bytes_equal_text(key, reader->streams[i].ack_events.key))
            parts->ack_events[i] = entries;
        else if (bytes_equal_text(key, reader->streams[i].stream_key))
            parts->notifications[i] = entries;
    }
}

static void
handle_notifications(struct server_reader *server, struct reply_parts *parts)
{
    struct reader *reader = server->reader;

    for (unsigned i = 0; i < reader->stream_count; i++) {
        if (parts->notifications[i] == NULL)
            continue;
        if (reply_count(parts->notifications[i]) >= server->entries_requested)
            parts->lag = LAG_NOTIFICATIONS;
        measure_entries(reader, parts->notifications[i]);
        reader_deliver(reader, i, parts->notifications[i]);
    }
    reader_release(reader);
}

static void
handle_ack_events(struct server_reader *server, const struct reply_parts *parts)
{
    struct reader *reader = server->reader;
    const struct topology *topology = &reader->topology;
    bool has_more = false;

    for (unsigned i = 0; i < reader->stream_count; i++) {
        struct tail *ack_events = &reader->streams[i].ack_events;

        if (parts->ack_events[i] == NULL)
            continue;
        has_more |= tail_begin(ack_events, parts->ack_events[i], server->entries_requested);
        control_handle_ack_events(&reader->events, store_relay_id(reader->store),
                                  parts->ack_events[i], ack_events->at);
    }
    for (unsigned i = topology_first_shard(topology, server->number);
         i < topology->shards && !has_more; i = topology_next_shard(topology, i))
        (void)report_missed(server, &reader->streams[i].ack_events);
}

/*
 * Entries that must wait are dropped and read again, because their stream's position is unchanged.
 */
static void
handle_parts(struct server_reader *server, struct reply_parts *parts, bool is_stale)
{
    if (parts->lag == LAG_NONE && server->number == 0)
        report_missed_control(server);
    if (parts->lag == LAG_NONE && !is_stale)
        handle_notifications(server, parts);
    if (parts->lag == LAG_NONE)
        handle_ack_events(server, parts);
    server->lag = parts->lag;
}

void
reader_handle_reply(struct server_reader *server, const struct redisReply *reply, bool is_stale)
{
    struct reply_parts parts = {.lag = LAG_NONE};

    for (size_t i = 0; reply_is_array(reply, 0) && i < reply_count(reply); i++) {
        const struct redisReply *stream = reply_at(reply, i);

        if (reply_is_array(stream, 2) && reply_is_array(reply_at(stream, 1), 0))
            sort_stream(server, stream, &parts);
    }
    handle_parts(server, &parts, is_stale);
}
