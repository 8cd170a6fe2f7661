/* store_cluster.c: the checks of a store that is a cluster. */
#include "doctor/store_cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "doctor/store_probe.h"
#include "store/connection/reply.h"
#include "store/servers/cluster_nodes.h"
#include "store/servers/shard_list.h"
#include "store/servers/topology.h"
#include "store/shards/place.h"
#include "store/scripts/constants.h"

#define NODES_MAX 64
#define NODE_ID_LEN 40

#define SEED_HINT "Start this node, or name other nodes of the cluster in [store] url"
#define FOREIGN_HINT "The nodes of the cluster do not know this node: remove it from [store] url"
#define NO_SLOTS_HINT "Name nodes of the cluster in [store] url: these nodes have no slots"
#define SLOTS_HINT                                                                                 \
    "Start the nodes with the other slots; if they are lost: redis-cli --cluster fix HOST:PORT"
#define COVERAGE_HINT                                                                              \
    "A failed primary without a replica stops all shards: CONFIG SET "                             \
    "cluster-require-full-coverage no; CONFIG REWRITE, on each node"
#define LOST_HINT                                                                                  \
    "Start this node: if it has keys of an interrupted move, their shard waits. If it is lost "    \
    "and "                                                                                         \
    "no shard waits for it: CLUSTER FORGET on all other nodes within 60 s"

#define WITHOUT_HINT                                                                               \
    "A person accepted this loss. Remove the lost node: CLUSTER FORGET on all other nodes within " \
    "60 s"
#define PLACE_HINT                                                                                 \
    "Start a relay. If it waits for the shard, its log names the node and the command: see "       \
    "OPERATIONS.md"

/* A node in [store] url. */
struct seed {
    char where[URL_FORMAT_MAX];
    char id[NODE_ID_LEN + 1]; /* "": unknown */
    long long covered;        /* number of slots with a primary in its reply; -1: no reply */
};

struct cluster {
    const struct config *config;
    struct findings *findings;
    long long covered; /* the most that a seed reported, as the following members; -1: no reply */
    struct slots_node queried;          /* this seed */
    char *members;                      /* NULL: CLUSTER NODES is not permitted */
    struct slots_node nodes[NODES_MAX]; /* in CLUSTER SLOTS */
    size_t count;
    struct slots_node primaries[STORE_SHARDS_MAX]; /* indexed by shard */
    bool is_known[STORE_SHARDS_MAX];               /* the shard has a primary */
    bool is_up;
};

/* Writes the numbers of the node's shards, comma-separated. */
static void
list_shards(const struct cluster *cluster, const struct slots_node *node,
            char ret_list[SHARD_LIST_MAX])
{
    ret_list[0] = '\0';
    for (unsigned k = 0; k < (unsigned)cluster->config->store.shards; k++)
        if (cluster->is_known[k] && slots_is_same_node(&cluster->primaries[k], node))
            shard_list_add(ret_list, k);
}

static long long
count_slots(const struct redisReply *slots)
{
    long long covered = 0;

    for (size_t i = 0; i < reply_count(slots); i++)
        covered += reply_integer(reply_at(reply_at(slots, i), 1)) -
                   reply_integer(reply_at(reply_at(slots, i), 0)) + 1;
    return covered;
}

static void
read_cluster_primaries(struct cluster *cluster, const struct redisReply *slots, const char *queried)
{
    const struct topology topology = topology_of(cluster->config);

    for (unsigned k = 0; k < topology.shards; k++) {
        const unsigned slot = topology_slot(&topology, cluster->config->store.prefix, k);

        cluster->is_known[k] = slots_primary(slots, slot, queried, &cluster->primaries[k]) == RC_OK;
    }
}

/* The line of the node itself is "ID ADDRESS myself,..". */
static void
read_own_id(struct seed *seed, const char *members)
{
    const char *own = members != NULL ? strstr(members, "myself") : NULL;

    while (own != NULL && own > members && own[-1] != '\n')
        own--;
    if (own != NULL)
        snprintf(seed->id, sizeof(seed->id), "%s", own);
}

/* The reply with the most slots is used: a node that was removed from the cluster has none. */
static void
read_seed(struct cluster *cluster, struct seed *seed, struct probe *node, const struct url *address)
{
    const char *slots_argv[] = {"CLUSTER", "SLOTS"};
    const char *members_argv[] = {"CLUSTER", "NODES"};
    const struct redisReply *slots = probe_request(node, 2, slots_argv);
    const char *members;
    bool is_best;

    if (slots == NULL)
        return;
    seed->covered = count_slots(slots);
    is_best = seed->covered > cluster->covered;
    if (is_best) {
        cluster->covered = seed->covered;
        snprintf(cluster->queried.host, SLOTS_HOST_MAX, "%.*s", SLOTS_HOST_MAX - 1, address->host);
        cluster->queried.port = address->port;
        cluster->count = slots_nodes(slots, address->host, cluster->nodes, NODES_MAX);
        read_cluster_primaries(cluster, slots, address->host);
    }
    members = reply_text(probe_request(node, 2, members_argv));
    read_own_id(seed, members);
    if (is_best) {
        free(cluster->members);
        cluster->members = members != NULL ? memory_text(members, strlen(members)) : NULL;
    }
}

static void
report_no_reply(const struct cluster *cluster, const struct seed *seed, bool is_error,
                const char *error)
{
    const char *hint = store_probe_hint(error);

    if (is_error)
        findings_add(cluster->findings, STORE, "connection", false,
                     hint[0] != '\0' ? hint : SEED_HINT, "%s: %s", seed->where, error);
    else
        findings_warn(cluster->findings, STORE, "connection", SEED_HINT, "%s: %s", seed->where,
                      error);
}

/* It is an error if no seed replies. */
static void
query_seed(struct cluster *cluster, struct seed *seed, unsigned number, bool is_last)
{
    struct probe *node = NULL;
    struct url address;
    char error[PROBE_ERROR_MAX];

    seed->covered = -1;
    if (!store_named_address(cluster->config, number, &address))
        return;
    url_format(&address, seed->where);
    node = probe_open(cluster->config, &address, STORE_QUERY_TIMEOUT_S, error);
    if (node != NULL) {
        read_seed(cluster, seed, node, &address);
        snprintf(error, sizeof(error), "%s", probe_error(node));
    }
    if (seed->covered < 0)
        report_no_reply(cluster, seed, is_last && cluster->covered < 0, error);
    probe_close(node);
    explicit_bzero(&address, sizeof(address));
}

static bool
is_member(const struct cluster *cluster, const struct seed *seed)
{
    if (cluster->members == NULL || seed->id[0] == '\0')
        return seed->covered > 0;
    return strstr(cluster->members, seed->id) != NULL;
}

/* A member may know fewer slots than another one. */
static void
check_cluster_slots(const struct cluster *cluster, const struct seed *seeds, unsigned count)
{
    long long covered = cluster->covered;

    for (unsigned i = 0; i < count; i++) {
        if (seeds[i].covered >= 0 && cluster->covered > 0 && !is_member(cluster, &seeds[i]))
            findings_warn(cluster->findings, STORE, "store.url", FOREIGN_HINT,
                          "%s: not a node of the cluster", seeds[i].where);
        else if (seeds[i].covered >= 0 && seeds[i].covered < covered)
            covered = seeds[i].covered;
    }
    findings_add(cluster->findings, STORE, "slots", covered == SLOTS_COUNT,
                 cluster->covered > 0 ? SLOTS_HINT : NO_SLOTS_HINT, "%lld of %d covered, %zu nodes",
                 covered, SLOTS_COUNT, cluster->count);
}

/* Checks the replicas of each primary: the relay waits for min_replicas of each. */
static void
check_cluster_primary(const struct cluster *cluster, const struct store_probe *probe,
                      const struct slots_node *node, bool has_slots)
{
    const long long replicas = store_probe_number(probe, "connected_slaves");
    char shards[SHARD_LIST_MAX];

    list_shards(cluster, node, shards);
    if (has_slots)
        store_probe_report(probe, "shards", true, NULL, "primary of %s%s",
                           shards[0] != '\0' ? "shards " : "no shard", shards);
    else
        store_probe_report(probe, "shards", true, NULL, "primary without slots");
    if (shards[0] != '\0')
        store_probe_check_replicas(probe);
    else if (has_slots && replicas == 0)
        findings_warn(cluster->findings, STORE, "replicas",
                      "Add a replica: if the node fails, its slots are unavailable", "%sno replica",
                      probe->where);
}

static void
check_cluster_state(const struct cluster *cluster, const struct store_probe *probe)
{
    const char *argv[] = {"CLUSTER", "INFO"};
    const struct redisReply *reply = probe_request(probe->node, 2, argv);
    const char *info = reply_text(reply);

    if (info != NULL)
        store_probe_report(probe, "cluster state", strstr(info, "cluster_state:ok") != NULL,
                           "Nodes or slots are missing: redis-cli --cluster check HOST:PORT", "%s",
                           strstr(info, "cluster_state:ok") != NULL ? "ok" : "failed");
    else
        findings_warn(cluster->findings, STORE, "cluster state",
                      "The relay's ACL user needs +cluster|info", "%s%s", probe->where,
                      probe_error(probe->node));
}

/*
 * A node lists only slots that it is migrating, "[93->-ID]", or importing, "[93-<-ID]". With Valkey
 * a replica repeats those of its primary.
 */
static void
check_cluster_moves(const struct cluster *cluster, const struct store_probe *probe)
{
    const char *argv[] = {"CLUSTER", "NODES"};
    const char *nodes = reply_text(probe_request(probe->node, 2, argv));
    const char *own = nodes != NULL ? strstr(nodes, "myself") : NULL;
    const char *moves = own != NULL ? memchr(own, '[', strcspn(own, "\n")) : NULL;

    if (nodes == NULL)
        store_probe_report(probe, "moving slots", false,
                           "The relay's ACL user needs +cluster|nodes", "%s",
                           probe_error(probe->node));
    else if (moves != NULL && store_probe_is_primary(probe))
        findings_warn(cluster->findings, STORE, "moving slots",
                      "The shards in these slots wait. If no redis-cli moves them, complete the "
                      "moves: see OPERATIONS.md",
                      "%s%.*s", probe->where, (int)strcspn(moves, "\n"), moves);
}

/* Returns -1 if the node does not count them. */
static long long
count_keys(const struct store_probe *probe, unsigned slot)
{
    char text[8];
    const char *argv[] = {"CLUSTER", "COUNTKEYSINSLOT", text};
    const struct redisReply *reply;

    snprintf(text, sizeof(text), "%u", slot);
    reply = probe_request(probe->node, 3, argv);
    return reply_is_integer(reply) ? reply_integer(reply) : -1;
}

/* A relay does not use a shard while a primary other than its own has keys of it. */
static void
check_cluster_keys(const struct cluster *cluster, const struct store_probe *probe,
                   const struct slots_node *node)
{
    const struct topology topology = topology_of(cluster->config);

    for (unsigned k = 0; k < topology.shards; k++) {
        const unsigned slot = topology_slot(&topology, cluster->config->store.prefix, k);
        const long long count = count_keys(probe, slot);

        if (count < 0) {
            store_probe_report(probe, "keys of shards", false,
                               "The relay's ACL user needs +cluster|countkeysinslot", "%s",
                               probe_error(probe->node));
            return;
        }
        if (count > 0 && cluster->is_known[k] && !slots_is_same_node(&cluster->primaries[k], node))
            findings_warn(cluster->findings, STORE, "keys of shards",
                          "The shard waits. If no redis-cli moves this slot, complete its move: "
                          "see OPERATIONS.md",
                          "%s%lld keys of slot %u (shard %u), which %s:%d has", probe->where, count,
                          slot, k, cluster->primaries[k].host, cluster->primaries[k].port);
    }
}

/* A relay has stored that this node has all keys, and which nodes a person has abandoned. */
static void
check_cluster_places(const struct cluster *cluster, const struct store_probe *probe,
                     const struct slots_node *node)
{
    const struct topology topology = topology_of(cluster->config);

    for (unsigned k = 0; k < topology.shards; k++) {
        char prefix[STORE_PREFIX_MAX], meta[STORE_KEY_MAX];
        const char *argv[] = {"HMGET", meta, PLACE_FIELD, PLACE_WITHOUT_FIELD, "epoch"};
        struct place_facts facts = {.count = 0};
        const struct redisReply *reply;

        if (!cluster->is_known[k] || !slots_is_same_node(&cluster->primaries[k], node))
            continue;
        topology_shard_prefix(&topology, cluster->config->store.prefix, k, prefix);
        key_write(meta, prefix, KEY_META);
        reply = probe_request(probe->node, 5, argv);
        place_read_meta(reply, &facts);
        if (facts.without[0] != '\0')
            findings_warn(cluster->findings, STORE, "abandoned keys", WITHOUT_HINT,
                          "%sshard %u is used without the keys on %s", probe->where, k,
                          facts.without);
        if (facts.verdict[0] == '\0' && reply_bytes(reply_at(reply, 2)).len > 0)
            findings_warn(cluster->findings, STORE, "waiting shards", PLACE_HINT,
                          "%sno relay has found all keys of shard %u on this node", probe->where,
                          k);
    }
}

static void
check_cluster_coverage(const struct cluster *cluster, struct store_probe *probe)
{
    char value[VALUE_MAX];

    if (!store_probe_setting(probe, "cluster-require-full-coverage", value))
        return; /* no permission for CONFIG: the appendfsync check reports this */
    if (strcmp(value, "no") == 0)
        store_probe_report(probe, "cluster-require-full-coverage", true, NULL, "no");
    else
        findings_warn(cluster->findings, STORE, "cluster-require-full-coverage", COVERAGE_HINT,
                      "%s%s", probe->where, value);
}

/* The relay usually ignores a primary without slots that does not reply, so this is a warning. */
static void
check_cluster_node(struct cluster *cluster, const struct slots_node *node, bool has_slots)
{
    struct store_probe probe = {.config = cluster->config,
                                .findings = cluster->findings,
                                .is_replica = true,
                                .lost_hint = has_slots ? NULL : LOST_HINT};
    char shards[SHARD_LIST_MAX];
    struct url address;
    bool is_up;

    snprintf(probe.where, sizeof(probe.where), "%s:%d: ", node->host, node->port);
    is_up =
        store_node_address(cluster->config, node, &address) && store_probe_open(&probe, &address);
    if (is_up) {
        store_probe_check(&probe);
        check_cluster_state(cluster, &probe);
        check_cluster_moves(cluster, &probe);
        check_cluster_coverage(cluster, &probe);
        if (store_probe_is_primary(&probe)) {
            check_cluster_primary(cluster, &probe, node, has_slots);
            check_cluster_keys(cluster, &probe, node);
            check_cluster_places(cluster, &probe, node);
        }
    }
    list_shards(cluster, node, shards);
    cluster->is_up &= is_up || shards[0] == '\0';
    store_probe_close(&probe);
    explicit_bzero(&address, sizeof(address));
}

static void
check_cluster_nodes(struct cluster *cluster)
{
    for (int k = 0; k < cluster->config->store.shards; k++)
        cluster->is_up &= cluster->is_known[k];
    for (size_t i = 0; i < cluster->count; i++)
        check_cluster_node(cluster, &cluster->nodes[i], true);
}

/*
 * CLUSTER SLOTS does not list a primary without slots, but it may have keys of an interrupted move.
 * A failed one is not queried: it may have outdated keys, because a replica replaced it.
 */
static void
check_slotless_primaries(struct cluster *cluster)
{
    struct cluster_nodes nodes = cluster_nodes_read(cluster->members, cluster->queried.host, 0);

    if (nodes.is_slotless)
        check_cluster_node(cluster, &cluster->queried, false);
    for (size_t i = 0; i < nodes.count; i++) {
        const struct cluster_primary *primary = &nodes.others[i];

        if (!primary->has_slots && !primary->is_failed)
            check_cluster_node(cluster, &primary->node, false);
        else if (!primary->has_slots)
            findings_warn(cluster->findings, STORE, "connection", LOST_HINT,
                          "%s:%d: failed primary without slots, ID %s", primary->node.host,
                          primary->node.port, primary->id);
    }
    cluster_nodes_free(&nodes);
}

bool
store_cluster_check(const struct config *config, struct findings *findings)
{
    struct cluster cluster = {.config = config, .findings = findings, .covered = -1, .is_up = true};
    const unsigned count = urls_count(config->store.url);
    struct seed *seeds = memory_new(count * sizeof(*seeds));

    for (unsigned i = 0; i < count; i++)
        query_seed(&cluster, &seeds[i], i, i + 1 == count);
    if (cluster.covered >= 0) {
        check_cluster_slots(&cluster, seeds, count);
        check_cluster_nodes(&cluster);
    }
    if (cluster.covered > 0 && cluster.members != NULL)
        check_slotless_primaries(&cluster);
    free(cluster.members);
    free(seeds);
    return cluster.covered >= 0 && cluster.is_up;
}
