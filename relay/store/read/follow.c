/*
 * follow.c: where the reader starts and continues in the stream of a shard. In two parts: it starts
 * to read a shard, and merges the stream with that of shard 0; it finds where to continue after the
 * server has another history, or after entries were trimmed.
 */
#include "store/read/reader_private.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/connection/reply.h"
#include "store/entry.h"
#include "store/shards/shard.h"
#include "store/timeouts.h"

/* ---- starting: the stream is merged with that of shard 0 */

enum rc
follow_request(struct reader_connection *connection, link_reply *reply)
{
    const struct shard *shard = &connection->reader->store->shards[connection->number];
    const char *argv[] = {shard->stream_key, shard->prefix};

    return link_call(connection->link, STORE_SCRIPT_follow, 1, reply, connection, 2, argv, NULL);
}

/* All earlier notifications of the shard have been added. */
static struct position
stored_position(const struct redisReply *reply)
{
    struct position stored = position_from(reply_bytes(reply_at(reply, 2)));

    position_raise(&stored, position_from(reply_bytes(reply_at(reply, 3))));
    return stored;
}

const char *
follow_begin(struct reader_connection *connection, const struct redisReply *reply)
{
    struct reader *reader = connection->reader;
    const struct shard *shard = &reader->store->shards[connection->number];
    struct shard_stream *stream = &reader->streams[connection->number];
    struct position after[STORE_SHARDS_MAX] = {{0, 0}}, stored;

    if (!reply_is_array(reply, 6) || reply_id(reply_at(reply, 1), &stream->at) != RC_OK)
        return "invalid reply to follow.lua";
    if (!bytes_equal_text(reply_bytes(reply_at(reply, 0)), shard->epoch))
        return "store epoch changed";
    stream->at = stream->delivered = history_label(&stream->history, stream->at);
    stored = stored_position(reply);
    shard_dependency_read(reply_bytes(reply_at(reply, 4)), after, reader->stream_count);
    order_join(reader->order, connection->number, stored, after[0]);
    store_record_position(reader->store, connection->number, stream->at, stored);
    connection->begin = (struct reader_followed){.shard = connection->number, .newest = stream->at};
    transactions_add_packed(&connection->begin.notified, reply_bytes(reply_at(reply, 5)));
    connection->merging_us = clock_monotonic_us();
    connection->follow = FOLLOW_MERGING;
    return NULL;
}

void
follow_seek(struct reader_connection *connection)
{
    const struct reader *reader = connection->reader;

    if (connection->follow != FOLLOW_OPENING || reader->has_start)
        return;
    order_join(reader->order, connection->number,
               store_newest_position(reader->store, connection->number), (struct position){0, 0});
    connection->follow = FOLLOW_DONE;
}

/*
 * A notification waits at most READER_ORDER_WAIT_S for another shard. The stream entries that the
 * merge needs may follow such a notification in their stream. So while a notification waits, the
 * merge may take twice that time, plus one check.
 */
static bool
has_merged(struct reader_connection *connection)
{
    const struct order *order = connection->reader->order;
    const int64_t wait_us = READER_ORDER_WAIT_S * INT64_C(1000000);
    const int64_t check_us = (int64_t)(READER_ORDER_CHECK_S * 1e6);
    const int64_t waited_us = clock_monotonic_us() - connection->merging_us;

    if (order_has_joined(order, connection->number))
        return true;
    if (waited_us < (order_waits(order) ? 2 * wait_us + check_us : wait_us))
        return false;
    log_warn("store", "shard is behind or lost data: its notifications may be out of order",
             LOG_UINT("shard", connection->number), LOG_INT("waited_s", waited_us / 1000000));
    connection->begin.early_lsn = order_newest_lsn(order);
    return true;
}

void
follow_advance(struct reader *reader)
{
    for (unsigned i = 0; i < reader->connection_count; i++) {
        struct reader_connection *connection = &reader->connections[i];

        if (connection->follow != FOLLOW_MERGING || !has_merged(connection))
            continue;
        connection->follow = FOLLOW_DONE;
        reader->events.on_followed(reader->events.ctx, &connection->begin);
    }
}

bool
follow_waits(const struct reader *reader)
{
    for (unsigned i = 0; i < reader->connection_count; i++) {
        if (reader->connections[i].follow == FOLLOW_MERGING)
            return true;
    }
    return false;
}

/* ---- continuing: another history, and trimmed entries */

/*
 * Begins to read a shard after a reconnect. Entries that wait for other shards may be of a former
 * primary that has added them after the failover: they are read again.
 */
static void
begin_history(struct shard_stream *stream)
{
    struct reader *reader = stream->connection->reader;
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
    cover_begin_history(&stream->cover);
    if (store_translate_id(reader->store, stream->number, &stream->delivered) != RC_OK)
        stream->delivered = (struct entry_id){0, 0};
    stream->at = stream->delivered;
    reader->events.on_history(reader->events.ctx, stream->number,
                              reader->order != NULL ? order_newest_lsn(reader->order) : 0);
}

/* What was trimmed may have had the newest position that the shard covers: history.lua adds it. */
static void
renew_cover(struct shard_stream *stream)
{
    struct reader *reader = stream->connection->reader;
    struct link *link = stream->connection->link;
    const char *argv[] = {stream->stream_key, reader->store->shards[stream->number].prefix};

    cover_reset(reader, stream->number);
    if (link_call(link, STORE_SCRIPT_history, 1, follow_history, stream, 2, argv, NULL) != RC_OK)
        link_restart(link, "could not send a command");
}

void
follow_history(void *ctx, const struct redisReply *reply)
{
    struct shard_stream *stream = ctx;
    struct link *link = stream->connection->link;
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

/* The reply of range.lua: continues before the oldest entry if entries before it were trimmed. */
static void
on_range(void *ctx, const struct redisReply *reply)
{
    struct shard_stream *stream = ctx;
    struct reader *reader = stream->connection->reader;
    const struct redisReply *entries = reply_at(reply, 1);
    const char *large = reply_text(reply_at(reply, 4));
    struct entry_id oldest, reached;
    enum rc rc = reply_id(reply_at(reply, 2), &reached);

    if (reply == NULL)
        return;
    if (large != NULL && large[0] != '\0')
        rc = entry_id_read(large, strlen(large), &oldest);
    else if (reply_count(entries) > 0)
        rc = reply_entry_id(reply_at(entries, 0), &oldest);
    else
        oldest = (struct entry_id){0, 0};
    if (reply_is_error(reply) || rc != RC_OK) {
        link_restart(stream->connection->link, reply_text(reply));
        return;
    }
    if (reply_integer(reply_at(reply, 0)) != STORE_RANGE_TRIMMED)
        return;
    if (oldest.ms > 0)
        reached = entry_id_before(oldest);
    log_warn(stream->connection->name, "notifications were trimmed before they were read",
             LOG_TEXT("key", stream->stream_key));
    if (reader->order != NULL) {
        order_rewind(reader->order, stream->number);
        order_skip(reader->order, stream->number);
    }
    stream->at = stream->delivered = history_label(&stream->history, reached);
    renew_cover(stream);
    reader->events.on_trimmed(reader->events.ctx, stream->number, stream->at);
}

enum rc
follow_find_trimmed(struct reader_connection *connection, const bool *reads)
{
    struct reader *reader = connection->reader;
    const int64_t now_us = clock_monotonic_us();
    enum rc rc = RC_OK;

    for (unsigned i = 0; i < reader->stream_count && rc == RC_OK; i++) {
        struct shard_stream *stream = &reader->streams[i];
        char at[ENTRY_ID_TEXT_MAX];
        const char *argv[] = {stream->stream_key, reader->store->shards[i].prefix, at, "1"};

        if (!reads[i])
            continue;
        if (stream->read_us == 0 ||
            now_us - stream->read_us > reader->config->store.retention_ms * 1000) {
            entry_id_text(history_position(&stream->history, stream->at), at);
            rc =
                link_call(connection->link, STORE_SCRIPT_range, 1, on_range, stream, 4, argv, NULL);
        }
        stream->requested_us = now_us;
    }
    return rc;
}
