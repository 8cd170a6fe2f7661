/* reader.c: follows the streams of the store as they grow. */
#include "store/read/reader_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/connection/link.h"
#include "store/connection/reply.h"
#include "store/read/control.h"
#include "store/read/order.h"
#include "store/read/tail.h"
#include "store/shards/maintenance.h"
#include "store/shards/shard.h"
#include "store/store.h"

/*
 * KeyDB 6.3.4 crashes when a client that blocks with a time-out dies and the time-out comes: so
 * none, and the beat stream (maintenance.h) tells a quiet store from a dead one.
 */
#define READER_BLOCK_MS "0"
#define READER_ENTRIES 64                       /* in one answer .. */
#define READER_LEAST 16                         /* .. or of each stream, where they are many */
#define READER_FEWEST 4                         /* however large they are */
#define READER_BYTES ((size_t)16 * 1024 * 1024) /* of notes, as large as the last ones */
#define READER_PATIENCE_S (4 * MAINTENANCE_HEARTBEAT_S)
#define READER_WORDS 6 /* before the streams */
#define READER_STREAMS (2 + 2 * STORE_SHARDS_MAX)
#define READER_ARGC (READER_WORDS + 2 * READER_STREAMS)
#define READER_ORDER_EVERY_S 0.5

static void
on_read(void *ctx, const struct redisReply *reply)
{
    struct lane *lane = ctx;
    struct reader *reader = lane->reader;
    bool is_stale = lane->is_stale;

    lane->reading = lane->is_stale = false;
    if (reply == NULL)
        return; /* the link says so and comes back */
    if (reply_is_error(reply)) {
        stats_add(reader->stats, STAT_STORE_ERRORS, 1);
        link_restart(lane->link, reply_text(reply));
        return;
    }
    /* Not before: one that lets us greet but not read would be tried in haste for ever. */
    link_settle(lane->link);
    lane->reading = true; /* until all of it is taken */
    reader_take(lane, reply, is_stale);
    lane->reading = false;
    reader_read(lane);
}

/* Streams, and from where on. */
struct wanted {
    const char *keys[READER_STREAMS];
    const char *cursors[READER_STREAMS];
    size_t count;
};

static void
want(struct wanted *wanted, const char *key, const char *cursor)
{
    wanted->keys[wanted->count] = key;
    wanted->cursors[wanted->count++] = cursor;
}

/* More of a shard is read when there is room for it, or somebody waits for it. */
static bool
is_wanted(const struct reader *reader, unsigned shard)
{
    return reader->order == NULL || !order_is_full(reader->order, shard) ||
           order_is_awaited(reader->order, shard);
}

/*
 * A command that blocks cannot be told of another stream later. So while one of the lane's streams
 * has to wait, only what is known to come soon is read: the next release comes back here.
 */
static bool
is_held_back(const struct lane *lane)
{
    const struct reader *reader = lane->reader;
    const struct topology *topology = &reader->topology;
    bool is_full = false, is_awaited = false;

    for (unsigned i = topology_first_shard(topology, lane->number);
         reader->order != NULL && i < topology->shards; i = topology_next_shard(topology, i)) {
        is_full = is_full || !is_wanted(reader, i);
        is_awaited = is_awaited || order_is_awaited(reader->order, i);
    }
    return is_full && !is_awaited;
}

static void
want_all(const struct lane *lane, struct wanted *wanted,
         char at[STORE_SHARDS_MAX][ENTRY_ID_TEXT_MAX])
{
    const struct reader *reader = lane->reader;
    const struct topology *topology = &reader->topology;

    /* Memberships first: a change and a message of one transaction come in one answer. */
    if (lane->number == 0)
        want(wanted, reader->control.key, reader->control.at);
    if (lane->lag == LAG_MEMBERS)
        return;
    for (unsigned i = topology_first_shard(topology, lane->number); i < topology->shards;
         i = topology_next_shard(topology, i)) {
        const struct channel *channel = &reader->channels[i];

        if (lane->lag == LAG_NONE)
            want(wanted, channel->receipts.key, channel->receipts.at);
        if (!is_wanted(reader, i))
            continue;
        entry_id_text(channel->at, at[i]);
        want(wanted, channel->stream_key, at[i]);
    }
    want(wanted, lane->beat_key, "$");
}

/* An answer comes as a whole, and a gate that was paused has many to read. */
static size_t
entries_to_ask(const struct reader *reader)
{
    size_t fit = READER_BYTES / reader->each / (reader->note_bytes + 1);

    if (fit > reader->most)
        return reader->most;
    return fit < READER_FEWEST ? READER_FEWEST : fit;
}

void
reader_read(struct lane *lane)
{
    struct reader *reader = lane->reader;
    char at[STORE_SHARDS_MAX][ENTRY_ID_TEXT_MAX], most[24];
    const char *argv[READER_ARGC] = {"XREAD", "COUNT", most, "BLOCK", READER_BLOCK_MS};
    struct wanted wanted = {.count = 0};
    size_t argc = lane->lag == LAG_NONE ? 5 : 3; /* who is behind does not wait */

    if (lane->reading || !reader->seeking || !lane->is_placed || is_held_back(lane))
        return;
    lane->asked = entries_to_ask(reader);
    snprintf(most, sizeof(most), "%zu", lane->asked);
    want_all(lane, &wanted, at);
    argv[argc++] = "STREAMS";
    memcpy(argv + argc, wanted.keys, wanted.count * sizeof(*argv));
    memcpy(argv + argc + wanted.count, wanted.cursors, wanted.count * sizeof(*argv));
    argc += 2 * wanted.count;
    lane->reading = link_send(lane->link, on_read, lane, (int)argc, argv, NULL) == RC_OK;
}

static void
tell_store(const struct reader *reader)
{
    bool follows = true;

    for (unsigned i = 0; i < reader->lane_count; i++)
        follows = follows && link_is_up(reader->lanes[i].link) && reader->lanes[i].is_placed;
    store_set_reader_follows(reader->store, follows);
}

/* "$" in every XREAD would miss what is added between two: ask once for the newest. */
static void
on_placed(void *ctx, const struct redisReply *reply)
{
    struct lane *lane = ctx;
    struct reader *reader = lane->reader;

    if (reply == NULL)
        return;
    if (reply_is_error(reply)) {
        link_restart(lane->link, reply_text(reply));
        return;
    }
    lane->is_placed = true;
    if (lane->number == 0) {
        snprintf(reader->control.at, sizeof(reader->control.at), "0-0");
        if (reply_is_array(reply, 1))
            control_take_cursor(reply_at(reply, 0), reader->control.at);
    }
    tell_store(reader);
    reader->events.on_resumed(reader->events.ctx);
    reader_read(lane);
}

/* A store that was emptied counts from the beginning; one that was cut off tells nothing. */
static void
on_receipts_newest(void *ctx, const struct redisReply *reply)
{
    struct tail *receipts = ctx;
    char newest[ENTRY_ID_TEXT_MAX] = "0-0";
    struct entry_id at = {0, 0}, end = {0, 0};

    if (reply == NULL)
        return;
    if (reply_is_array(reply, 1))
        control_take_cursor(reply_at(reply, 0), newest);
    if (entry_id_read(receipts->at, strlen(receipts->at), &at) != RC_OK ||
        entry_id_read(newest, strlen(newest), &end) != RC_OK || entry_id_less(end, at))
        snprintf(receipts->at, sizeof(receipts->at), "%s", newest);
}

static void
ask_newest(struct lane *lane, const char *key, link_reply *reply, void *ctx)
{
    const char *argv[] = {"XREVRANGE", key, "+", "-", "COUNT", "1"};

    if (link_send(lane->link, reply, ctx, 6, argv, NULL) != RC_OK)
        link_restart(lane->link, "could not send");
}

/* The last answer is the one that says where the lane stands. */
static void
on_up(void *ctx)
{
    struct lane *lane = ctx;
    struct reader *reader = lane->reader;
    const struct topology *topology = &reader->topology;

    lane->is_placed = false;
    lane->lag = LAG_NONE;
    for (unsigned i = topology_first_shard(topology, lane->number); i < topology->shards;
         i = topology_next_shard(topology, i))
        ask_newest(lane, reader->channels[i].receipts.key, on_receipts_newest,
                   &reader->channels[i].receipts);
    ask_newest(lane, lane->number == 0 ? reader->control.key : lane->beat_key, on_placed, lane);
}

static void
on_down(void *ctx, const char *reason)
{
    struct lane *lane = ctx;

    (void)reason; /* the link has logged it */
    lane->reading = lane->is_stale = false;
    tell_store(lane->reader);
}

/* Beats are all that comes from a quiet store, and a full one takes none. */
static bool
is_excused(void *ctx)
{
    const struct lane *lane = ctx;

    return link_is_up(lane->link) && store_refuses_heartbeats(lane->reader->store);
}

static bool
open_lane(struct lane *lane, struct reader *reader, unsigned number, struct ev_loop *loop,
          const struct config *config)
{
    const struct link_events events = {
        .on_up = on_up, .on_down = on_down, .is_excused = is_excused, .ctx = lane};
    char *url = topology_url(config, number);
    char prefix[STORE_PREFIX_MAX];

    lane->reader = reader;
    lane->number = number;
    key_shard_prefix(prefix, config->store.prefix, (unsigned)config->store.shards, number);
    key_write(lane->beat_key, prefix, KEY_HEARTBEAT);
    if (reader->lane_count > 1)
        snprintf(lane->name, sizeof(lane->name), "store-reader-%u", number);
    else
        snprintf(lane->name, sizeof(lane->name), "store-reader");
    lane->link = link_open(loop, config, url, lane->name, READER_PATIENCE_S, &events);
    topology_free_url(url);
    return lane->link != NULL;
}

static void
name_keys(struct reader *reader, const struct config *config)
{
    char prefix[STORE_PREFIX_MAX];

    for (unsigned i = 0; i < reader->channel_count; i++) {
        struct channel *channel = &reader->channels[i];

        key_shard_prefix(prefix, config->store.prefix, (unsigned)config->store.shards, i);
        key_write(channel->stream_key, prefix, KEY_STREAM);
        key_write(channel->receipts.key, prefix, KEY_ACK_EVENTS);
    }
    key_shard_prefix(prefix, config->store.prefix, (unsigned)config->store.shards, 0);
    key_write(reader->control.key, prefix, KEY_CONTROL);
}

struct reader *
reader_open(struct ev_loop *loop, const struct config *config, struct store *store,
            struct stats *stats, const struct reader_events *events)
{
    const unsigned count = store_shards(store);
    struct reader *reader = memory_new(sizeof(*reader) + count * sizeof(*reader->channels));

    reader->store = store;
    reader->loop = loop;
    reader->stats = stats;
    reader->events = *events;
    if (count > 1)
        reader->order = order_new(count, events->on_entry, events->ctx);
    ev_init(&reader->order_timer, reader_order_timer);
    reader->order_timer.repeat = READER_ORDER_EVERY_S;
    reader->order_timer.data = reader;
    reader->channel_count = count;
    reader->topology = topology_of(config);
    reader->lane_count = reader->topology.servers;
    reader->each = topology_most_shards(&reader->topology);
    reader->most = READER_ENTRIES / reader->each;
    if (reader->most < READER_LEAST)
        reader->most = READER_LEAST;
    name_keys(reader, config);
    store_set_reader_follows(store, false);
    for (unsigned i = 0; i < reader->lane_count; i++) {
        if (open_lane(&reader->lanes[i], reader, i, loop, config))
            continue;
        reader_close(reader);
        return NULL;
    }
    return reader;
}

void
reader_close(struct reader *reader)
{
    if (reader == NULL)
        return;
    for (unsigned i = 0; i < reader->lane_count; i++)
        link_close(reader->lanes[i].link);
    ev_timer_stop(reader->loop, &reader->order_timer);
    order_free(reader->order);
    free(reader);
}

void
reader_seek(struct reader *reader, const struct entry_id *after)
{
    struct position seen_to[STORE_SHARDS_MAX];

    for (unsigned i = 0; i < reader->channel_count; i++) {
        reader->channels[i].at = after[i];
        seen_to[i] = store_newest_position(reader->store, i);
    }
    if (reader->order != NULL)
        order_begin(reader->order, seen_to);
    reader->seeking = true;
    for (unsigned i = 0; i < reader->lane_count; i++) {
        reader->lanes[i].is_stale = reader->lanes[i].reading;
        reader_read(&reader->lanes[i]);
    }
}
