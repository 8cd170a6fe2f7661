/* store.c: the store comes and goes; what feeds and readers tell it. */
#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/call.h"
#include "store/ingest.h"
#include "store/replicas.h"
#include "store/reply.h"
#include "store/upkeep.h"

#define STORE_PATIENCE_S 10.0
#define STORE_FSYNC_DELAY_US 2000000 /* twice the interval of everysec */
#define STORE_NOTE_MAX (512u << 20)  /* unless the server says otherwise */

static void
random_hex(char *text, size_t len)
{
    unsigned char bytes[STORE_TOKEN_TEXT / 2];

    if (getrandom(bytes, len / 2, 0) != (ssize_t)(len / 2))
        abort();
    for (size_t i = 0; i < len / 2; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

/* Up and down. */

/* CONFIG may be forbidden to our user: then the slower assumption holds. */
static void
on_fsync_mode(void *ctx, const redisReply *reply)
{
    struct store *store = ctx;
    struct bytes mode = {NULL, 0};

    if (reply_is_array(reply, 2))
        mode = reply_bytes(reply->element[1]);
    store->syncs_always = mode.len == 6 && memcmp(mode.at, "always", 6) == 0;
}

static void
on_append_only(void *ctx, const redisReply *reply)
{
    struct bytes mode = {NULL, 0};

    (void)ctx;
    if (reply_is_array(reply, 2))
        mode = reply_bytes(reply->element[1]);
    if (mode.len == 2 && memcmp(mode.at, "no", 2) == 0)
        log_warn("store", "it keeps no append-only file: what it holds is lost when it stops; "
                          "set appendonly yes");
}

/* Longer ones end the connection, again and again. */
static void
on_note_max(void *ctx, const redisReply *reply)
{
    struct store *store = ctx;
    struct bytes max = {NULL, 0};

    if (reply_is_array(reply, 2))
        max = reply_bytes(reply->element[1]);
    if (max.len > 0)
        store->note_max = strtoull((const char *)max.at, NULL, 10);
}

static bool
ask_setting(struct store *store, const char *name, link_reply *reply)
{
    struct arguments arguments = {.argc = 0};

    argument(&arguments, "CONFIG");
    argument(&arguments, "GET");
    argument(&arguments, name);
    return link_send(store->link, reply, store, arguments.argc, arguments.argv, arguments.lens) ==
           RC_OK;
}

static void
tell_listeners(struct store *store)
{
    for (struct store_listener *l = store->listeners; l != NULL; l = l->next) {
        if (store->is_up)
            l->on_up(l->ctx);
        else
            l->on_down(l->ctx);
    }
}

static void
on_hello(void *ctx, const redisReply *reply)
{
    struct store *store = ctx;
    struct bytes epoch = {NULL, 0}, newest = {NULL, 0};

    if (!call_succeeded(store, reply, "prepare the stream")) {
        if (reply != NULL)
            link_restart(store->link, "the stream could not be prepared");
        return;
    }
    if (reply_is_array(reply, 4)) {
        epoch = reply_bytes(reply->element[0]);
        newest = reply_bytes(reply->element[1]);
    }
    if (epoch.len == 0 || epoch.len >= sizeof(store->epoch) || newest.at == NULL ||
        entry_id_read((const char *)newest.at, newest.len, &store->newest) != RC_OK) {
        link_restart(store->link, "its answer to hello makes no sense");
        return;
    }
    snprintf(store->epoch, sizeof(store->epoch), "%.*s", (int)epoch.len, (const char *)epoch.at);
    store->seen = store->newest;
    store->knows_first = reply->element[2]->integer == 1;
    topic_prefix_set(store->topic_prefix, reply_bytes(reply->element[3]));
    link_settle(store->link);
    log_info("store", "connected, epoch %s", store->epoch);
    stats_set(store->stats, STAT_STORE_CONNECTED, 1);
    store->is_up = true;
    tell_listeners(store);
}

static void
on_link_up(void *ctx)
{
    struct store *store = ctx;
    struct arguments arguments = {.argc = 0};
    char fresh_epoch[STORE_EPOCH_TEXT + 1], seen[ENTRY_ID_TEXT_MAX];

    store->syncs_always = false;
    store->note_max = STORE_NOTE_MAX;
    if (!ask_setting(store, "appendfsync", on_fsync_mode) ||
        !ask_setting(store, "proto-max-bulk-len", on_note_max) ||
        !ask_setting(store, "appendonly", on_append_only)) {
        link_restart(store->link, "could not send");
        return;
    }
    random_hex(fresh_epoch, STORE_EPOCH_TEXT);
    entry_id_text(store->seen, seen);
    argument(&arguments, store->stream_key);
    argument(&arguments, store->prefix);
    argument(&arguments, fresh_epoch);
    argument(&arguments, store->epoch);
    argument(&arguments, seen);
    if (link_call(store->link, STORE_SCRIPT_hello, 1, on_hello, store, arguments.argc,
                  (const char **)arguments.argv, arguments.lens) != RC_OK)
        link_restart(store->link, "could not send");
}

static void
on_link_down(void *ctx, const char *reason)
{
    struct store *store = ctx;

    (void)reason; /* the link has logged it */
    if (!store->is_up)
        return;
    store->is_up = false;
    replicas_down(store);
    stats_set(store->stats, STAT_STORE_CONNECTED, 0);
    tell_listeners(store);
}

struct store *
store_open(struct ev_loop *loop, const struct config *config, struct stats *stats)
{
    struct store *store = memory_new(sizeof(*store));
    const struct link_events events = {.on_up = on_link_up, .on_down = on_link_down, .ctx = store};

    store->loop = loop;
    store->stats = stats;
    store->min_replicas = config->store.min_replicas;
    replicas_open(store);
    snprintf(store->prefix, sizeof(store->prefix), "%s", config->store.prefix);
    snprintf(store->stream_key, sizeof(store->stream_key), "%s:stream", store->prefix);
    random_hex(store->owner, STORE_TOKEN_TEXT);
    delivery_settings(config, &store->delivery);
    store->link = link_open(loop, config, "store", STORE_PATIENCE_S, &events);
    if (store->link == NULL) {
        free(store);
        return NULL;
    }
    link_measure(store->link, stats);
    store->upkeep =
        upkeep_open(loop, store->link, config, stats, store->epoch, store->topic_prefix);
    return store;
}

void
store_close(struct store *store)
{
    if (store == NULL)
        return;
    upkeep_close(store->upkeep);
    replicas_down(store);
    link_close(store->link);
    upkeep_free(store->upkeep);
    free(store);
}

void
store_listen(struct store *store, struct store_listener *listener)
{
    listener->next = store->listeners;
    store->listeners = listener;
}

const char *
store_name(const struct store *store)
{
    return store->owner;
}

bool
store_is_up(const struct store *store)
{
    return store->is_up && link_is_up(store->link);
}

bool
store_is_mute(const struct store *store)
{
    return store_is_up(store) && upkeep_is_refused(store->upkeep);
}

const char *
store_epoch(const struct store *store)
{
    return store->epoch;
}

void
store_saw(struct store *store, unsigned shard, struct entry_id id)
{
    (void)shard;
    if (entry_id_less(store->seen, id))
        store->seen = id;
}

int64_t
store_fsync_delay_us(const struct store *store)
{
    return store->syncs_always ? 0 : STORE_FSYNC_DELAY_US;
}

const struct entry_id *
store_newest(const struct store *store)
{
    return &store->newest;
}

unsigned
store_shards(const struct store *store)
{
    (void)store;
    return 1;
}

unsigned
store_shard_of(const struct store *store, const char *user)
{
    (void)store;
    (void)user;
    return 0;
}

/* Feed. */

static void
on_claimed(void *ctx, const redisReply *reply)
{
    struct call *call = ctx;
    struct store_progress progress = {NULL, 0, 0};

    if (call_succeeded(call->store, reply, "take the slot's progress") &&
        reply_is_array(reply, 3) && reply->element[0]->str != NULL &&
        reply->element[1]->str != NULL && reply->element[2]->str != NULL) {
        progress.position = reply->element[0]->str;
        progress.timeline = (uint32_t)strtoul(reply->element[1]->str, NULL, 10);
        progress.read_lsn = strtoull(reply->element[2]->str, NULL, 16);
        call->store->read_lsn = progress.read_lsn;
    }
    if (progress.position != NULL && strlen(progress.position) <= FRAME_POSITION_TEXT)
        call->done.claimed(call->ctx, RC_OK, &progress);
    else
        call->done.claimed(call->ctx, RC_IO, NULL);
    free(call);
}

enum rc
store_claim(struct store *store, const char *slot, const char *system, uint32_t timeline,
            store_claimed *done, void *ctx)
{
    struct call *call;
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX];
    char timeline_text[16];

    if (!store->is_up)
        return RC_AGAIN;
    call = call_new(store, ctx);
    call->done.claimed = done;
    /* A new one each time: what an earlier claim still has under way comes too late. */
    random_hex(store->claim, STORE_TOKEN_TEXT);
    ingest_progress_key(store, slot, key);
    snprintf(timeline_text, sizeof(timeline_text), "%" PRIu32, timeline);
    argument(&arguments, key);
    argument(&arguments, store->claim);
    argument(&arguments, system);
    argument(&arguments, timeline_text);
    return call_send(call, STORE_SCRIPT_claim, 1, on_claimed, &arguments);
}

static void
on_reset(void *ctx, const redisReply *reply)
{
    struct store *store = ctx;

    if (call_succeeded(store, reply, "reset the slot's progress"))
        link_restart(store->link, "its progress was reset, starting over");
    else if (reply != NULL)
        link_restart(store->link, "its progress could not be reset");
}

enum rc
store_reset(struct store *store, const char *slot, const struct store_progress *progress,
            bool is_gap)
{
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX], timeline_text[16], fresh_epoch[STORE_EPOCH_TEXT + 1] = "";
    char read[INGEST_LSN_TEXT + 1];

    ingest_progress_key(store, slot, key);
    ingest_lsn_text(progress->read_lsn, read);
    snprintf(timeline_text, sizeof(timeline_text), "%" PRIu32, progress->timeline);
    if (is_gap)
        random_hex(fresh_epoch, STORE_EPOCH_TEXT);
    argument(&arguments, key);
    argument(&arguments, store->prefix);
    argument(&arguments, store->claim);
    argument(&arguments, timeline_text);
    argument(&arguments, progress->position);
    argument(&arguments, fresh_epoch);
    argument(&arguments, read);
    return link_call(store->link, STORE_SCRIPT_reset, 1, on_reset, store, arguments.argc,
                     arguments.argv, arguments.lens);
}
