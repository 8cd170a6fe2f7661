/* slot_check.c: counts the keys of a shard's slot on the other primaries, one after another. */
#include "store/shards/slot_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "store/servers/cluster_nodes.h"
#include "store/servers/link.h"
#include "store/servers/slot_counts.h"
#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/store_private.h"

struct slot_check {
    struct shard *shard;
    void (*done)(struct shard *shard);
    char *text; /* reply to CLUSTER NODES */
    struct cluster_nodes nodes;
    struct url address; /* of the node in `count` */
    unsigned slot;
    struct slot_count *count; /* NULL: none in progress */
};

static void count_on_next(struct slot_check *check);

/* Logs one message per node in several seconds. */
static void
warn_of_node(const struct slot_check *check, const char *message, const char *error,
             const char *hint)
{
    const struct shard *shard = check->shard;
    char server[URL_FORMAT_MAX];

    url_format(&check->address, server);
    if (servers_is_new_failure(shard->store->servers, &check->address))
        log_warn(shard->name, message, LOG_TEXT("error", error), LOG_TEXT("hint", hint),
                 LOG_UINT("slot", check->slot), LOG_TEXT("server", server));
    else
        log_debug(shard->name, message, LOG_TEXT("error", error), LOG_UINT("slot", check->slot),
                  LOG_TEXT("server", server));
}

/*
 * An unreachable node must not stop the shards of other nodes, so it is ignored, unless the keys of
 * this shard are known to be on several nodes. The link stops the check when it goes down.
 */
static void
on_failure(struct slot_check *check, const char *message, const char *error)
{
    warn_of_node(check, message, error, fault_hint(error));
    if (check->shard->is_scattered || fault_is_permission(error))
        link_restart(check->shard->link, NULL);
    else
        count_on_next(check);
}

static void
on_count(void *ctx, long long keys, const char *error)
{
    struct slot_check *check = ctx;
    char text[32];

    check->count = NULL;
    if (error != NULL) {
        on_failure(check, "could not count the keys of a shard on another node", error);
        return;
    }
    if (keys == 0) {
        count_on_next(check);
        return;
    }
    check->shard->is_scattered = true;
    snprintf(text, sizeof(text), "%lld keys", keys);
    warn_of_node(check, "keys of a shard are on several nodes: waiting", text,
                 "unless redis-cli moves this slot, complete its move: see OPERATIONS.md");
    link_restart(check->shard->link, NULL);
}

static void
count_on_next(struct slot_check *check)
{
    struct store *store = check->shard->store;
    struct slots_node node;

    if (!cluster_nodes_next_primary(&check->nodes, check->shard->is_scattered, &node)) {
        check->shard->is_scattered = false;
        check->done(check->shard);
        return;
    }
    snprintf(check->address.host, sizeof(check->address.host), "%s", node.host);
    check->address.port = node.port;
    check->count =
        slot_count_start(store->slot_counts, &check->address, check->slot, on_count, check);
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

    if (reply == NULL || check == NULL)
        return;
    if (reply_is_error(reply) || reply_text(reply) == NULL) {
        on_failure(check, "could not read the nodes of the cluster",
                   reply_is_error(reply) ? reply_text(reply) : "invalid reply");
        return;
    }
    check->text = memory_text(reply_text(reply), strlen(reply_text(reply)));
    check->nodes = cluster_nodes_begin(check->text, check->address.host);
    count_on_next(check);
}

static bool
send_requests(struct shard *shard)
{
    const char *probe[] = {"EXISTS", shard->stream_key, link_none_key(shard->link)};
    const char *nodes[] = {"CLUSTER", "NODES"};

    return link_send(shard->link, on_probe, shard, 3, probe, NULL) == RC_OK &&
           link_send(shard->link, on_nodes, shard, 2, nodes, NULL) == RC_OK;
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
