/* reader.c: follows the streams of the store as they grow. */
#include "store/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/urls.h"
#include "store/control.h"
#include "store/link.h"
#include "store/order.h"
#include "store/reply.h"
#include "store/shard.h"
#include "store/store.h"
#include "store/upkeep.h"

/*
 * KeyDB 6.3.4 crashes when a client that blocks with a time-out dies and the time-out comes: so
 * none, and the beat stream (upkeep.h) tells a quiet store from a dead one.
 */
#define READER_BLOCK_MS "0"
#define READER_ENTRIES 64 /* in one answer, of up to a megabyte each .. */
#define READER_LEAST 16   /* .. or of each stream, where they are many */
#define READER_PATIENCE_S (4 * UPKEEP_BEAT_S)
/* Notes wait so long for those before them in another shard: another feed has taken over by then. */
#define READER_ORDER_S 3
#define READER_ORDER_EVERY_S 0.5
#define READER_KEY_MAX (STORE_KEY_MAX / 2 + 32)
#define READER_WORDS 6 /* before the streams */
#define READER_STREAMS (2 + 2 * STORE_SHARDS_MAX)
#define READER_ARGC (READER_WORDS + 2 * READER_STREAMS)

/* What is followed of one shard. */
struct channel {
    struct reader *reader;
    struct entry_id at;
    char receipts_at[ENTRY_ID_TEXT_MAX]; /* goes on where it was when the connection comes back */
    char stream_key[READER_KEY_MAX];
    char receipts_key[READER_KEY_MAX];
};

/* A server, which has every lane_count'th shard from its own number on; the first has the control stream. */
struct lane {
    struct reader *reader;
    unsigned number;
    struct link *link;
    bool is_placed; /* "$" was resolved: where to read on is exact */
    bool reading;   /* an XREAD is under way .. */
    bool is_stale;  /* .. for what comes after places that do not count any more */
    char name[24];  /* in the log */
    char beat_key[READER_KEY_MAX];
};

struct reader {
    struct stats *stats;
    struct reader_events events;
    bool seeking; /* reader_seek was called: we know where to read */
    char control_at[ENTRY_ID_TEXT_MAX];
    struct store *store;
    struct ev_loop *loop;
    struct order *order; /* of several shards */
    ev_timer order_timer;
    char control_key[READER_KEY_MAX];
    size_t most; /* entries of one stream in an answer */
    unsigned lane_count;
    struct lane lanes[STORE_SHARDS_MAX];
    unsigned channel_count;
    struct channel channels[];
};

static void lane_read(struct lane *lane);

static void
tell_strays(struct reader *reader, const struct channel *channel, size_t strays)
{
    if (strays == 0)
        return;
    stats_add(reader->stats, STAT_STORE_ERRORS, strays);
    log_warn("store", "%zu entries of %s are no notifications of ours, skipped", strays,
             channel->stream_key);
}

/* All there is comes from one stream. */
static void
give_entries(struct reader *reader, const struct channel *channel, const redisReply *entries)
{
    struct entry entry;
    size_t strays = 0;

    for (size_t i = 0; i < entries->elements; i++) {
        if (reply_entry(entries->element[i], &entry) == RC_OK)
            reader->events.on_entry(reader->events.ctx, &entry);
        else
            strays++;
    }
    tell_strays(reader, channel, strays);
}

static void
take_entries(struct reader *reader, unsigned shard, const redisReply *entries)
{
    struct channel *channel = &reader->channels[shard];
    const redisReply *last;
    struct bytes id = {NULL, 0};

    if (entries->elements == 0)
        return;
    if (reader->order == NULL)
        give_entries(reader, channel, entries);
    else
        order_add(reader->order, shard, entries);
    last = entries->element[entries->elements - 1];
    if (reply_is_array(last, 1))
        id = reply_bytes(last->element[0]);
    if (id.at != NULL && entry_id_read((const char *)id.at, id.len, &channel->at) == RC_OK &&
        reader->order != NULL)
        store_saw_to(reader->store, shard, channel->at, order_seen(reader->order, shard));
}

/* Hands out what may go now, and reads what there is room for. */
static void
release(struct reader *reader)
{
    if (reader->order == NULL)
        return;
    order_release(reader->order, clock_monotonic_us());
    stats_add(reader->stats, STAT_STORE_UNORDERED, order_unordered(reader->order));
    for (unsigned i = 0; i < reader->channel_count; i++)
        tell_strays(reader, &reader->channels[i], order_strays(reader->order, i));
    if (order_waits(reader->order) && !ev_is_active(&reader->order_timer))
        ev_timer_again(reader->loop, &reader->order_timer);
    for (unsigned i = 0; i < reader->lane_count; i++)
        lane_read(&reader->lanes[i]);
}

static void
on_order_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct reader *reader = timer->data;
    int64_t before_us = clock_monotonic_us() - READER_ORDER_S * INT64_C(1000000);
    int shard;

    (void)events;
    while ((shard = order_give_up(reader->order, before_us)) >= 0)
        log_warn("store",
                 "shard %d is behind, or has lost what it held: what waited %d s for earlier notes "
                 "of it "
                 "goes out before them",
                 shard, READER_ORDER_S);
    release(reader);
    if (!order_waits(reader->order))
        ev_timer_stop(loop, timer);
}

static bool
is_key(struct bytes key, const char *name)
{
    return key.len == strlen(name) && memcmp(key.at, name, key.len) == 0;
}

static void
take_stream(struct reader *reader, const redisReply *stream, bool is_stale)
{
    const struct bytes key = reply_bytes(stream->element[0]);
    const redisReply *entries = stream->element[1];

    if (is_key(key, reader->control_key))
        control_take_members(&reader->events, entries, reader->control_at);
    for (unsigned i = 0; i < reader->channel_count; i++) {
        struct channel *channel = &reader->channels[i];

        if (is_key(key, channel->receipts_key))
            control_take_receipts(&reader->events, store_name(reader->store), entries,
                                  channel->receipts_at);
        else if (is_key(key, channel->stream_key) && !is_stale)
            take_entries(reader, i, entries);
    }
}

static void
on_read(void *ctx, const redisReply *reply)
{
    struct lane *lane = ctx;
    struct reader *reader = lane->reader;
    bool is_stale = lane->is_stale;

    lane->reading = lane->is_stale = false;
    if (reply == NULL)
        return; /* the link says so and comes back */
    if (reply->type == REDIS_REPLY_ERROR) {
        stats_add(reader->stats, STAT_STORE_ERRORS, 1);
        link_restart(lane->link, reply->str);
        return;
    }
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        const redisReply *stream = reply->element[i];

        if (reply_is_array(stream, 2) && reply_is_array(stream->element[1], 0))
            take_stream(reader, stream, is_stale);
    }
    release(reader);
    lane_read(lane);
}

/* Streams, and from where on. */
struct wanted {
    const char *keys[READER_STREAMS];
    const char *places[READER_STREAMS];
    size_t count;
};

static void
want(struct wanted *wanted, const char *key, const char *place)
{
    wanted->keys[wanted->count] = key;
    wanted->places[wanted->count++] = place;
}

/* More of a shard is read when there is room for it, or somebody waits for it. */
static bool
is_wanted(const struct reader *reader, unsigned shard)
{
    return reader->order == NULL || !order_is_full(reader->order, shard) ||
           order_is_awaited(reader->order, shard);
}

/*
 * A command that blocks cannot be told of another stream later. So while one of the lane's streams has to
 * wait, only what is known to come soon is read: the next release comes back here.
 */
static bool
is_held_back(const struct lane *lane)
{
    const struct reader *reader = lane->reader;
    bool is_full = false, is_awaited = false;

    for (unsigned i = lane->number; reader->order != NULL && i < reader->channel_count;
         i += reader->lane_count) {
        is_full = is_full || !is_wanted(reader, i);
        is_awaited = is_awaited || order_is_awaited(reader->order, i);
    }
    return is_full && !is_awaited;
}

static void
lane_read(struct lane *lane)
{
    struct reader *reader = lane->reader;
    const char *argv[READER_ARGC] = {"XREAD", "COUNT", NULL, "BLOCK", READER_BLOCK_MS, "STREAMS"};
    struct wanted wanted = {.count = 0};
    size_t lens[READER_ARGC], argc;
    char at[STORE_SHARDS_MAX][ENTRY_ID_TEXT_MAX], most[24];

    if (lane->reading || !reader->seeking || !lane->is_placed || is_held_back(lane))
        return;
    snprintf(most, sizeof(most), "%zu", reader->most);
    argv[2] = most;
    /* Memberships first: a change and a message of one transaction come in one answer. */
    if (lane->number == 0)
        want(&wanted, reader->control_key, reader->control_at);
    for (unsigned i = lane->number; i < reader->channel_count; i += reader->lane_count)
        want(&wanted, reader->channels[i].receipts_key, reader->channels[i].receipts_at);
    for (unsigned i = lane->number; i < reader->channel_count; i += reader->lane_count) {
        if (!is_wanted(reader, i))
            continue;
        entry_id_text(reader->channels[i].at, at[i]);
        want(&wanted, reader->channels[i].stream_key, at[i]);
    }
    want(&wanted, lane->beat_key, "$");
    memcpy(argv + READER_WORDS, wanted.keys, wanted.count * sizeof(*argv));
    memcpy(argv + READER_WORDS + wanted.count, wanted.places, wanted.count * sizeof(*argv));
    argc = READER_WORDS + 2 * wanted.count;
    for (size_t i = 0; i < argc; i++)
        lens[i] = strlen(argv[i]);
    lane->reading = link_send(lane->link, on_read, lane, (int)argc, argv, lens) == RC_OK;
}

/* "$" in every XREAD would miss what is added between two: ask once for the newest. */
static void
on_placed(void *ctx, const redisReply *reply)
{
    struct lane *lane = ctx;
    struct reader *reader = lane->reader;

    if (reply == NULL)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        link_restart(lane->link, reply->str);
        return;
    }
    lane->is_placed = true;
    link_settle(lane->link);
    if (lane->number == 0) {
        snprintf(reader->control_at, sizeof(reader->control_at), "0-0");
        if (reply_is_array(reply, 1))
            control_take_place(reply->element[0], reader->control_at);
    }
    reader->events.on_resumed(reader->events.ctx);
    lane_read(lane);
}

/* A store that was emptied counts from the beginning. */
static void
on_receipts_newest(void *ctx, const redisReply *reply)
{
    struct channel *channel = ctx;
    char newest[ENTRY_ID_TEXT_MAX] = "0-0";
    struct entry_id at = {0, 0}, end = {0, 0};

    if (reply_is_array(reply, 1))
        control_take_place(reply->element[0], newest);
    if (entry_id_read(channel->receipts_at, strlen(channel->receipts_at), &at) != RC_OK ||
        entry_id_read(newest, strlen(newest), &end) != RC_OK || entry_id_less(end, at))
        snprintf(channel->receipts_at, sizeof(channel->receipts_at), "%s", newest);
}

static void
ask_newest(struct lane *lane, const char *key, link_reply *reply, void *ctx)
{
    const char *argv[] = {"XREVRANGE", key, "+", "-", "COUNT", "1"};
    size_t lens[6];

    for (size_t i = 0; i < 6; i++)
        lens[i] = strlen(argv[i]);
    if (link_send(lane->link, reply, ctx, 6, argv, lens) != RC_OK)
        link_restart(lane->link, "could not send");
}

/* The last answer is the one that says where the lane stands. */
static void
on_up(void *ctx)
{
    struct lane *lane = ctx;
    struct reader *reader = lane->reader;

    lane->is_placed = false;
    for (unsigned i = lane->number; i < reader->channel_count; i += reader->lane_count)
        ask_newest(lane, reader->channels[i].receipts_key, on_receipts_newest,
                   &reader->channels[i]);
    ask_newest(lane, lane->number == 0 ? reader->control_key : lane->beat_key, on_placed, lane);
}

static void
on_down(void *ctx, const char *reason)
{
    struct lane *lane = ctx;

    (void)reason; /* the link has logged it */
    lane->reading = lane->is_stale = false;
}

/* Beats are all that comes from a quiet store, and a full one takes none. */
static bool
is_excused(void *ctx)
{
    const struct lane *lane = ctx;

    return link_is_up(lane->link) && store_is_mute(lane->reader->store);
}

static bool
open_lane(struct lane *lane, struct reader *reader, unsigned number, struct ev_loop *loop,
          const struct config *config)
{
    const struct link_events events = {
        .on_up = on_up, .on_down = on_down, .is_excused = is_excused, .ctx = lane};
    char *url = urls_at(config->store.url, number);
    char prefix[STORE_KEY_MAX / 2];

    lane->reader = reader;
    lane->number = number;
    shard_prefix(config, number, prefix);
    snprintf(lane->beat_key, READER_KEY_MAX, "%s:beat", prefix);
    if (reader->lane_count > 1)
        snprintf(lane->name, sizeof(lane->name), "store-reader-%u", number);
    else
        snprintf(lane->name, sizeof(lane->name), "store-reader");
    lane->link = link_open(loop, config, url, lane->name, READER_PATIENCE_S, &events);
    explicit_bzero(url, strlen(url)); /* it may hold a password */
    free(url);
    return lane->link != NULL;
}

static void
name_keys(struct reader *reader, const struct config *config)
{
    char prefix[STORE_KEY_MAX / 2];

    for (unsigned i = 0; i < reader->channel_count; i++) {
        struct channel *channel = &reader->channels[i];

        channel->reader = reader;
        shard_prefix(config, i, prefix);
        snprintf(channel->stream_key, READER_KEY_MAX, "%s:stream", prefix);
        snprintf(channel->receipts_key, READER_KEY_MAX, "%s:receipts", prefix);
    }
    shard_prefix(config, 0, prefix);
    snprintf(reader->control_key, READER_KEY_MAX, "%s:control", prefix);
}

struct reader *
reader_open(struct ev_loop *loop, const struct config *config, struct store *store,
            struct stats *stats, const struct reader_events *events)
{
    const unsigned count = store_shards(store);
    struct reader *reader = memory_new(sizeof(*reader) + count * sizeof(*reader->channels));
    size_t each; /* streams of a server */

    reader->store = store;
    reader->loop = loop;
    reader->stats = stats;
    reader->events = *events;
    if (count > 1)
        reader->order = order_new(count, events->on_entry, events->ctx);
    ev_init(&reader->order_timer, on_order_timer);
    reader->order_timer.repeat = READER_ORDER_EVERY_S;
    reader->order_timer.data = reader;
    reader->channel_count = count;
    reader->lane_count = urls_count(config->store.url);
    each = (count + reader->lane_count - 1) / reader->lane_count;
    reader->most = READER_ENTRIES / each > READER_LEAST ? READER_ENTRIES / each : READER_LEAST;
    name_keys(reader, config);
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
        seen_to[i] = store_seen_to(reader->store, i);
    }
    if (reader->order != NULL)
        order_begin(reader->order, seen_to);
    reader->seeking = true;
    for (unsigned i = 0; i < reader->lane_count; i++) {
        reader->lanes[i].is_stale = reader->lanes[i].reading;
        lane_read(&reader->lanes[i]);
    }
}
