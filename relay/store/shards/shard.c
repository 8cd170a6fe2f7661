/* shard.c: one shard: connects and prepares it, and closes it. */
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "store/connection/reply.h"
#include "store/store.h"
#include "store/timeouts.h"
#include "wire/frame.h"

#define STORE_NOTIFICATION_MAX (512u << 20) /* the server's default */

/* If the ACL user is not allowed to run CONFIG, everysec is assumed. */
static void
on_fsync_mode(void *ctx, const struct redisReply *reply)
{
    struct shard *shard = ctx;
    struct bytes mode = {NULL, 0};

    if (reply_is_array(reply, 2))
        mode = reply_bytes(reply_at(reply, 1));
    shard->syncs_always = mode.at != NULL && bytes_equal_text(mode, "always");
}

/* Settings with which the server loses notifications silently. */
static const struct {
    const char *setting;
    const char *safe;
    const char *message;
    const char *hint;
} unsafe_settings[] = {
    {"appendonly", "yes", "append-only file disabled: notifications are lost when the store stops",
     "run CONFIG SET appendonly yes, then CONFIG REWRITE"},
    {"maxmemory-policy", "noeviction", "eviction enabled: a full store deletes notifications",
     "run CONFIG SET maxmemory-policy noeviction, then CONFIG REWRITE"},
    {"active-replica", "no", "active-replica enabled: two writable primaries lose notifications",
     "set active-replica no in keydb.conf, then restart KeyDB"},
};

/* If the server does not have this setting, it returns an empty array. */
static void
on_setting(void *ctx, const struct redisReply *reply)
{
    const struct shard *shard = ctx;

    if (!reply_is_array(reply, 2))
        return;
    for (size_t i = 0; i < sizeof(unsafe_settings) / sizeof(unsafe_settings[0]); i++)
        if (bytes_equal_text(reply_bytes(reply_at(reply, 0)), unsafe_settings[i].setting) &&
            !bytes_equal_text(reply_bytes(reply_at(reply, 1)), unsafe_settings[i].safe))
            log_warn(shard->name, unsafe_settings[i].message,
                     LOG_TEXT("hint", unsafe_settings[i].hint));
}

/* Stores the maximum length of an argument: for more, the server would close the connection. */
static void
on_notification_max(void *ctx, const struct redisReply *reply)
{
    struct shard *shard = ctx;
    struct bytes max = {NULL, 0};

    if (reply_is_array(reply, 2))
        max = reply_bytes(reply_at(reply, 1));
    if (max.len > 0)
        shard->notification_max = strtoull((const char *)max.at, NULL, 10);
}

static bool
send_config_get(struct shard *shard, const char *name, link_reply *reply)
{
    struct arguments arguments = {.argc = 0};

    argument(&arguments, "CONFIG");
    argument(&arguments, "GET");
    argument(&arguments, name);
    return link_send(shard->link, reply, shard, (int)arguments.argc, arguments.argv,
                     arguments.lens) == RC_OK;
}

/* In another epoch the WAL position may have moved back: earlier positions are invalid. */
static void
update_seen_position(struct shard *shard, struct bytes epoch, struct bytes position)
{
    struct position to = {0, 0};

    if (frame_position_parse((const char *)position.at, position.len, &to.lsn, &to.ordinal) !=
        RC_OK)
        to = (struct position){0, 0};
    if (!bytes_equal_text(epoch, shard->epoch))
        shard->seen_position = to;
    else
        position_raise(&shard->seen_position, to);
}

/* `covered`: see struct shard_cut */
static void
set_cut(struct shard *shard, const struct redisReply *covered)
{
    const struct bytes position = reply_field(covered, "position");
    struct shard_cut *cut = &shard->cut;

    *cut = (struct shard_cut){.position = {0, 0}};
    if (frame_position_parse((const char *)position.at, position.len, &cut->position.lsn,
                             &cut->position.ordinal) != RC_OK)
        cut->position = (struct position){0, 0};
    shard_dependency_read(reply_field(covered, "sent"), cut->sent, shard->store->shard_count);
}

static void
set_newest_transactions(struct shard *shard, const struct redisReply *reply)
{
    struct transactions *newest = &shard->newest_transactions;
    const struct redisReply *changes = reply_at(reply, 6);

    newest->count = 0;
    transactions_add_packed(newest, reply_bytes(reply_at(reply, 5)));
    for (size_t i = 0; i + 1 < reply_count(changes); i += 2) {
        const struct bytes xid = reply_bytes(reply_at(changes, i + 1));
        struct entry_id at;

        /* A change has no commit time, so the time when it was stored is used. */
        if (xid.len > 0 && reply_id(reply_at(changes, i), &at) == RC_OK)
            transactions_add(newest, strtoull((const char *)xid.at, NULL, 10),
                             (int64_t)at.ms * 1000);
    }
}

static void
on_hello(void *ctx, const struct redisReply *reply)
{
    struct shard *shard = ctx;
    struct bytes epoch = {NULL, 0}, newest = {NULL, 0};
    struct history history;
    struct entry_id at;

    if (reply_is_error(reply) && strncmp(reply_text(reply), "SHARDS ", 7) == 0) {
        log_error(shard->name, "store was created with another number of shards, stopping",
                  LOG_TEXT("error", reply_text(reply)));
        shard->events->on_rejected(shard);
        return;
    }
    if (!shard_check_reply(shard, reply, "could not prepare the stream")) {
        if (reply != NULL)
            link_restart(shard->link, "could not prepare the stream");
        return;
    }
    if (reply_is_array(reply, 11)) {
        epoch = reply_bytes(reply_at(reply, 0));
        newest = reply_bytes(reply_at(reply, 1));
    }
    if (epoch.len == 0 || epoch.len >= sizeof(shard->epoch) || newest.at == NULL ||
        entry_id_read((const char *)newest.at, newest.len, &at) != RC_OK ||
        history_read(reply_bytes(reply_at(reply, 9)), &history) != RC_OK) {
        link_restart(shard->link, "invalid reply to hello.lua");
        return;
    }
    update_seen_position(shard, epoch, reply_bytes(reply_at(reply, 4)));
    snprintf(shard->epoch, sizeof(shard->epoch), "%.*s", (int)epoch.len, (const char *)epoch.at);
    shard->history = history;
    if (shard->reader_history.count == 0)
        shard->reader_history = history;
    shard->seen = history_label(&history, at);
    set_newest_transactions(shard, reply);
    set_cut(shard, reply_at(reply, 10));
    shard->has_first_entry = reply_integer(reply_at(reply, 2)) == 1;
    shard->undone_count = (uint64_t)reply_integer(reply_at(reply, 8));
    if (reply_integer(reply_at(reply, 7)) == 1)
        shard->store->has_progress = true;
    shard_set_topic_prefix(shard, reply_bytes(reply_at(reply, 3)));
    link_set_usable(shard->link);
    shard->is_up = true;
    shard->events->on_up(shard);
}

/* Prepares the shard by hello.lua, which also stores that this node has all keys. */
static void
send_hello(struct shard *shard)
{
    struct arguments arguments = {.argc = 0};
    char fresh_epoch[STORE_EPOCH_TEXT + 1], count[16];

    random_hex(fresh_epoch, STORE_EPOCH_TEXT);
    snprintf(count, sizeof(count), "%u", shard->store->shard_count);
    argument(&arguments, shard->stream_key);
    argument(&arguments, shard->prefix);
    argument(&arguments, fresh_epoch);
    argument(&arguments, count);
    argument(&arguments, shard->store->topology.is_cluster ? "" : "1");
    argument(&arguments, shard->place.node);
    if (link_call(shard->link, STORE_SCRIPT_hello, 1, on_hello, shard, (int)arguments.argc,
                  arguments.argv, arguments.lens) != RC_OK)
        link_restart(shard->link, "could not send a command");
}

/* A command uses the shard as the relays have prepared it. */
static void
use_as_prepared(struct shard *shard)
{
    link_set_usable(shard->link);
    shard->is_up = true;
    shard->events->on_up(shard);
}

static void
on_link_up(void *ctx)
{
    struct shard *shard = ctx;
    bool is_sent;

    if (shard->store->command != NULL) {
        place_verify(shard, use_as_prepared);
        return;
    }
    shard->syncs_always = false;
    shard->notification_max = STORE_NOTIFICATION_MAX;
    is_sent = send_config_get(shard, "appendfsync", on_fsync_mode) &&
              send_config_get(shard, "proto-max-bulk-len", on_notification_max);
    /* The shards of a connection share the settings of their server. */
    if (topology_is_first_shard(&shard->store->topology, shard->number))
        for (size_t i = 0; i < sizeof(unsafe_settings) / sizeof(unsafe_settings[0]); i++)
            is_sent = is_sent && send_config_get(shard, unsafe_settings[i].setting, on_setting);
    if (!is_sent) {
        link_restart(shard->link, "could not send a command");
        return;
    }
    place_verify(shard, send_hello);
}

static void
on_link_down(void *ctx, const char *reason)
{
    struct shard *shard = ctx;

    place_stop(shard, reason);
    if (!shard->is_up)
        return;
    shard->is_up = false;
    shard->events->on_down(shard);
}

static void
on_link_failed(void *ctx, const char *server, const char *reason)
{
    struct shard *shard = ctx;
    char what[URL_FORMAT_MAX + 64] = "the store does not reply";

    if (shard->events->on_failed == NULL)
        return;
    if (server != NULL)
        snprintf(what, sizeof(what), "could not connect to the store (%s)", server);
    shard->events->on_failed(shard, what, reason);
}

void
shard_open(struct shard *shard, struct store *store, unsigned number, const struct config *config,
           const struct shard_events *events)
{
    const struct link_events link_events = {
        .on_up = on_link_up, .on_down = on_link_down, .on_failed = on_link_failed, .ctx = shard};
    const struct link_target target = {store->servers, number, shard->name, store->command != NULL};

    *shard = (struct shard){.store = store, .number = number, .events = events};
    if (config->store.shards > 1)
        snprintf(shard->name, sizeof(shard->name), "store-%u", number);
    else
        snprintf(shard->name, sizeof(shard->name), "store");
    place_open(shard);
    replicas_open(shard);
    topology_shard_prefix(&store->topology, config->store.prefix, number, shard->prefix);
    key_write(shard->stream_key, shard->prefix, KEY_STREAM);
    shard->link =
        link_open(store->loop, config, &target,
                  store->topology.is_cluster ? LINK_NODE_TIMEOUT_S : LINK_TIMEOUT_S, &link_events);
    link_measure(shard->link, store->stats);
    if (store->command == NULL) /* a command writes nothing by itself */
        shard->maintenance = maintenance_open(shard);
}

void
shard_close(struct shard *shard)
{
    maintenance_stop(shard->maintenance);
    replicas_close(shard);
    place_stop(shard, "");
    link_close(shard->link);
    shard->link = NULL; /* a failed callback may call link_restart for all shards */
}

void
shard_free(struct shard *shard)
{
    maintenance_free(shard->maintenance);
}
