/* reader.c: follows the streams of the store as they grow: connections, positions, deliveries. */
#include "store/reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/read/reader_private.h"
#include "store/servers/link.h"
#include "store/shards/shard.h"
#include "store/timeouts.h"

#define READER_ENTRIES 64     /* stream entries in one reply */
#define READER_ENTRIES_MIN 16 /* entries of each stream, with many streams */
#define READER_SIZE_DECAY 8   /* each reply lowers the largest entry size by an eighth */
/*
 * XREAD blocks without a timeout, because KeyDB 6.3.4 crashes if a client blocks with a timeout,
 * disconnects, and the timeout expires. The heartbeat stream (maintenance.c) shows whether the
 * store is alive.
 */
#define READER_BLOCK_MS "0"
#define READER_ENTRIES_LARGE 4                  /* entries of each stream, of any size */
#define READER_BYTES ((size_t)16 * 1024 * 1024) /* size of a reply, estimated from recent entries */
#define READER_WORDS 6                          /* arguments before the streams */
#define READER_STREAMS (2 + 3 * STORE_SHARDS_MAX)
#define READER_ARGC (READER_WORDS + 2 * READER_STREAMS)

#define READER_LIMIT_US INT64_C(600000000) /* after this time a lowered COUNT is doubled */

/* One XREAD. argv points into this struct and into the reader. */
struct reader_request {
    const char *argv[READER_ARGC];
    int argc;
    size_t entries;               /* COUNT */
    bool reads[STORE_SHARDS_MAX]; /* it reads the shard's stream */
    char count[24];
    char at[STORE_SHARDS_MAX][ENTRY_ID_TEXT_MAX];
};

/* The streams of one XREAD, and the id of the last entry read of each. */
struct stream_list {
    const char *keys[READER_STREAMS];
    const char *cursors[READER_STREAMS];
    size_t count;
};

static void
add_stream(struct stream_list *list, const char *key, const char *cursor)
{
    list->keys[list->count] = key;
    list->cursors[list->count++] = cursor;
}

/* False while the shard has enough stream entries in memory and no other shard waits for it. */
static bool
may_read_more(const struct reader *reader, unsigned shard)
{
    return reader->order == NULL || !order_is_full(reader->order, shard) ||
           order_is_awaited(reader->order, shard);
}

/*
 * A stream cannot be added to a blocked XREAD. So while a shard of a connection has enough entries
 * in memory, it is read only if a notification waits for one of its shards. A release retries.
 */
static bool
reader_request_is_held_back(const struct reader_connection *connection)
{
    const struct reader *reader = connection->reader;
    const struct topology *topology = &reader->topology;
    bool is_full = false, is_awaited = false;

    for (unsigned i = connection->number; reader->order != NULL && i < topology->shards;
         i = topology_next_shard(topology, i)) {
        is_full = is_full || !may_read_more(reader, i);
        is_awaited = is_awaited || order_is_awaited(reader->order, i);
    }
    return is_full && !is_awaited;
}

static void
add_streams(const struct reader_connection *connection, struct stream_list *list,
            struct reader_request *request)
{
    const struct reader *reader = connection->reader;
    const struct topology *topology = &reader->topology;

    /*
     * The control stream is first: a reply may contain memberships and notifications that depend on
     * them.
     */
    if (connection->number == 0)
        add_stream(list, reader->control.key, reader->control.at);
    if (connection->lag == LAG_MEMBERS)
        return;
    for (unsigned i = connection->number; i < topology->shards;
         i = topology_next_shard(topology, i)) {
        const struct shard_stream *stream = &reader->streams[i];

        if (connection->lag == LAG_NONE)
            add_stream(list, stream->ack_events.key, stream->ack_events.at);
        if (!may_read_more(reader, i))
            continue;
        add_stream(list, stream->cover.key, stream->cover.at);
        entry_id_text(history_position(&stream->history, stream->at), request->at[i]);
        add_stream(list, stream->stream_key, request->at[i]);
        request->reads[i] = true;
    }
    add_stream(list, connection->heartbeat_key, "$");
}

/* The next XREAD of a connection: its streams, positions and count. */
static void
reader_request_write(const struct reader_connection *connection, struct reader_request *ret_request)
{
    const struct reader *reader = connection->reader;
    struct reader_request *request = ret_request;
    struct stream_list list = {.count = 0};
    /* A whole reply is in memory, and a process that was paused has many stream entries to read. */
    const size_t fit = READER_BYTES / reader->streams_max / (reader->entry_bytes + 1);
    size_t argc = 0;

    memset(request->reads, 0, sizeof(request->reads));
    request->entries = fit < READER_ENTRIES_LARGE ? READER_ENTRIES_LARGE : fit;
    if (request->entries > reader->entries_max)
        request->entries = reader->entries_max;
    if (connection->entries_limit > 0 && request->entries > connection->entries_limit)
        request->entries = connection->entries_limit;
    *bytes_decimal(request->entries, request->count) = '\0';
    request->argv[argc++] = "XREAD";
    request->argv[argc++] = "COUNT";
    request->argv[argc++] = request->count;
    /* After a loss, an immediate reply shows that the connection works. */
    if (connection->lag == LAG_NONE && (connection->has_read || connection->entries_limit == 0)) {
        request->argv[argc++] = "BLOCK";
        request->argv[argc++] = READER_BLOCK_MS;
    }
    request->argv[argc++] = "STREAMS";
    add_streams(connection, &list, request);
    memcpy(request->argv + argc, list.keys, list.count * sizeof(*list.keys));
    memcpy(request->argv + argc + list.count, list.cursors, list.count * sizeof(*list.cursors));
    request->argc = (int)(argc + 2 * list.count);
}

static void
report_foreign_entries(struct reader *reader, const struct shard_stream *stream, size_t count)
{
    if (count == 0)
        return;
    stats_add(reader->stats, STAT_STORE_ERRORS, count);
    log_warn("store", "skipped foreign stream entries", LOG_TEXT("key", stream->stream_key),
             LOG_UINT("count", count));
}

/* An order_deliver: the hub receives the entry, with its generation. */
static void
reader_deliver(void *ctx, const struct entry *entry)
{
    struct reader *reader = ctx;
    struct shard_stream *stream = &reader->streams[entry->shard];
    struct entry labelled = *entry;

    labelled.id = stream->delivered = history_label(&stream->history, entry->id);
    reader->events.on_entry(reader->events.ctx, &labelled);
}

/*
 * Adds stream entries of a shard and advances its position. With several shards, reader_release
 * delivers them.
 */
static void
reader_add(struct reader *reader, unsigned shard, const struct redisReply *entries)
{
    struct shard_stream *stream = &reader->streams[shard];
    size_t foreign_entries = 0;
    struct entry_id last;
    struct entry entry;

    if (reply_count(entries) == 0)
        return;
    if (reader->order != NULL)
        order_add(reader->order, shard, entries);
    for (size_t i = 0; reader->order == NULL && i < reply_count(entries); i++) {
        if (entry_read(reply_at(entries, i), &entry) == RC_OK)
            reader_deliver(reader, &entry);
        else
            foreign_entries++;
    }
    report_foreign_entries(reader, stream, foreign_entries);
    if (reply_entry_id(reply_at(entries, reply_count(entries) - 1), &last) != RC_OK)
        return;
    stream->at = history_label(&stream->history, last);
    if (reader->order != NULL)
        store_record_position(reader->store, shard, stream->at, order_seen(reader->order, shard));
}

/*
 * The feed stores nothing in a shard that is unavailable. If it has not replied for the time of a
 * wait, no notification waits for it.
 */
static void
skip_lost(struct reader *reader)
{
    const int64_t before_us = clock_monotonic_us() - READER_ORDER_WAIT_S * INT64_C(1000000);

    for (unsigned i = 0; i < reader->stream_count; i++) {
        const struct shard *shard = &reader->store->shards[i];

        if (shard->is_left_out && link_heard_us(shard->link) < before_us)
            order_skip(reader->order, i);
    }
}

/* Delivers the notifications that are ready. For several shards. */
static void
reader_release(struct reader *reader)
{
    if (reader->order == NULL)
        return;
    skip_lost(reader);
    order_release(reader->order, clock_monotonic_us());
    cover_report_shared(reader);
    stats_add(reader->stats, STAT_STORE_UNORDERED, order_unordered(reader->order));
    for (unsigned i = 0; i < reader->stream_count; i++)
        report_foreign_entries(reader, &reader->streams[i],
                               order_foreign_entries(reader->order, i));
    if (order_waits(reader->order) && !ev_is_active(&reader->order_timer))
        ev_timer_again(reader->loop, &reader->order_timer);
}

static bool
report_missed(struct reader_connection *connection, struct tail *tail)
{
    struct reader *reader = connection->reader;

    if (!tail_has_missed(tail))
        return false;
    log_info(connection->name, "stream was trimmed before it was read: reloading its state",
             LOG_TEXT("key", tail->key));
    reader->events.on_resumed(reader->events.ctx);
    return true;
}

/*
 * The entries of one reply by shard; NULL: no entries. Memberships are handled while the reply is
 * sorted.
 */
struct reply_parts {
    const struct redisReply *notifications[STORE_SHARDS_MAX];
    const struct redisReply *ack_events[STORE_SHARDS_MAX];
    const struct redisReply *covered[STORE_SHARDS_MAX];
    enum lag lag;
};

static void
sort_stream(struct reader_connection *connection, const struct redisReply *stream,
            struct reply_parts *parts)
{
    struct reader *reader = connection->reader;
    const struct bytes key = reply_bytes(reply_at(stream, 0));
    const struct redisReply *entries = reply_at(stream, 1);

    if (bytes_equal_text(key, reader->control.key)) {
        if (tail_begin(&reader->control, entries, connection->entries_requested))
            parts->lag = LAG_MEMBERS;
        control_handle_changes(&reader->events, entries, reader->control.at);
    }
    for (unsigned i = 0; i < reader->stream_count; i++) {
        if (bytes_equal_text(key, reader->streams[i].ack_events.key))
            parts->ack_events[i] = entries;
        else if (bytes_equal_text(key, reader->streams[i].stream_key))
            parts->notifications[i] = entries;
        else if (bytes_equal_text(key, reader->streams[i].cover.key))
            parts->covered[i] = entries;
    }
}

static void
handle_notifications(struct reader_connection *connection, struct reply_parts *parts)
{
    struct reader *reader = connection->reader;

    for (unsigned i = 0; i < reader->stream_count; i++) {
        struct shard_stream *stream = &reader->streams[i];

        if (reply_count(parts->notifications[i]) >= connection->entries_requested)
            parts->lag = LAG_NOTIFICATIONS;
        else if (stream->connection == connection && stream->cover.is_requested)
            stream->read_us = stream->requested_us;
        if (parts->notifications[i] == NULL)
            continue;
        reader->entry_bytes -= reader->entry_bytes / READER_SIZE_DECAY;
        for (size_t k = 0; k < reply_count(parts->notifications[i]); k++) {
            const size_t bytes = reply_size(reply_at(parts->notifications[i], k));

            if (bytes > reader->entry_bytes)
                reader->entry_bytes = bytes;
        }
        reader_add(reader, i, parts->notifications[i]);
    }
    reader_release(reader);
}

static void
handle_ack_events(struct reader_connection *connection, const struct reply_parts *parts)
{
    struct reader *reader = connection->reader;
    const struct topology *topology = &reader->topology;
    bool has_more = false;

    for (unsigned i = 0; i < reader->stream_count; i++) {
        struct tail *ack_events = &reader->streams[i].ack_events;

        if (parts->ack_events[i] == NULL)
            continue;
        has_more |= tail_begin(ack_events, parts->ack_events[i], connection->entries_requested);
        control_handle_ack_events(&reader->events, store_relay_id(reader->store),
                                  parts->ack_events[i], ack_events->at);
    }
    for (unsigned i = connection->number; i < topology->shards && !has_more;
         i = topology_next_shard(topology, i))
        (void)report_missed(connection, &reader->streams[i].ack_events);
}

static void
handle_covered(struct reader_connection *connection, const struct reply_parts *parts)
{
    struct reader *reader = connection->reader;

    for (unsigned i = 0; i < reader->stream_count; i++) {
        const struct cover_reply reply = {parts->notifications[i], parts->covered[i],
                                          reply_count(parts->notifications[i]) <
                                              connection->entries_requested};

        cover_receive(reader, i, &reply);
    }
    reader_release(reader);
}

/*
 * Delivers the stream entries of a reply and advances the positions. If `is_stale`, notifications
 * are dropped: their positions are outdated.
 */
static void
reader_handle_reply(struct reader_connection *connection, const struct redisReply *reply,
                    bool is_stale)
{
    struct reader *reader = connection->reader;
    struct reply_parts parts = {.lag = LAG_NONE};

    for (size_t i = 0; reply_is_array(reply, 0) && i < reply_count(reply); i++) {
        const struct redisReply *stream = reply_at(reply, i);

        if (reply_is_array(stream, 2) && reply_is_array(reply_at(stream, 1), 0))
            sort_stream(connection, stream, &parts);
    }
    /*
     * Entries that must wait are dropped and read again, because their stream's position is
     * unchanged.
     */
    if (parts.lag == LAG_NONE && connection->number == 0 &&
        report_missed(connection, &reader->control))
        reader->events.on_reload(reader->events.ctx, NULL);
    if (parts.lag == LAG_NONE && !is_stale)
        handle_notifications(connection, &parts);
    if (parts.lag != LAG_MEMBERS && !is_stale)
        handle_covered(connection, &parts);
    if (parts.lag == LAG_NONE)
        handle_ack_events(connection, &parts);
    connection->lag = parts.lag;
}

/* A shard that is being opened counts as followed: only new sessions depend on it. */
static void
update_store(const struct reader_connection *connection)
{
    const bool is_opening = connection->follow <= FOLLOW_OPENING && connection->number > 0;

    store_set_reader_follows(connection->reader->store, connection->number,
                             is_opening ||
                                 (link_is_up(connection->link) && connection->is_positioned &&
                                  (connection->has_read || connection->entries_limit == 0)));
}

static void on_read(void *ctx, const struct redisReply *reply);

/* Sends the next XREAD, unless one is in flight or the connection must wait. */
static void
read_next(struct reader_connection *connection)
{
    struct reader_request request;

    if (connection->reading || !connection->reader->has_start || !connection->is_positioned ||
        reader_request_is_held_back(connection))
        return;
    reader_request_write(connection, &request);
    connection->entries_requested = request.entries;
    connection->reading =
        follow_find_trimmed(connection, request.reads) == RC_OK &&
        link_send(connection->link, on_read, connection, request.argc, request.argv, NULL) == RC_OK;
    for (unsigned i = 0; i < connection->reader->stream_count && connection->reading; i++) {
        struct shard_stream *stream = &connection->reader->streams[i];

        if (stream->connection == connection)
            stream->cover.is_requested = request.reads[i];
    }
}

static void
read_all(struct reader *reader)
{
    for (unsigned i = 0; i < reader->connection_count; i++)
        read_next(&reader->connections[i]);
}

/*
 * The connection was lost before a reply. A server closes connections whose replies exceed its
 * client-output-buffer-limit, so the next reply has half of the entries. Until a reply arrives, the
 * relay is not ready. A single loss is logged by the link only: it may have other causes.
 */
static void
on_read_lost(struct reader_connection *connection)
{
    const size_t limit = connection->entries_requested / 2;

    connection->entries_limit = limit > 0 ? limit : 1;
    connection->limited_us = clock_monotonic_us();
    if (connection->was_lost)
        log_warn(connection->name, "connection lost before a reply: reading fewer entries",
                 LOG_UINT("entries", connection->entries_limit),
                 LOG_TEXT("hint", "if it repeats, raise client-output-buffer-limit normal of the "
                                  "store"));
    connection->was_lost = true;
}

/* The limit remains for a while: with the full COUNT, each burst would lose the connection. */
static void
raise_limit(struct reader_connection *connection)
{
    const int64_t now_us = clock_monotonic_us();

    if (connection->entries_limit == 0 || now_us - connection->limited_us < READER_LIMIT_US)
        return;
    connection->limited_us = now_us;
    connection->entries_limit *= 2;
    if (connection->entries_limit >= connection->reader->entries_max)
        connection->entries_limit = 0;
}

static void
on_read(void *ctx, const struct redisReply *reply)
{
    struct reader_connection *connection = ctx;
    struct reader *reader = connection->reader;
    bool is_stale = connection->is_stale;

    if (reply == NULL)
        return; /* the link was closed, or on_down follows */
    connection->reading = connection->is_stale = false;
    if (reply_is_error(reply)) {
        if (!link_is_redirected(connection->link, reply_text(reply)))
            stats_add(reader->stats, STAT_STORE_ERRORS, 1);
        link_restart(connection->link, reply_text(reply));
        return;
    }
    /* A server that accepts hello but rejects XREAD must not reset the backoff. */
    link_set_usable(connection->link);
    connection->reading = true; /* a callback may call reader_seek: no second XREAD */
    reader_handle_reply(connection, reply, is_stale);
    connection->reading = false;
    connection->was_lost = false;
    if (!connection->has_read) {
        connection->has_read = true;
        update_store(connection);
    }
    raise_limit(connection);
    follow_advance(reader);
    read_all(reader);
}

/* Runs while a notification waits for another shard, or while a shard is being merged. */
static void
on_order_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct reader *reader = timer->data;
    const int64_t before_us = clock_monotonic_us() - READER_ORDER_WAIT_S * INT64_C(1000000);
    int shard;

    (void)events;
    while ((shard = order_skip_overdue(reader->order, before_us)) >= 0)
        log_warn("store",
                 "shard is behind or lost data: delivering other shards' notifications regardless",
                 LOG_INT("shard", shard), LOG_INT("waited_s", READER_ORDER_WAIT_S));
    reader_release(reader);
    follow_advance(reader);
    read_all(reader);
    if (!order_waits(reader->order) && !follow_waits(reader))
        ev_timer_stop(loop, timer);
}

/* The newest id is read once: "$" in every XREAD would miss entries added in between. */
static void
on_positioned(void *ctx, const struct redisReply *reply)
{
    struct reader_connection *connection = ctx;
    struct reader *reader = connection->reader;

    if (reply == NULL)
        return;
    if (reply_is_error(reply)) {
        link_restart(connection->link, reply_text(reply));
        return;
    }
    connection->is_positioned = true;
    if (connection->number == 0)
        control_reconnected(reader, reply);
    update_store(connection);
    reader->events.on_resumed(reader->events.ctx);
    read_next(connection);
}

/* After the first reader_seek the reply is ignored: each shard has a position. */
static void
on_follow_reply(void *ctx, const struct redisReply *reply)
{
    struct reader_connection *connection = ctx;
    struct reader *reader = connection->reader;
    const char *error;

    if (reply == NULL)
        return;
    error = reply_is_error(reply) ? reply_text(reply) : NULL;
    if (error == NULL && connection->follow == FOLLOW_OPENING)
        error = follow_begin(connection, reply);
    if (error != NULL) {
        link_restart(connection->link, error);
        return;
    }
    connection->is_positioned = true;
    link_set_usable(connection->link);
    update_store(connection);
    follow_advance(reader);
    if (follow_waits(reader) && !ev_is_active(&reader->order_timer))
        ev_timer_again(reader->loop, &reader->order_timer);
    read_next(connection);
}

/* Until the shard is up, its node may lack the stream (shard.h). See reader_resume. */
static void
open_stream(struct reader_connection *connection)
{
    if (connection->reader->store->shards[connection->number].is_up &&
        follow_request(connection, on_follow_reply) != RC_OK)
        link_restart(connection->link, "could not send a command");
}

/* An id above the newest id dates from before the store was emptied. */
static void
on_ack_events_newest(void *ctx, const struct redisReply *reply)
{
    struct tail *ack_events = ctx;
    char newest[ENTRY_ID_TEXT_MAX] = "0-0";
    struct entry_id at = {0, 0}, end = {0, 0};

    if (reply == NULL)
        return;
    if (reply_is_error(reply)) {
        link_restart(ack_events->link, reply_text(reply));
        return;
    }
    if (reply_is_array(reply, 1))
        control_read_cursor(reply_at(reply, 0), newest);
    if (entry_id_read(ack_events->at, strlen(ack_events->at), &at) != RC_OK ||
        entry_id_read(newest, strlen(newest), &end) != RC_OK || entry_id_less(end, at))
        snprintf(ack_events->at, sizeof(ack_events->at), "%s", newest);
}

static void
send_newest(struct reader_connection *connection, const char *key, unsigned count,
            link_reply *reply, void *ctx)
{
    char count_text[16];
    const char *argv[] = {"XREVRANGE", key, "+", "-", "COUNT", count_text};

    snprintf(count_text, sizeof(count_text), "%u", count);
    if (link_send(connection->link, reply, ctx, 6, argv, NULL) != RC_OK)
        link_restart(connection->link, "could not send a command");
}

/* Replies arrive in order: after the last reply, all positions are known. */
static void
on_up(void *ctx)
{
    struct reader_connection *connection = ctx;
    struct reader *reader = connection->reader;
    const struct topology *topology = &reader->topology;

    connection->is_positioned = connection->has_read = false;
    connection->lag = LAG_NONE;
    for (unsigned i = connection->number; i < topology->shards;
         i = topology_next_shard(topology, i)) {
        const struct shard *shard = &reader->store->shards[i];
        const char *argv[] = {shard->stream_key, shard->prefix};

        if (link_call(connection->link, STORE_SCRIPT_history, 1, follow_history,
                      &reader->streams[i], 2, argv, NULL) != RC_OK)
            link_restart(connection->link, "could not send a command");
        cover_reset(reader, i);
        reader->streams[i].read_us = 0;
        send_newest(connection, reader->streams[i].ack_events.key, 1, on_ack_events_newest,
                    &reader->streams[i].ack_events);
    }
    if (connection->follow == FOLLOW_OPENING && reader->has_start)
        open_stream(connection);
    else if (connection->number == 0)
        send_newest(connection, reader->control.key, CONTROL_NEWEST_MAX, on_positioned, connection);
    else
        send_newest(connection, connection->heartbeat_key, 1, on_positioned, connection);
}

static void
on_down(void *ctx, const char *reason)
{
    struct reader_connection *connection = ctx;

    (void)reason; /* the link has logged the reason */
    if (connection->reading && !connection->has_read && !link_is_busy(connection->link))
        on_read_lost(connection);
    connection->reading = connection->is_stale = false;
    update_store(connection);
}

/*
 * An idle store sends nothing but heartbeats, and there are none while the store is full, runs a
 * script, or while the shard waits for keys that another node may have.
 */
static bool
ignores_timeout(void *ctx)
{
    const struct reader_connection *connection = ctx;
    const struct store *store = connection->reader->store;
    const struct shard *shard = &store->shards[connection->number];

    return link_is_up(connection->link) &&
           (store_rejects_heartbeats(store) || link_is_busy(shard->link) ||
            shard->place.other_node[0] != '\0');
}

static void
name_connection(struct reader_connection *connection, struct reader *reader, unsigned number)
{
    char prefix[STORE_PREFIX_MAX];

    connection->reader = reader;
    connection->number = number;
    topology_shard_prefix(&reader->topology, reader->config->store.prefix, number, prefix);
    key_write(connection->heartbeat_key, prefix, KEY_HEARTBEAT);
    if (reader->connection_count > 1)
        snprintf(connection->name, sizeof(connection->name), "store-reader-%u", number);
    else
        snprintf(connection->name, sizeof(connection->name), "store-reader");
}

static void
open_connection(struct reader_connection *connection)
{
    struct reader *reader = connection->reader;
    const struct topology *topology = &reader->topology;
    const struct link_events events = {
        .on_up = on_up, .on_down = on_down, .ignores_timeout = ignores_timeout, .ctx = connection};
    const struct link_target target = {reader->store->servers, connection->number, connection->name,
                                       false};

    connection->link = link_open(reader->loop, reader->config, &target, READER_TIMEOUT_S, &events);
    for (unsigned i = connection->number; i < topology->shards;
         i = topology_next_shard(topology, i))
        reader->streams[i].ack_events.link = connection->link;
    update_store(connection);
}

static void
name_keys(struct reader *reader, const struct config *config)
{
    char prefix[STORE_PREFIX_MAX];

    for (unsigned i = 0; i < reader->stream_count; i++) {
        struct shard_stream *stream = &reader->streams[i];

        stream->number = i;
        stream->connection = &reader->connections[topology_connection_of(&reader->topology, i)];
        topology_shard_prefix(&reader->topology, config->store.prefix, i, prefix);
        key_write(stream->stream_key, prefix, KEY_STREAM);
        key_write(stream->ack_events.key, prefix, KEY_ACK_EVENTS);
        key_write(stream->cover.key, prefix, KEY_COVERED);
        cover_reset(reader, i);
    }
    topology_shard_prefix(&reader->topology, config->store.prefix, 0, prefix);
    key_write(reader->control.key, prefix, KEY_CONTROL);
}

static void
count_followed(const struct reader *reader)
{
    unsigned count = 0;

    for (unsigned i = 0; i < reader->stream_count; i++)
        count +=
            reader->connections[topology_connection_of(&reader->topology, i)].follow != FOLLOW_NONE;
    stats_set(reader->stats, STAT_STORE_FOLLOWED, count);
}

struct reader *
reader_open(struct ev_loop *loop, const struct config *config, struct store *store,
            struct stats *stats, const struct reader_events *events)
{
    const unsigned count = store_shards(store);
    struct reader *reader = memory_new(sizeof(*reader) + count * sizeof(*reader->streams));

    reader->store = store;
    reader->loop = loop;
    reader->config = config;
    reader->stats = stats;
    reader->events = *events;
    if (count > 1)
        reader->order = order_new(count, reader_deliver, cover_report, reader);
    ev_init(&reader->order_timer, on_order_timer);
    reader->order_timer.repeat = READER_ORDER_CHECK_S;
    reader->order_timer.data = reader;
    reader->stream_count = count;
    reader->topology = topology_of(config);
    reader->connection_count = reader->topology.connections;
    reader->streams_max = topology_max_shards(&reader->topology);
    reader->entries_max = READER_ENTRIES / reader->streams_max;
    if (reader->entries_max < READER_ENTRIES_MIN)
        reader->entries_max = READER_ENTRIES_MIN;
    name_keys(reader, config);
    for (unsigned i = 0; i < reader->connection_count; i++)
        name_connection(&reader->connections[i], reader, i);
    for (unsigned i = 1; i < reader->connection_count; i++)
        order_leave(reader->order, i);
    reader->connections[0].follow = FOLLOW_DONE;
    open_connection(&reader->connections[0]);
    reader->control.link = reader->connections[0].link;
    count_followed(reader);
    return reader;
}

void
reader_close(struct reader *reader)
{
    if (reader == NULL)
        return;
    for (unsigned i = 0; i < reader->connection_count; i++)
        link_close(reader->connections[i].link);
    ev_timer_stop(reader->loop, &reader->order_timer);
    order_free(reader->order);
    free(reader);
}

void
reader_seek(struct reader *reader, const struct entry_id *after)
{
    struct position newest_positions[STORE_SHARDS_MAX];
    bool has_changed[STORE_SHARDS_MAX];

    for (unsigned i = 0; i < reader->stream_count; i++) {
        struct shard_stream *stream = &reader->streams[i];
        const char *epoch = reader->store->shards[i].epoch;

        stream->at = stream->delivered = after[i];
        cover_reset(reader, i);
        newest_positions[i] = store_newest_position(reader->store, i);
        has_changed[i] = strcmp(stream->epoch, epoch) != 0;
        snprintf(stream->epoch, sizeof(stream->epoch), "%s", epoch);
    }
    if (reader->order != NULL)
        order_begin(reader->order, newest_positions, has_changed);
    for (unsigned i = 0; i < reader->connection_count; i++)
        follow_seek(&reader->connections[i]);
    reader->has_start = true;
    for (unsigned i = 0; i < reader->connection_count; i++) {
        update_store(&reader->connections[i]);
        reader->connections[i].is_stale = reader->connections[i].reading;
        read_next(&reader->connections[i]);
    }
}

void
reader_resume(struct reader *reader)
{
    for (unsigned i = 0; i < reader->connection_count; i++) {
        struct reader_connection *connection = &reader->connections[i];

        if (connection->follow == FOLLOW_OPENING && link_is_up(connection->link) &&
            !connection->is_positioned)
            open_stream(connection);
    }
}

void
reader_follow(struct reader *reader, unsigned shard)
{
    struct reader_connection *connection =
        &reader->connections[topology_connection_of(&reader->topology, shard)];

    if (connection->follow != FOLLOW_NONE)
        return;
    connection->follow = FOLLOW_OPENING;
    open_connection(connection);
    count_followed(reader);
}

void
reader_unfollow(struct reader *reader, unsigned shard)
{
    struct reader_connection *connection = &reader->connections[shard];

    if (!reader->topology.is_cluster || shard == 0 || connection->follow == FOLLOW_NONE)
        return;
    connection->follow = FOLLOW_NONE;
    link_close(connection->link);
    connection->link = NULL;
    connection->is_positioned = connection->reading = connection->is_stale = false;
    reader->streams[shard].ack_events.link = NULL;
    tail_reset(&reader->streams[shard].ack_events);
    order_leave(reader->order, shard);
    update_store(connection); /* the store no longer needs this connection */
    count_followed(reader);
}

bool
reader_follows(const struct reader *reader, unsigned shard)
{
    return reader->connections[topology_connection_of(&reader->topology, shard)].follow ==
           FOLLOW_DONE;
}
