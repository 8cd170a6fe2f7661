/* reader_reply.c: what the streams of the store answered, in the order in which it counts. */
#include "store/read/reader_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "store/connection/reply.h"
#include "store/read/control.h"
#include "store/store.h"

/*
 * Notes wait so long for those before them in another shard: another feed has taken over by then.
 */
#define READER_ORDER_S 3
#define READER_FORGETS 8 /* of what was large, so much of it with each answer */

static void
tell_strays(struct reader *reader, const struct channel *channel, size_t strays)
{
    if (strays == 0)
        return;
    stats_add(reader->stats, STAT_STORE_ERRORS, strays);
    log_warnf("store", "%zu entries of %s are no notifications of ours, skipped", strays,
              channel->stream_key);
}

/* All there is comes from one stream. */
static void
give_entries(struct reader *reader, const struct channel *channel, const struct redisReply *entries)
{
    struct entry entry;
    size_t strays = 0;

    for (size_t i = 0; i < reply_count(entries); i++) {
        if (reply_entry(reply_at(entries, i), &entry) == RC_OK)
            reader->events.on_entry(reader->events.ctx, &entry);
        else
            strays++;
    }
    tell_strays(reader, channel, strays);
}

static void
note_sizes(struct reader *reader, const struct redisReply *entries)
{
    reader->note_bytes -= reader->note_bytes / READER_FORGETS;
    for (size_t i = 0; i < reply_count(entries); i++) {
        size_t bytes = reply_size(reply_at(entries, i));

        if (bytes > reader->note_bytes)
            reader->note_bytes = bytes;
    }
}

static void
take_entries(struct reader *reader, unsigned shard, const struct redisReply *entries)
{
    struct channel *channel = &reader->channels[shard];
    const struct redisReply *last;
    struct bytes id = {NULL, 0};

    if (reply_count(entries) == 0)
        return;
    if (reader->order == NULL)
        give_entries(reader, channel, entries);
    else
        order_add(reader->order, shard, entries);
    last = reply_at(entries, reply_count(entries) - 1);
    if (reply_is_array(last, 1))
        id = reply_bytes(reply_at(last, 0));
    if (id.at != NULL && entry_id_read((const char *)id.at, id.len, &channel->at) == RC_OK &&
        reader->order != NULL)
        store_record_position(reader->store, shard, channel->at, order_seen(reader->order, shard));
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
        tell_strays(reader, &reader->channels[i], order_foreign_entries(reader->order, i));
    if (order_waits(reader->order) && !ev_is_active(&reader->order_timer))
        ev_timer_again(reader->loop, &reader->order_timer);
    for (unsigned i = 0; i < reader->lane_count; i++)
        reader_read(&reader->lanes[i]);
}

void
reader_order_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct reader *reader = timer->data;
    int64_t before_us = clock_monotonic_us() - READER_ORDER_S * INT64_C(1000000);
    int shard;

    (void)events;
    while ((shard = order_give_up(reader->order, before_us)) >= 0)
        log_warnf(
            "store",
            "shard %d is behind, or has lost what it held: what waited %d s for earlier notes "
            "of it goes out before them",
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
ask_anew(struct lane *lane, struct tail *tail)
{
    struct reader *reader = lane->reader;

    if (!tail_has_missed(tail))
        return;
    log_infof(lane->name, "missed some of %s, having read it late: asking for all anew", tail->key);
    reader->events.on_resumed(reader->events.ctx);
}

/* What one answer holds besides memberships, by channel; NULL: nothing. */
struct answer {
    const struct redisReply *notes[STORE_SHARDS_MAX];
    const struct redisReply *receipts[STORE_SHARDS_MAX];
    enum lag lag;
};

static void
take_stream(struct lane *lane, const struct redisReply *stream, struct answer *answer)
{
    struct reader *reader = lane->reader;
    const struct bytes key = reply_bytes(reply_at(stream, 0));
    const struct redisReply *entries = reply_at(stream, 1);

    if (is_key(key, reader->control.key)) {
        if (tail_begin(&reader->control, lane->link, entries, lane->asked))
            answer->lag = LAG_MEMBERS;
        control_take_members(&reader->events, entries, reader->control.at);
    }
    for (unsigned i = 0; i < reader->channel_count; i++) {
        if (is_key(key, reader->channels[i].receipts.key))
            answer->receipts[i] = entries;
        else if (is_key(key, reader->channels[i].stream_key))
            answer->notes[i] = entries;
    }
}

static void
take_notes(struct lane *lane, struct answer *answer)
{
    struct reader *reader = lane->reader;

    for (unsigned i = 0; i < reader->channel_count; i++) {
        if (answer->notes[i] == NULL)
            continue;
        if (reply_count(answer->notes[i]) >= lane->asked)
            answer->lag = LAG_NOTES;
        note_sizes(reader, answer->notes[i]);
        take_entries(reader, i, answer->notes[i]);
    }
    release(reader);
}

static void
take_receipts(struct lane *lane, const struct answer *answer)
{
    struct reader *reader = lane->reader;
    const struct topology *topology = &reader->topology;
    bool has_more = false;

    for (unsigned i = 0; i < reader->channel_count; i++) {
        struct tail *receipts = &reader->channels[i].receipts;

        if (answer->receipts[i] == NULL)
            continue;
        has_more |= tail_begin(receipts, lane->link, answer->receipts[i], lane->asked);
        control_take_receipts(&reader->events, store_relay_id(reader->store), answer->receipts[i],
                              receipts->at);
    }
    for (unsigned i = topology_first_shard(topology, lane->number);
         i < topology->shards && !has_more; i = topology_next_shard(topology, i))
        ask_anew(lane, &reader->channels[i].receipts);
}

/* What has to wait is left where it is. */
static void
take_answer(struct lane *lane, struct answer *answer, bool is_stale)
{
    if (answer->lag == LAG_NONE && lane->number == 0)
        ask_anew(lane, &lane->reader->control);
    if (answer->lag == LAG_NONE && !is_stale)
        take_notes(lane, answer);
    if (answer->lag == LAG_NONE)
        take_receipts(lane, answer);
    lane->lag = answer->lag;
}

void
reader_take(struct lane *lane, const struct redisReply *reply, bool is_stale)
{
    struct answer answer = {.lag = LAG_NONE};

    for (size_t i = 0; reply_is_array(reply, 0) && i < reply_count(reply); i++) {
        const struct redisReply *stream = reply_at(reply, i);

        if (reply_is_array(stream, 2) && reply_is_array(reply_at(stream, 1), 0))
            take_stream(lane, stream, &answer);
    }
    take_answer(lane, &answer, is_stale);
}
