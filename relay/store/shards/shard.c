/*
 * shard.c: one shard, from its connection to its end: the settings of its server, whether that node
 * of a cluster has all of its keys (shard.h), then hello.lua, which prepares it.
 */
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "store/connection/connect.h"
#include "store/connection/reply.h"
#include "store/store.h"
#include "store/timeouts.h"
#include "wire/frame.h"

#define STORE_NOTIFICATION_MAX (512u << 20) /* the server's default */
#define COUNT_ERROR_MAX 160

/* ---- the settings of the server */

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

/* ---- which node has the keys, and whether it has all of them */

bool
place_is_abandoned(const struct place_facts *facts, const char *id)
{
    return strstr(facts->without, id) != NULL;
}

/* True if this node, which has not replied, may have keys of the shard. */
static bool
must_reply(const struct shard_place *place, const struct place_facts *facts,
           const struct cluster_primary *other)
{
    const char *former = place->node[0] != '\0' ? place->node : facts->verdict;

    if (former[0] == '\0')
        return facts->own_keys > 0; /* no relay has found all keys */
    if (strcmp(other->id, place->other_node) == 0)
        return true;
    /* Unless a move had begun, a replica of a failed node has taken over all of its keys. */
    return strcmp(other->id, former) == 0 && (place->other_node[0] != '\0' || !other->is_failed);
}

enum place_state
place_decide(const struct shard_place *place, const struct place_facts *facts,
             const struct place_other **ret_awaited)
{
    const struct place_other *silent = NULL;

    for (size_t i = 0; i < facts->count; i++) {
        const struct place_other *other = &facts->others[i];

        if (place_is_abandoned(facts, other->primary->id))
            continue;
        if (other->keys > 0) {
            *ret_awaited = other;
            return PLACE_SPLIT;
        }
        /* The log names one node: the one with keys, or one that runs. */
        if (other->keys < 0 && must_reply(place, facts, other->primary) &&
            (silent == NULL || strcmp(other->primary->id, place->other_node) == 0 ||
             (silent->primary->is_failed && strcmp(silent->primary->id, place->other_node) != 0)))
            silent = other;
    }
    if (silent == NULL)
        return PLACE_SOLE;
    *ret_awaited = silent;
    return PLACE_SPLIT;
}

void
place_read_meta(const struct redisReply *reply, struct place_facts *facts)
{
    const struct bytes verdict = reply_bytes(reply_at(reply, 0)),
                       without = reply_bytes(reply_at(reply, 1));

    if (verdict.len < sizeof(facts->verdict))
        snprintf(facts->verdict, sizeof(facts->verdict), "%.*s", (int)verdict.len,
                 (const char *)verdict.at);
    if (without.len < sizeof(facts->without))
        snprintf(facts->without, sizeof(facts->without), "%.*s", (int)without.len,
                 (const char *)without.at);
}

/* The count of another node. */
struct place_count {
    struct place_check *check;
    struct query *query; /* NULL: ended */
    char error[COUNT_ERROR_MAX];
};

struct place_check {
    struct shard *shard;
    unsigned slot;
    char slot_text[8];
    struct url address; /* of the shard's node; of each other node in turn */
    struct cluster_nodes nodes;
    struct place_facts facts;
    struct place_other *others; /* one for each of nodes.others, as the counts */
    struct place_count *counts;
    size_t counting;
};

static void
end_check(struct shard *shard, enum place_state state)
{
    struct place_check *check = shard->place.check;

    shard->place.check = NULL;
    shard->place.state = state;
    if (check == NULL)
        return;
    for (size_t i = 0; check->counts != NULL && i < check->nodes.count; i++)
        query_stop(check->counts[i].query);
    cluster_nodes_free(&check->nodes);
    explicit_bzero(&check->address, sizeof(check->address));
    free(check->others);
    free(check->counts);
    free(check);
}

/*
 * Logs why the shard waits for another node, at first and every few seconds. `hint` NULL: the node
 * does not reply, and a person may accept its loss.
 */
static void
log_wait(const struct place_check *check, const struct cluster_primary *other, const char *message,
         const char *error, const char *hint)
{
    struct shard_place *place = &check->shard->place;
    unsigned suppressed;
    const bool is_new = throttle_allows(&place->waits, clock_monotonic_us(), &suppressed);
    const char *fault = fault_hint(error);
    char server[SLOTS_HOST_MAX + 16], command[128];

    snprintf(server, sizeof(server), "%s:%d", other->node.host, other->node.port);
    snprintf(command, sizeof(command), "clairon store accept %u --without %s", check->shard->number,
             other->id);
    log_event(is_new ? LOG_LEVEL_WARN : LOG_LEVEL_DEBUG, check->shard->name, message,
              LOG_TEXT("error", error),
              LOG_TEXT("hint", hint != NULL    ? hint
                               : fault != NULL ? fault
                                               : "start this node; if it is lost: run the command, "
                                                 "see CLUSTER.md"),
              LOG_TEXT("command", hint == NULL ? command : NULL), LOG_UINT("slot", check->slot),
              LOG_TEXT("node", other->id), LOG_TEXT("server", server));
}

static void
on_dropped(void *ctx, const struct redisReply *reply)
{
    (void)ctx;
    (void)reply; /* `meta` may have moved; a missing key is not created */
}

/* A relay that starts must not rely on a former verdict or decision. */
static void
drop_fields(struct shard *shard, int count)
{
    char meta[STORE_KEY_MAX];
    const char *argv[] = {"HDEL", meta, META_PLACE, META_WITHOUT};

    key_write(meta, shard->prefix, KEY_META);
    if (shard->store->command == NULL &&
        link_send(shard->link, on_dropped, NULL, 2 + count, argv, NULL) != RC_OK)
        log_debug(shard->name, "could not drop the verdict on the shard's node");
}

/* A node that does not reply may return; a missing permission needs a person. */
static void
report_denied(struct shard *shard, const char *error)
{
    char what[64];

    if (shard->events->on_failed == NULL || strstr(error, "NOPERM") == NULL)
        return;
    snprintf(what, sizeof(what), "could not count the keys of shard %u on another node",
             shard->number);
    shard->events->on_failed(shard, what, error);
}

/* Repeats the check later. */
static void
wait_split(struct shard *shard)
{
    end_check(shard, PLACE_SPLIT);
    ev_timer_stop(shard->store->loop, &shard->place.again);
    ev_timer_set(&shard->place.again, PLACE_VERIFY_AGAIN_S, 0.0);
    ev_timer_start(shard->store->loop, &shard->place.again);
}

static void
set_split(struct place_check *check, const struct place_other *other)
{
    struct shard *shard = check->shard;
    struct shard_place *place = &shard->place;
    const char *error = check->counts[other - check->others].error;
    char keys[32];

    if (other->keys > 0 || place->other_node[0] == '\0')
        memcpy(place->other_node, other->primary->id, sizeof(place->other_node));
    if (place->node[0] == '\0')
        memcpy(place->node, other->keys > 0 ? check->nodes.own_id : check->facts.verdict,
               sizeof(place->node));
    if (check->facts.verdict[0] != '\0')
        drop_fields(shard, 1);
    snprintf(keys, sizeof(keys), "%lld keys", other->keys);
    if (other->keys > 0)
        log_wait(check, other->primary, "keys of a shard are on several nodes: waiting", keys,
                 "unless redis-cli moves this slot, complete its move: see CLUSTER.md");
    else
        log_wait(check, other->primary,
                 "could not count the keys of a shard on another node: waiting", error, NULL);
    if (other->keys <= 0)
        report_denied(shard, error);
    wait_split(shard);
}

static void
set_sole(struct place_check *check)
{
    struct shard *shard = check->shard;
    struct shard_place *place = &shard->place;

    if (place->other_node[0] != '\0' && check->facts.without[0] != '\0')
        log_warn("audit", "using a shard without the keys on nodes that were abandoned",
                 LOG_UINT("shard", shard->number), LOG_TEXT("without", check->facts.without));
    memcpy(place->node, check->nodes.own_id, sizeof(place->node));
    place->other_node[0] = '\0';
    place->waits = (struct throttle){0};
    end_check(shard, PLACE_SOLE);
    place->verified(shard);
}

static void
conclude(struct place_check *check)
{
    const struct place_other *awaited = NULL;

    if (place_decide(&check->shard->place, &check->facts, &awaited) == PLACE_SPLIT)
        set_split(check, awaited);
    else
        set_sole(check);
}

/* Points the address at another node. */
static void
set_address(struct place_check *check, const struct slots_node *node)
{
    snprintf(check->address.host, sizeof(check->address.host), "%s", node->host);
    check->address.port = node->port;
}

/* One message per node in several seconds, because a node fails for all shards. */
static void
log_silent(struct place_check *check, size_t at)
{
    struct shard *shard = check->shard;
    const char *error = check->counts[at].error;
    char server[URL_FORMAT_MAX];

    set_address(check, &check->nodes.others[at].node);
    url_format(&check->address, server);
    if (servers_is_new_failure(shard->store->servers, &check->address))
        log_warn(shard->name, "could not count the keys of a shard on another node",
                 LOG_TEXT("error", error), LOG_TEXT("hint", fault_hint(error)),
                 LOG_UINT("slot", check->slot), LOG_TEXT("server", server));
}

static void
on_count(void *ctx, const struct redisReply *reply, const char *error)
{
    struct place_count *count = ctx;
    struct place_check *check = count->check;
    const size_t at = (size_t)(count - check->counts);

    if (reply != NULL) {
        check->others[at].keys = reply_integer(reply);
        query_stop(count->query);
    } else {
        snprintf(count->error, sizeof(count->error), "%s", error);
        log_silent(check, at);
    }
    count->query = NULL;
    if (--check->counting == 0)
        conclude(check);
}

/* A failed node is not asked: a replica may have taken over its slots, and it has former keys. */
static void
count_on_others(struct place_check *check)
{
    const struct store *store = check->shard->store;
    const char *words[QUERY_WORDS_MAX] = {"CLUSTER", "COUNTKEYSINSLOT", check->slot_text};
    const size_t count = check->nodes.count;

    check->others = memory_new((count + 1) * sizeof(*check->others));
    check->counts = memory_new((count + 1) * sizeof(*check->counts));
    for (size_t i = 0; i < count; i++) {
        check->others[i] = (struct place_other){&check->nodes.others[i], -1};
        check->counts[i] = (struct place_count){.check = check, .error = "the node has failed"};
        if (check->nodes.others[i].is_failed)
            continue;
        set_address(check, &check->nodes.others[i].node);
        check->counts[i].query = query_start(store->loop, store->config, &check->address, words,
                                             PLACE_COUNT_TIMEOUT_S, on_count, &check->counts[i]);
        check->counting++;
    }
    check->facts.others = check->others;
    check->facts.count = count;
    if (check->counting == 0)
        conclude(check);
}

/*
 * The node reports a move of the slot: from now on both nodes must reply. The end of the move is
 * found by a query (servers.h), or by the next check.
 */
static void
wait_for_move(struct place_check *check)
{
    struct shard *shard = check->shard;
    struct shard_place *place = &shard->place;

    memcpy(place->node, check->nodes.own_id, sizeof(place->node));
    memcpy(place->other_node, check->nodes.moves_with, sizeof(place->other_node));
    drop_fields(shard, 2);
    log_info(shard->name, "slot of a shard is moving: waiting", LOG_UINT("slot", check->slot),
             LOG_TEXT("node", place->other_node));
    for (size_t i = 0; i < check->nodes.count; i++)
        if (strcmp(check->nodes.others[i].id, place->other_node) == 0 &&
            check->nodes.others[i].is_failed)
            log_wait(check, &check->nodes.others[i],
                     "could not count the keys of a shard on another node: waiting",
                     "the slot is moving, and the node has failed",
                     "start this node; if it is lost, first set the slot to stable: see "
                     "CLUSTER.md");
    wait_split(shard);
}

static void
on_nodes(void *ctx, const struct redisReply *reply)
{
    struct shard *shard = ctx;
    struct place_check *check = shard->place.check;
    const bool is_text = reply != NULL && !reply_is_error(reply) && reply_text(reply) != NULL;

    if (reply == NULL || check == NULL)
        return;
    if (is_text)
        check->nodes = cluster_nodes_read(reply_text(reply), check->address.host, check->slot);
    if (check->nodes.own_id[0] == '\0') {
        link_restart(shard->link, is_text || reply_text(reply) == NULL
                                      ? "invalid reply to CLUSTER NODES"
                                      : reply_text(reply));
        return;
    }
    if (check->nodes.moves_with[0] != '\0') {
        wait_for_move(check);
        return;
    }
    count_on_others(check);
}

static void
on_own_keys(void *ctx, const struct redisReply *reply)
{
    struct place_check *check = ((struct shard *)ctx)->place.check;

    if (check != NULL && reply_is_integer(reply))
        check->facts.own_keys = reply_integer(reply);
}

static void
on_meta(void *ctx, const struct redisReply *reply)
{
    struct shard *shard = ctx;
    const char *error = reply_is_error(reply) ? reply_text(reply) : NULL;

    if (shard->place.check == NULL)
        return;
    if (error == NULL)
        place_read_meta(reply, &shard->place.check->facts);
    else if (strncmp(error, "ASK ", 4) != 0 && link_is_redirected(shard->link, error))
        link_restart(shard->link, error); /* another node has the slot */
}

static bool
send_questions(struct shard *shard, const char *slot)
{
    char meta[STORE_KEY_MAX];
    const char *fields[] = {"HMGET", meta, META_PLACE, META_WITHOUT};
    const char *count[] = {"CLUSTER", "COUNTKEYSINSLOT", slot};
    const char *nodes[] = {"CLUSTER", "NODES"};

    key_write(meta, shard->prefix, KEY_META);
    return link_send(shard->link, on_meta, shard, 4, fields, NULL) == RC_OK &&
           link_send(shard->link, on_own_keys, shard, 3, count, NULL) == RC_OK &&
           link_send(shard->link, on_nodes, shard, 2, nodes, NULL) == RC_OK;
}

/* Calls `verified` from the loop when the state is SOLE; until then it repeats the check. */
static void
place_verify(struct shard *shard, void (*verified)(struct shard *shard))
{
    struct shard_place *place = &shard->place;
    struct place_check *check;

    ev_timer_stop(shard->store->loop, &place->again);
    if (!shard->store->topology.is_cluster) {
        place->state = PLACE_SOLE;
        verified(shard);
        return;
    }
    check = place->check = memory_new(sizeof(*check));
    place->state = PLACE_VERIFYING;
    place->verified = verified;
    check->shard = shard;
    check->facts.own_keys = PLACE_KEYS_UNKNOWN;
    check->slot = slots_of_key(shard->prefix);
    snprintf(check->slot_text, sizeof(check->slot_text), "%u", check->slot);
    if (servers_find(shard->store->servers, shard->number, &check->address) != RC_OK ||
        !send_questions(shard, check->slot_text))
        link_restart(shard->link, "could not send a command");
}

static void
on_verify_again(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct shard *shard = timer->data;

    (void)loop;
    (void)events;
    place_verify(shard, shard->place.verified);
}

/*
 * The link is down, or the shard is closed. `reason`: the error, or ""; a move may have made the
 * server reject a request.
 */
static void
place_stop(struct shard *shard, const char *reason)
{
    struct shard_place *place = &shard->place;

    ev_timer_stop(shard->store->loop, &place->again);
    end_check(shard, place->state == PLACE_VERIFYING ? PLACE_UNKNOWN : place->state);
    /* A move has begun, to or from an unknown node: the node itself must reply. */
    if ((strncmp(reason, "ASK ", 4) == 0 || strncmp(reason, "TRYAGAIN ", 9) == 0) &&
        place->other_node[0] == '\0')
        memcpy(place->other_node, place->node, sizeof(place->other_node));
}

/* ---- hello.lua */

/* In another epoch the WAL position may have moved back: earlier positions are invalid. */
static void
update_seen_position(struct shard *shard, struct bytes epoch, struct bytes position)
{
    const struct position to = position_from(position);

    if (!bytes_equal_text(epoch, shard->epoch))
        shard->seen_position = to;
    else
        position_raise(&shard->seen_position, to);
}

/* `covered`: see struct shard_cut */
static void
set_cut(struct shard *shard, const struct redisReply *covered)
{
    struct shard_cut *cut = &shard->cut;

    *cut = (struct shard_cut){.position = position_from(reply_field(covered, "position"))};
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

/* ---- events of the link, and the life of the shard */

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
    ev_timer_init(&shard->place.again, on_verify_again, 0.0, 0.0);
    shard->place.again.data = shard;
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
