/* reader_request.c: selects the streams and the entry count of a server's next XREAD. */
#include "store/read/reader_request.h"

#include <stdio.h>
#include <string.h>

#include "store/read/order.h"
#include "store/read/tail.h"
#include "store/shards/shard.h"

/*
 * XREAD blocks without a timeout, because KeyDB 6.3.4 crashes if a client blocks with a timeout,
 * disconnects, and the timeout expires. The heartbeat stream (shard.c) shows whether the
 * store is alive.
 */
#define READER_BLOCK_MS "0"
#define READER_ENTRIES_LARGE 4                  /* entries of each stream, of any size */
#define READER_BYTES ((size_t)16 * 1024 * 1024) /* size of a reply, estimated from recent entries */

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
 * A stream cannot be added to a blocked XREAD. So while one of the server's shards has enough
 * entries in memory, the server is read only if a notification waits for one of its shards. The
 * next release retries.
 */
bool
reader_request_is_held_back(const struct server_reader *server)
{
    const struct reader *reader = server->reader;
    const struct topology *topology = &reader->topology;
    bool is_full = false, is_awaited = false;

    for (unsigned i = topology_first_shard(topology, server->number);
         reader->order != NULL && i < topology->shards; i = topology_next_shard(topology, i)) {
        is_full = is_full || !may_read_more(reader, i);
        is_awaited = is_awaited || order_is_awaited(reader->order, i);
    }
    return is_full && !is_awaited;
}

static void
add_streams(const struct server_reader *server, struct stream_list *list,
            char at[STORE_SHARDS_MAX][ENTRY_ID_TEXT_MAX])
{
    const struct reader *reader = server->reader;
    const struct topology *topology = &reader->topology;

    /*
     * The control stream is first: a reply may contain memberships and notifications that depend on
     * them.
     */
    if (server->number == 0)
        add_stream(list, reader->control.key, reader->control.at);
    if (server->lag == LAG_MEMBERS)
        return;
    for (unsigned i = topology_first_shard(topology, server->number); i < topology->shards;
         i = topology_next_shard(topology, i)) {
        const struct shard_stream *stream = &reader->streams[i];

        if (server->lag == LAG_NONE)
            add_stream(list, stream->ack_events.key, stream->ack_events.at);
        if (!may_read_more(reader, i))
            continue;
        entry_id_text(history_position(&stream->history, stream->at), at[i]);
        add_stream(list, stream->stream_key, at[i]);
    }
    add_stream(list, server->heartbeat_key, "$");
}

/* A whole reply is in memory, and a process that was paused has many stream entries to read. */
static size_t
entries_to_request(const struct reader *reader)
{
    size_t fit = READER_BYTES / reader->streams_max / (reader->entry_bytes + 1);

    if (fit > reader->entries_max)
        return reader->entries_max;
    return fit < READER_ENTRIES_LARGE ? READER_ENTRIES_LARGE : fit;
}

void
reader_request_write(const struct server_reader *server, struct reader_request *ret_request)
{
    struct reader_request *request = ret_request;
    struct stream_list list = {.count = 0};
    size_t argc = 0;

    request->entries = entries_to_request(server->reader);
    snprintf(request->count, sizeof(request->count), "%zu", request->entries);
    request->argv[argc++] = "XREAD";
    request->argv[argc++] = "COUNT";
    request->argv[argc++] = request->count;
    if (server->lag == LAG_NONE) {
        request->argv[argc++] = "BLOCK";
        request->argv[argc++] = READER_BLOCK_MS;
    }
    request->argv[argc++] = "STREAMS";
    add_streams(server, &list, request->at);
    memcpy(request->argv + argc, list.keys, list.count * sizeof(*list.keys));
    memcpy(request->argv + argc + list.count, list.cursors, list.count * sizeof(*list.cursors));
    request->argc = (int)(argc + 2 * list.count);
}
