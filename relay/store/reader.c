/* reader.c: follows the stream and the control stream of the store as they grow. */
#include "store/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "store/link.h"
#include "store/reply.h"
#include "store/store.h"
#include "store/upkeep.h"

/*
 * KeyDB 6.3.4 crashes when a client that blocks with a time-out dies and the time-out comes: so
 * none, and the beat stream (upkeep.h) tells a quiet store from a dead one.
 */
#define READER_BLOCK_MS "0"
#define READER_COUNT "64" /* of up to a megabyte each */
#define READER_PATIENCE_S (4 * UPKEEP_BEAT_S)
#define READER_KEY_MAX 128
#define READER_ARGC 14

struct reader {
    struct link *link;
    struct stats *stats;
    struct reader_events events;
    bool seeking;       /* reader_seek was called: we know where to read */
    bool control_known; /* "$" was resolved: the control position is exact */
    bool reading;       /* an XREAD is under way */
    struct entry_id at;
    char control_at[ENTRY_ID_TEXT_MAX];
    char receipts_at[ENTRY_ID_TEXT_MAX]; /* goes on where it was when the connection comes back */
    const struct store *store;
    char stream_key[READER_KEY_MAX];
    char control_key[READER_KEY_MAX];
    char receipts_key[READER_KEY_MAX];
    char beat_key[READER_KEY_MAX];
};

static void reader_read(struct reader *reader);

static void
take_entries(struct reader *reader, const redisReply *entries)
{
    for (size_t i = 0; i < entries->elements; i++) {
        struct bytes id = {NULL, 0};
        struct entry entry;

        if (reply_is_array(entries->element[i], 1))
            id = reply_bytes(entries->element[i]->element[0]);
        if (id.at == NULL || entry_id_read((const char *)id.at, id.len, &reader->at) != RC_OK)
            continue;
        if (reply_entry(entries->element[i], &entry) != RC_OK) {
            stats_add(reader->stats, STAT_STORE_ERRORS, 1);
            log_warn("store", "entry %.*s of %s is not a notification of ours, skipped",
                     (int)id.len, (const char *)id.at, reader->stream_key);
            continue;
        }
        reader->events.on_entry(reader->events.ctx, &entry);
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
take_receipts(struct reader *reader, const redisReply *entries)
{
    const char *name = store_name(reader->store);

    for (size_t i = 0; i < entries->elements; i++) {
        const redisReply *entry = entries->element[i];
        struct bytes by, gone;

        take_place(entry, reader->receipts_at);
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

static void
on_read(void *ctx, const redisReply *reply)
{
    struct reader *reader = ctx;

    reader->reading = false;
    if (reply == NULL)
        return; /* the link says so and comes back */
    if (reply->type == REDIS_REPLY_ERROR) {
        stats_add(reader->stats, STAT_STORE_ERRORS, 1);
        link_restart(reader->link, reply->str);
        return;
    }
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        const redisReply *stream = reply->element[i];
        struct bytes key;

        if (!reply_is_array(stream, 2) || !reply_is_array(stream->element[1], 0))
            continue;
        key = reply_bytes(stream->element[0]);
        if (is_key(key, reader->stream_key))
            take_entries(reader, stream->element[1]);
        else if (is_key(key, reader->control_key))
            take_members(reader, stream->element[1]);
        else if (is_key(key, reader->receipts_key))
            take_receipts(reader, stream->element[1]);
    }
    reader_read(reader);
}

static void
reader_read(struct reader *reader)
{
    char at[ENTRY_ID_TEXT_MAX];
    const char *argv[READER_ARGC] = {
        "XREAD", "COUNT", READER_COUNT, "BLOCK", READER_BLOCK_MS, "STREAMS",
        /* Memberships first: a change and a message of one transaction come in one answer. */
        reader->control_key, reader->receipts_key, reader->stream_key, reader->beat_key,
        reader->control_at, reader->receipts_at, at, "$"};
    size_t lens[READER_ARGC];

    if (reader->reading || !reader->seeking || !reader->control_known)
        return;
    entry_id_text(reader->at, at);
    for (size_t i = 0; i < READER_ARGC; i++)
        lens[i] = strlen(argv[i]);
    reader->reading = link_send(reader->link, on_read, reader, READER_ARGC, argv, lens) == RC_OK;
}

/* "$" in every XREAD would miss what is added between two: ask once for the newest. */
static void
on_control_newest(void *ctx, const redisReply *reply)
{
    struct reader *reader = ctx;

    if (reply == NULL)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        link_restart(reader->link, reply->str);
        return;
    }
    snprintf(reader->control_at, sizeof(reader->control_at), "0-0");
    if (reply_is_array(reply, 1))
        take_place(reply->element[0], reader->control_at);
    reader->control_known = true;
    link_settle(reader->link);
    reader->events.on_resumed(reader->events.ctx);
    reader_read(reader);
}

/* A store that was emptied counts from the beginning. */
static void
on_receipts_newest(void *ctx, const redisReply *reply)
{
    struct reader *reader = ctx;
    char newest[ENTRY_ID_TEXT_MAX] = "0-0";
    struct entry_id at = {0, 0}, end = {0, 0};

    if (reply_is_array(reply, 1))
        take_place(reply->element[0], newest);
    if (entry_id_read(reader->receipts_at, strlen(reader->receipts_at), &at) != RC_OK ||
        entry_id_read(newest, strlen(newest), &end) != RC_OK || entry_id_less(end, at))
        snprintf(reader->receipts_at, sizeof(reader->receipts_at), "%s", newest);
}

static void
ask_newest(struct reader *reader, const char *key, link_reply *reply)
{
    const char *argv[] = {"XREVRANGE", key, "+", "-", "COUNT", "1"};
    size_t lens[6];

    for (size_t i = 0; i < 6; i++)
        lens[i] = strlen(argv[i]);
    if (link_send(reader->link, reply, reader, 6, argv, lens) != RC_OK)
        link_restart(reader->link, "could not send");
}

static void
on_up(void *ctx)
{
    struct reader *reader = ctx;

    reader->control_known = false;
    ask_newest(reader, reader->receipts_key, on_receipts_newest);
    ask_newest(reader, reader->control_key, on_control_newest);
}

static void
on_down(void *ctx, const char *reason)
{
    struct reader *reader = ctx;

    (void)reason; /* the link has logged it */
    reader->reading = false;
}

/* Beats are all that comes from a quiet store, and a full one takes none. */
static bool
is_excused(void *ctx)
{
    const struct reader *reader = ctx;

    return link_is_up(reader->link) && store_is_mute(reader->store);
}

struct reader *
reader_open(struct ev_loop *loop, const struct config *config, const struct store *store,
            struct stats *stats, const struct reader_events *events)
{
    struct reader *reader = memory_new(sizeof(*reader));
    const struct link_events link_events = {
        .on_up = on_up, .on_down = on_down, .is_excused = is_excused, .ctx = reader};

    reader->store = store;
    reader->stats = stats;
    reader->events = *events;
    snprintf(reader->stream_key, READER_KEY_MAX, "%s:stream", config->store.prefix);
    snprintf(reader->control_key, READER_KEY_MAX, "%s:control", config->store.prefix);
    snprintf(reader->receipts_key, READER_KEY_MAX, "%s:receipts", config->store.prefix);
    snprintf(reader->beat_key, READER_KEY_MAX, "%s:beat", config->store.prefix);
    reader->link =
        link_open(loop, config, config->store.url, "store-reader", READER_PATIENCE_S, &link_events);
    if (reader->link == NULL) {
        free(reader);
        return NULL;
    }
    return reader;
}

void
reader_close(struct reader *reader)
{
    if (reader == NULL)
        return;
    link_close(reader->link);
    free(reader);
}

void
reader_seek(struct reader *reader, const struct entry_id *after)
{
    reader->at = after[0];
    reader->seeking = true;
    reader_read(reader);
}
