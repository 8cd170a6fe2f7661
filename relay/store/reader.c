/* reader.c: follows the streams of the store as they grow. */
#include "store/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/urls.h"
#include "store/link.h"
#include "store/merge.h"
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
    bool reading;   /* an XREAD is under way */
    char name[24];  /* in the log */
    char beat_key[READER_KEY_MAX];
};

struct reader {
    struct stats *stats;
    struct reader_events events;
    bool seeking; /* reader_seek was called: we know where to read */
    char control_at[ENTRY_ID_TEXT_MAX];
    const struct store *store;
    char control_key[READER_KEY_MAX];
    size_t most; /* entries of one stream in an answer */
    unsigned lane_count;
    struct lane lanes[STORE_SHARDS_MAX];
    unsigned channel_count;
    struct channel channels[];
};

static void lane_read(struct lane *lane);

/* What the shards were asked for in one step comes in one row. */
static void
take_entries(struct reader *reader, struct strand *strands, unsigned count)
{
    struct strand *next;

    while ((next = strands_next(strands, count)) != NULL) {
        reader->events.on_entry(reader->events.ctx, &next->entry);
        strand_take(next);
    }
    for (unsigned i = 0; i < count; i++) {
        struct channel *channel = &reader->channels[strands[i].shard];

        channel->at = strands[i].reached;
        if (strands[i].strays == 0)
            continue;
        stats_add(reader->stats, STAT_STORE_ERRORS, strands[i].strays);
        log_warn("store", "%zu entries of %s are no notifications of ours, skipped",
                 strands[i].strays, channel->stream_key);
    }
}

/* Takes the id of a stream's entry as the place to read on from. */
static void
take_place(const redisReply *entry, char at[ENTRY_ID_TEXT_MAX])
{
    struct bytes id = {NULL, 0};

    if (reply_is_array(entry, 1))
        id = reply_bytes(entry->element[0]);
    if (id.at != NULL && id.len < ENTRY_ID_TEXT_MAX)
        snprintf(at, ENTRY_ID_TEXT_MAX, "%.*s", (int)id.len, (const char *)id.at);
}

static void
take_receipts(struct channel *channel, const redisReply *entries)
{
    struct reader *reader = channel->reader;
    const char *name = store_name(reader->store);

    for (size_t i = 0; i < entries->elements; i++) {
        const redisReply *entry = entries->element[i];
        struct bytes by, gone;

        take_place(entry, channel->receipts_at);
        if (!reply_is_array(entry, 2))
            continue;
        gone = reply_field(entry->element[1], "gone");
        if (gone.len > 0)
            reader->events.on_settled(reader->events.ctx, gone, false);
        by = reply_field(entry->element[1], "by");
        if (by.len != strlen(name) || memcmp(by.at, name, by.len) != 0)
            reader->events.on_settled(reader->events.ctx, reply_field(entry->element[1], "acked"),
                                      true);
    }
}

static void
take_members(struct reader *reader, const redisReply *entries)
{
    for (size_t i = 0; i < entries->elements; i++) {
        const redisReply *entry = entries->element[i];
        struct reader_member member;
        struct bytes change;

        if (!reply_is_array(entry, 2))
            continue;
        take_place(entry, reader->control_at);
        change = reply_field(entry->element[1], "change");
        member.added = change.len == 1 && change.at[0] == '+';
        member.audience = reply_field(entry->element[1], "audience");
        member.target = reply_field(entry->element[1], "target");
        member.user = reply_field(entry->element[1], "user");
        if (member.user.at != NULL && member.target.at != NULL)
            reader->events.on_member(reader->events.ctx, &member);
    }
}

static bool
is_key(struct bytes key, const char *name)
{
    return key.len == strlen(name) && memcmp(key.at, name, key.len) == 0;
}

/* Entries wait in `strands` for those of other shards. */
static void
take_stream(struct reader *reader, const redisReply *stream, struct strand *strands,
            unsigned *strand_count)
{
    const struct bytes key = reply_bytes(stream->element[0]);
    const redisReply *entries = stream->element[1];

    if (is_key(key, reader->control_key))
        take_members(reader, entries);
    for (unsigned i = 0; i < reader->channel_count; i++) {
        struct channel *channel = &reader->channels[i];

        if (is_key(key, channel->receipts_key))
            take_receipts(channel, entries);
        else if (is_key(key, channel->stream_key) && *strand_count < STORE_SHARDS_MAX)
            strand_begin(&strands[(*strand_count)++], i, channel->at, entries,
                         reader->channel_count > 1 && entries->elements >= reader->most);
    }
}

static void
on_read(void *ctx, const redisReply *reply)
{
    struct lane *lane = ctx;
    struct reader *reader = lane->reader;
    struct strand strands[STORE_SHARDS_MAX];
    unsigned count = 0;

    lane->reading = false;
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
            take_stream(reader, stream, strands, &count);
    }
    take_entries(reader, strands, count);
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

static void
lane_read(struct lane *lane)
{
    struct reader *reader = lane->reader;
    const char *argv[READER_ARGC] = {"XREAD", "COUNT", NULL, "BLOCK", READER_BLOCK_MS, "STREAMS"};
    struct wanted wanted = {.count = 0};
    size_t lens[READER_ARGC], argc;
    char at[STORE_SHARDS_MAX][ENTRY_ID_TEXT_MAX], most[24];

    if (lane->reading || !reader->seeking || !lane->is_placed)
        return;
    snprintf(most, sizeof(most), "%zu", reader->most);
    argv[2] = most;
    /* Memberships first: a change and a message of one transaction come in one answer. */
    if (lane->number == 0)
        want(&wanted, reader->control_key, reader->control_at);
    for (unsigned i = lane->number; i < reader->channel_count; i += reader->lane_count)
        want(&wanted, reader->channels[i].receipts_key, reader->channels[i].receipts_at);
    for (unsigned i = lane->number; i < reader->channel_count; i += reader->lane_count) {
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
            take_place(reply->element[0], reader->control_at);
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
        take_place(reply->element[0], newest);
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
    lane->reading = false;
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
reader_open(struct ev_loop *loop, const struct config *config, const struct store *store,
            struct stats *stats, const struct reader_events *events)
{
    const unsigned count = store_shards(store);
    struct reader *reader = memory_new(sizeof(*reader) + count * sizeof(*reader->channels));
    size_t each; /* streams of a server */

    reader->store = store;
    reader->stats = stats;
    reader->events = *events;
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
    free(reader);
}

void
reader_seek(struct reader *reader, const struct entry_id *after)
{
    for (unsigned i = 0; i < reader->channel_count; i++)
        reader->channels[i].at = after[i];
    reader->seeking = true;
    for (unsigned i = 0; i < reader->lane_count; i++)
        lane_read(&reader->lanes[i]);
}
