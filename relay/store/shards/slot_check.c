/* slot_check.c: counts the keys of a shard's slot on the other primaries, one after another. */
#include "store/shards/slot_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/servers/cluster_nodes.h"
#include "store/servers/link.h"
#include "store/servers/slot_counts.h"
#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/store_private.h"

#define WAIT_WARN_EVERY_US 10000000

struct slot_check {
    struct shard *shard;
    void (*done)(struct shard *shard);
    char *text; /* reply to CLUSTER NODES */
    struct cluster_nodes nodes;
    bool lists_elsewhere; /* the node in shard->elsewhere replied, or is a working primary */
    bool has_successor;   /* that node has failed, and a replica has taken over its slots */
    struct cluster_primary primary; /* the node in `count` */
    struct url address;             /* of this node; at first of the node that replied */
    unsigned slot;
    struct slot_count *count; /* NULL: none in progress */
};

static void count_on_next(struct slot_check *check);

static void
log_problem(const struct slot_check *check, bool is_new, const char *message, const char *error,
            const char *hint)
{
    const struct shard *shard = check->shard;
    char server[URL_FORMAT_MAX];

    url_format(&check->address, server);
    if (is_new)
        log_warn(shard->name, message, LOG_TEXT("error", error), LOG_TEXT("hint", hint),
                 LOG_UINT("slot", check->slot), LOG_TEXT("server", server));
    else
        log_debug(shard->name, message, LOG_TEXT("error", error), LOG_UINT("slot", check->slot),
                  LOG_TEXT("server", server));
}

/* Logs one message per node in several seconds, because a node fails for all shards. */
static void
warn_of_node(const struct slot_check *check, const char *message, const char *error)
{
    log_problem(check, servers_is_new_failure(check->shard->store->servers, &check->address),
                message, error, fault_hint(error));
}

/* Logs why this shard waits, and repeats the check later. */
static void
wait_for_node(const struct slot_check *check, const char *message, const char *error,
              const char *hint)
{
    struct shard_elsewhere *elsewhere = &check->shard->elsewhere;
    const int64_t now_us = clock_monotonic_us();
    const bool is_new =
        elsewhere->warned_us == 0 || now_us - elsewhere->warned_us >= WAIT_WARN_EVERY_US;

    if (is_new)
        elsewhere->warned_us = now_us;
    log_problem(check, is_new, message, error, hint);
    link_restart(check->shard->link, NULL);
}

static void
remember(struct shard_elsewhere *elsewhere, const char *node)
{
    if (strcmp(elsewhere->node, node) != 0) {
        elsewhere->had_slots = false;
        elsewhere->source[0] = '\0';
    }
    snprintf(elsewhere->node, CLUSTER_ID_MAX, "%s", node);
}

/* While the node is suspected, a replica may already have taken over its slots. */
static void
remember_slots(struct shard_elsewhere *elsewhere, const struct cluster_primary *primary)
{
    const bool works = !primary->is_failed && !primary->is_suspected;

    elsewhere->had_slots = primary->has_slots || (elsewhere->had_slots && !works);
}

static bool
is_remembered(const struct slot_check *check)
{
    return strcmp(check->primary.id, check->shard->elsewhere.node) == 0;
}

/*
 * A primary that does not reply must not stop the shards of other nodes, so it is ignored, unless
 * it may have keys of this shard. If the node that may have keys does not work, a replica may have
 * taken over its slots.
 */
static bool
must_reply(const struct slot_check *check, const char *error)
{
    const struct shard_elsewhere *elsewhere = &check->shard->elsewhere;

    if (fault_requires_count(error))
        return true;
    if (elsewhere->node[0] == '\0')
        return false;
    return is_remembered(check) || strcmp(check->primary.id, elsewhere->source) == 0 ||
           (!check->lists_elsewhere && check->primary.has_slots);
}

/* The link stops the check when it goes down. */
static void
on_count_failure(struct slot_check *check, const char *error)
{
    const char *hint = fault_hint(error);

    if (must_reply(check, error)) {
        wait_for_node(check, "could not count the keys of a shard on another node: waiting", error,
                      hint != NULL ? hint : "start this node; if it is lost: see OPERATIONS.md");
        return;
    }
    warn_of_node(check, "could not count the keys of a shard on another node: ignored", error);
    count_on_next(check);
}

static void
on_count(void *ctx, long long keys, const char *error)
{
    struct slot_check *check = ctx;
    char text[32];

    check->count = NULL;
    if (error != NULL) {
        on_count_failure(check, error);
        return;
    }
    if (keys == 0) {
        count_on_next(check);
        return;
    }
    remember(&check->shard->elsewhere, check->primary.id);
    remember_slots(&check->shard->elsewhere, &check->primary);
    snprintf(text, sizeof(text), "%lld keys", keys);
    wait_for_node(check, "keys of a shard are on several nodes: waiting", text,
                  "unless redis-cli moves this slot, complete its move: see OPERATIONS.md");
}

/*
 * A failed primary that may have keys is waited for: it returns, or a replica takes over its slots.
 * Then any failed primary with slots may be that replica.
 */
static bool
is_skipped(const struct slot_check *check)
{
    const struct cluster_primary *primary = &check->primary;

    if (!primary->is_failed)
        return false;
    return check->has_successor ? !primary->has_slots : !is_remembered(check);
}

static void
count_on_next(struct slot_check *check)
{
    const struct slots_node *node = &check->primary.node;
    struct shard *shard = check->shard;

    do {
        if (!cluster_nodes_next_primary(&check->nodes, &check->primary)) {
            remember(&shard->elsewhere, "");
            check->done(shard);
            return;
        }
    } while (is_skipped(check));
    if (node->port == 0) {
        on_count_failure(check, "unknown address");
        return;
    }
    snprintf(check->address.host, sizeof(check->address.host), "%s", node->host);
    check->address.port = node->port;
    check->count =
        slot_count_start(shard->store->slot_counts, &check->address, check->slot, on_count, check);
}

/* While the slot moves, the other node has a part of the keys. */
static void
read_elsewhere(struct slot_check *check)
{
    struct shard_elsewhere *elsewhere = &check->shard->elsewhere;
    struct cluster_nodes nodes = check->nodes;
    char own_id[CLUSTER_ID_MAX], target[CLUSTER_ID_MAX];

    cluster_nodes_own_id(check->text, own_id);
    if (cluster_nodes_target(check->text, check->slot, target)) {
        remember(elsewhere, target);
        memcpy(elsewhere->source, own_id, sizeof(own_id));
    }
    check->lists_elsewhere = strcmp(own_id, elsewhere->node) == 0;
    while (cluster_nodes_next_primary(&nodes, &check->primary)) {
        if (!is_remembered(check))
            continue;
        remember_slots(elsewhere, &check->primary);
        check->lists_elsewhere = !check->primary.is_failed;
        check->has_successor =
            check->primary.is_failed && elsewhere->had_slots && !check->primary.has_slots;
    }
}

/* While the slot moves, this request is rejected, because its second key does not exist. */
static void
on_probe(void *ctx, const struct redisReply *reply)
{
    struct shard *shard = ctx;

    if (reply != NULL && reply_is_error(reply))
        link_restart(shard->link, reply_text(reply));
}

static void
on_nodes(void *ctx, const struct redisReply *reply)
{
    struct slot_check *check = ((struct shard *)ctx)->slot_check;
    const char *error;

    if (reply == NULL || check == NULL)
        return;
    if (reply_is_error(reply) || reply_text(reply) == NULL) {
        error = reply_is_error(reply) ? reply_text(reply) : "invalid reply";
        warn_of_node(check, "could not read the nodes of the cluster", error);
        link_restart(check->shard->link, NULL);
        return;
    }
    check->text = memory_text(reply_text(reply), strlen(reply_text(reply)));
    check->nodes = cluster_nodes_begin(check->text, check->address.host);
    read_elsewhere(check);
    count_on_next(check);
}

static bool
send_requests(struct shard *shard)
{
    const char *probe[] = {"EXISTS", shard->stream_key, link_none_key(shard->link)};
    const char *nodes[] = {"CLUSTER", "NODES"};

    /* the nodes first: a rejected probe ends the check */
    return link_send(shard->link, on_nodes, shard, 2, nodes, NULL) == RC_OK &&
           link_send(shard->link, on_probe, shard, 3, probe, NULL) == RC_OK;
}

struct slot_check *
slot_check_start(struct shard *shard, void (*done)(struct shard *shard))
{
    struct slot_check *check = memory_new(sizeof(*check));

    check->shard = shard;
    check->done = done;
    check->nodes = cluster_nodes_begin("", "");
    check->slot = slots_of_key(shard->prefix);
    if (servers_find(shard->store->servers, shard->number, &check->address) != RC_OK ||
        !send_requests(shard)) {
        slot_check_stop(check);
        return NULL;
    }
    return check;
}

void
slot_check_stop(struct slot_check *check)
{
    if (check == NULL)
        return;
    slot_count_stop(check->count);
    explicit_bzero(&check->address, sizeof(check->address));
    free(check->text);
    free(check);
}
