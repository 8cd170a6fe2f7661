/* reader.c: follows the streams of the store as they grow: connections, positions, next XREAD. */
#include "store/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/servers/link.h"
#include "store/connection/reply.h"
#include "store/read/control.h"
#include "store/read/follow.h"
#include "store/read/order.h"
#include "store/read/reader_deliver.h"
#include "store/read/reader_reply.h"
#include "store/read/reader_request.h"
#include "store/read/tail.h"
#include "store/shards/shard.h"
#include "store/shards/store_private.h"
#include "store/store.h"

#define READER_ENTRIES 64     /* stream entries in one reply */
#define READER_ENTRIES_MIN 16 /* entries of each stream, with many streams */
#define READER_TIMEOUT_S (4 * MAINTENANCE_HEARTBEAT_S)

static void on_read(void *ctx, const struct redisReply *reply);

/* Sends the next XREAD, unless an XREAD is in flight or the server must wait. */
static void
read_server(struct server_reader *server)
{
    struct reader_request request;

    if (server->reading || !server->reader->has_start || !server->is_positioned ||
        reader_request_is_held_back(server))
        return;
    reader_request_write(server, &request);
    server->entries_requested = request.entries;
    server->reading =
        link_send(server->link, on_read, server, request.argc, request.argv, NULL) == RC_OK;
}

static void
read_all(struct reader *reader)
{
    for (unsigned i = 0; i < reader->server_count; i++)
        read_server(&reader->servers[i]);
}

static void
on_read(void *ctx, const struct redisReply *reply)
{
    struct server_reader *server = ctx;
    struct reader *reader = server->reader;
    bool is_stale = server->is_stale;

    server->reading = server->is_stale = false;
    if (reply == NULL)
        return; /* the link has logged the error and reconnects */
    if (reply_is_error(reply)) {
        if (!link_is_redirected(server->link, reply_text(reply)))
            stats_add(reader->stats, STAT_STORE_ERRORS, 1);
        link_restart(server->link, reply_text(reply));
        return;
    }
    /* A server that accepts hello but rejects XREAD must not reset the backoff. */
    link_set_usable(server->link);
    server->reading = true; /* a callback may call reader_seek: no second XREAD */
    reader_handle_reply(server, reply, is_stale);
    server->reading = false;
    follow_advance(reader);
    read_all(reader);
}

/* Runs while a notification waits for another shard, or while a shard is being merged. */
static void
on_order_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct reader *reader = timer->data;

    (void)events;
    reader_stop_waiting(reader);
    reader_release(reader);
    follow_advance(reader);
    read_all(reader);
    if (!order_waits(reader->order) && !follow_waits(reader))
        ev_timer_stop(loop, timer);
}

/* A shard that is being opened counts as followed: only new sessions depend on it. */
static void
update_store(const struct server_reader *server)
{
    const bool is_opening = server->follow <= FOLLOW_OPENING && server->number > 0;

    store_set_reader_follows(server->reader->store, server->number,
                             is_opening || (link_is_up(server->link) && server->is_positioned));
}

/* The newest id is read once: "$" in every XREAD would miss entries added in between. */
static void
on_positioned(void *ctx, const struct redisReply *reply)
{
    struct server_reader *server = ctx;
    struct reader *reader = server->reader;

    if (reply == NULL)
        return;
    if (reply_is_error(reply)) {
        link_restart(server->link, reply_text(reply));
        return;
    }
    server->is_positioned = true;
    if (server->number == 0)
        control_handle_newest(&reader->events, reply, reader->control.at);
    update_store(server);
    reader->events.on_resumed(reader->events.ctx);
    read_server(server);
}

/* After the first reader_seek the reply is ignored: each shard has a position. */
static void
on_follow_reply(void *ctx, const struct redisReply *reply)
{
    struct server_reader *server = ctx;
    struct reader *reader = server->reader;
    const char *error;

    if (reply == NULL)
        return;
    error = reply_is_error(reply) ? reply_text(reply) : NULL;
    if (error == NULL && server->follow == FOLLOW_OPENING)
        error = follow_begin(server, reply);
    if (error != NULL) {
        link_restart(server->link, error);
        return;
    }
    server->is_positioned = true;
    link_set_usable(server->link);
    update_store(server);
    follow_advance(reader);
    if (follow_waits(reader) && !ev_is_active(&reader->order_timer))
        ev_timer_again(reader->loop, &reader->order_timer);
    read_server(server);
}

/* Until the shard is up, its node may lack the stream (place.h). See reader_resume. */
static void
open_stream(struct server_reader *server)
{
    if (server->reader->store->shards[server->number].is_up &&
        follow_request(server, on_follow_reply) != RC_OK)
        link_restart(server->link, "could not send a command");
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
send_newest(struct server_reader *server, const char *key, unsigned count, link_reply *reply,
            void *ctx)
{
    char count_text[16];
    const char *argv[] = {"XREVRANGE", key, "+", "-", "COUNT", count_text};

    snprintf(count_text, sizeof(count_text), "%u", count);
    if (link_send(server->link, reply, ctx, 6, argv, NULL) != RC_OK)
        link_restart(server->link, "could not send a command");
}

/*
 * Begins to read a server. Entries that wait for other shards may be of a former primary that has
 * added them after the failover: they are read again.
 */
static void
begin_history(struct shard_stream *stream)
{
    struct reader *reader = stream->server->reader;
    struct shard *shard = &reader->store->shards[stream->number];
    const bool has_changed =
        history_current(&shard->reader_history) != history_current(&stream->history);

    if (has_changed)
        shard->former_history = shard->reader_history;
    shard->reader_history = stream->history;
    if (!has_changed || !reader->has_start)
        return;
    if (reader->order != NULL)
        order_rewind(reader->order, stream->number);
    if (store_limit(reader->store, stream->number, &stream->delivered) != RC_OK)
        stream->delivered = (struct entry_id){0, 0};
    stream->at = stream->delivered;
    reader->events.on_history(reader->events.ctx, stream->number);
}

static void
on_history_reply(void *ctx, const struct redisReply *reply)
{
    struct shard_stream *stream = ctx;
    struct link *link = stream->server->link;
    struct bytes text;

    if (reply == NULL)
        return;
    if (reply_is_error(reply)) {
        link_restart(link, reply_text(reply));
        return;
    }
    text = reply_bytes(reply);
    if (text.len == 0) /* the reader reconnects until the shard's own connection has sent hello */
        link_restart(link, NULL);
    else if (history_read(text, &stream->history) != RC_OK)
        link_restart(link, "invalid reply to history.lua");
    else
        begin_history(stream);
}

static void
request_history(struct shard_stream *stream)
{
    const struct shard *shard = &stream->server->reader->store->shards[stream->number];
    const char *argv[] = {shard->stream_key, shard->prefix};

    if (link_call(stream->server->link, STORE_SCRIPT_history, 1, on_history_reply, stream, 2, argv,
                  NULL) != RC_OK)
        link_restart(stream->server->link, "could not send a command");
}

/* Replies arrive in order: after the last reply, all positions are known. */
static void
on_up(void *ctx)
{
    struct server_reader *server = ctx;
    struct reader *reader = server->reader;
    const struct topology *topology = &reader->topology;

    server->is_positioned = false;
    server->lag = LAG_NONE;
    for (unsigned i = topology_first_shard(topology, server->number); i < topology->shards;
         i = topology_next_shard(topology, i)) {
        request_history(&reader->streams[i]);
        send_newest(server, reader->streams[i].ack_events.key, 1, on_ack_events_newest,
                    &reader->streams[i].ack_events);
    }
    if (server->follow == FOLLOW_OPENING && reader->has_start) {
        open_stream(server);
    } else if (server->number == 0)
        send_newest(server, reader->control.key, CONTROL_NEWEST_MAX, on_positioned, server);
    else
        send_newest(server, server->heartbeat_key, 1, on_positioned, server);
}

static void
on_down(void *ctx, const char *reason)
{
    struct server_reader *server = ctx;

    (void)reason; /* the link has logged the reason */
    server->reading = server->is_stale = false;
    update_store(server);
}

/*
 * An idle store sends nothing but heartbeats, and there are none while the store is full, runs a
 * script, or while the shard waits for keys that another node may have.
 */
static bool
ignores_timeout(void *ctx)
{
    const struct server_reader *server = ctx;
    const struct store *store = server->reader->store;
    const struct shard *shard = &store->shards[server->number];

    return link_is_up(server->link) &&
           (store_rejects_heartbeats(store) || link_is_busy(shard->link) ||
            shard->place.holder[0] != '\0');
}

static void
name_server(struct server_reader *server, struct reader *reader, unsigned number)
{
    char prefix[STORE_PREFIX_MAX];

    server->reader = reader;
    server->number = number;
    topology_shard_prefix(&reader->topology, reader->config->store.prefix, number, prefix);
    key_write(server->heartbeat_key, prefix, KEY_HEARTBEAT);
    if (reader->server_count > 1)
        snprintf(server->name, sizeof(server->name), "store-reader-%u", number);
    else
        snprintf(server->name, sizeof(server->name), "store-reader");
}

static void
open_server(struct server_reader *server)
{
    struct reader *reader = server->reader;
    const struct topology *topology = &reader->topology;
    const struct link_events events = {
        .on_up = on_up, .on_down = on_down, .ignores_timeout = ignores_timeout, .ctx = server};
    const struct link_target target = {reader->store->servers, server->number, server->name};

    server->link = link_open(reader->loop, reader->config, &target, READER_TIMEOUT_S, &events);
    for (unsigned i = topology_first_shard(topology, server->number); i < topology->shards;
         i = topology_next_shard(topology, i))
        reader->streams[i].ack_events.link = server->link;
    update_store(server);
}

static void
name_keys(struct reader *reader, const struct config *config)
{
    char prefix[STORE_PREFIX_MAX];

    for (unsigned i = 0; i < reader->stream_count; i++) {
        struct shard_stream *stream = &reader->streams[i];

        stream->number = i;
        stream->server = &reader->servers[topology_connection_of(&reader->topology, i)];
        topology_shard_prefix(&reader->topology, config->store.prefix, i, prefix);
        key_write(stream->stream_key, prefix, KEY_STREAM);
        key_write(stream->ack_events.key, prefix, KEY_ACK_EVENTS);
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
            reader->servers[topology_connection_of(&reader->topology, i)].follow != FOLLOW_NONE;
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
        reader->order = order_new(count, reader_pass, reader);
    ev_init(&reader->order_timer, on_order_timer);
    reader->order_timer.repeat = READER_ORDER_CHECK_S;
    reader->order_timer.data = reader;
    reader->stream_count = count;
    reader->topology = topology_of(config);
    reader->server_count = reader->topology.connections;
    reader->streams_max = topology_max_shards(&reader->topology);
    reader->entries_max = READER_ENTRIES / reader->streams_max;
    if (reader->entries_max < READER_ENTRIES_MIN)
        reader->entries_max = READER_ENTRIES_MIN;
    name_keys(reader, config);
    for (unsigned i = 0; i < reader->server_count; i++)
        name_server(&reader->servers[i], reader, i);
    for (unsigned i = 1; i < reader->server_count; i++)
        order_leave(reader->order, i);
    reader->servers[0].follow = FOLLOW_DONE;
    open_server(&reader->servers[0]);
    reader->control.link = reader->servers[0].link;
    count_followed(reader);
    return reader;
}

void
reader_close(struct reader *reader)
{
    if (reader == NULL)
        return;
    for (unsigned i = 0; i < reader->server_count; i++)
        link_close(reader->servers[i].link);
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
        newest_positions[i] = store_newest_position(reader->store, i);
        has_changed[i] = strcmp(stream->epoch, epoch) != 0;
        snprintf(stream->epoch, sizeof(stream->epoch), "%s", epoch);
    }
    if (reader->order != NULL)
        order_begin(reader->order, newest_positions, has_changed);
    for (unsigned i = 0; i < reader->server_count; i++)
        follow_seek(&reader->servers[i]);
    reader->has_start = true;
    for (unsigned i = 0; i < reader->server_count; i++) {
        update_store(&reader->servers[i]);
        reader->servers[i].is_stale = reader->servers[i].reading;
        read_server(&reader->servers[i]);
    }
}

void
reader_resume(struct reader *reader)
{
    for (unsigned i = 0; i < reader->server_count; i++) {
        struct server_reader *server = &reader->servers[i];

        if (server->follow == FOLLOW_OPENING && link_is_up(server->link) && !server->is_positioned)
            open_stream(server);
    }
}

void
reader_follow(struct reader *reader, unsigned shard)
{
    struct server_reader *server =
        &reader->servers[topology_connection_of(&reader->topology, shard)];

    if (server->follow != FOLLOW_NONE)
        return;
    server->follow = FOLLOW_OPENING;
    open_server(server);
    count_followed(reader);
}

void
reader_unfollow(struct reader *reader, unsigned shard)
{
    struct server_reader *server = &reader->servers[shard];

    if (!reader->topology.is_cluster || shard == 0 || server->follow == FOLLOW_NONE)
        return;
    server->follow = FOLLOW_NONE;
    link_close(server->link);
    server->link = NULL;
    server->is_positioned = server->reading = server->is_stale = false;
    reader->streams[shard].ack_events.link = NULL;
    tail_reset(&reader->streams[shard].ack_events);
    order_leave(reader->order, shard);
    update_store(server); /* the store no longer needs this connection */
    count_followed(reader);
}

bool
reader_follows(const struct reader *reader, unsigned shard)
{
    return reader->servers[topology_connection_of(&reader->topology, shard)].follow == FOLLOW_DONE;
}
