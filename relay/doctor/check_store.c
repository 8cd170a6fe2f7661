/*
 * check_store.c: the checks of the store: its sentinels or the slots of its cluster, each of its
 * servers, and whose data it contains.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "doctor/doctor_private.h"
#include "store/command.h"
#include "store/connection/reply.h"
#include "store/servers/topology.h"
#include "store/servers/servers.h"

#define QUERY_TIMEOUT_S 3 /* timeout per sentinel or node in [store] url */
#define REPLICAS_MAX 16
#define FEW_SENTINELS 3
#define NODES_MAX 64

#define SEED_HINT "Start this node, or name other nodes of the cluster in [store] url"
#define FOREIGN_HINT "The nodes of the cluster do not know this node: remove it from [store] url"
#define NO_SLOTS_HINT "Name nodes of the cluster in [store] url: these nodes have no slots"
#define SLOTS_HINT                                                                                 \
    "Start the nodes with the other slots; if they are lost: redis-cli --cluster fix HOST:PORT"

#define SENTINEL_HINT                                                                              \
    "Start this sentinel (redis-sentinel FILE), or correct [store] url, sentinel_user and "        \
    "sentinel_password_file"

#define DATABASE_HINT                                                                              \
    "Choose another [store] prefix; or, if this database replaces the other one (pg_upgrade, a "   \
    "restored dump), DEL that key in every shard: clients receive a gap"

#define SLOT_HINT                                                                                  \
    "Set [feed] slot to the stored slot, or choose another [store] prefix; to replace the "        \
    "stored slot, stop its relay and DEL its key in every shard: clients receive a gap"

#define OTHER_STORE_HINT                                                                           \
    "Another relay reads the slot into another store: set [store] url and prefix as for that "     \
    "relay, or choose another [feed] slot"

#define SINK_HINT                                                                                  \
    "Start a relay with the sink, and see its log; if the sink was switched off, in each shard: "  \
    "XGROUP DESTROY"
#define NO_SINK_HINT "Start a relay with the role sink and this setting"
#define WEB_PUSH_HINT                                                                              \
    "Start a relay with the role sink; if one runs, see its log: push services fail"
#define WEB_PUSH_LATE_MS 600000
#define WEBHOOK_HINT "Correct the endpoint, then send SIGHUP to a relay"
#define SINK_DEAD_US INT64_C(30000000)

struct sentinels {
    const struct config *config;
    struct findings *findings;
    unsigned reachable;
    long long known;           /* the most that a sentinel reports, including itself */
    long long quorum;          /* the highest reported */
    struct slots_node primary; /* port 0: unknown */
    long long epoch;
    struct slots_node replicas[REPLICAS_MAX];
    size_t replica_count;
};

/* Reads the primary as one sentinel reports it. */
static void
read_sentinel_state(struct sentinels *sentinels, const char *where, const struct redisReply *state)
{
    const long long others = sentinel_read_number(state, "num-other-sentinels");
    const long long quorum = sentinel_read_number(state, "quorum");
    struct sentinel_primary primary;
    bool is_certain;

    if (others + 1 > sentinels->known)
        sentinels->known = others + 1;
    if (quorum > sentinels->quorum)
        sentinels->quorum = quorum;
    if (sentinel_read_primary(state, &primary) != RC_OK)
        return;
    is_certain = !primary.is_down && !primary.is_switching;
    findings_add(sentinels->findings, STORE, "sentinel", is_certain,
                 "Start the primary, or wait for the failover; if none follows, see the sentinels' "
                 "logs",
                 "%s: primary %s:%d%s%s, %lld replicas, %lld other sentinels, quorum %lld", where,
                 primary.server.host, primary.server.port, primary.is_down ? " is down" : "",
                 primary.is_switching ? ", failover in progress" : "",
                 sentinel_read_number(state, "num-slaves"), others, quorum);
    if (primary.epoch > sentinels->epoch) {
        sentinels->epoch = primary.epoch;
        sentinels->primary = primary.server;
    }
}

static void
read_known_replicas(struct sentinels *sentinels, const struct redisReply *replicas)
{
    struct slots_node replica;

    for (size_t i = 0; i < reply_count(replicas); i++)
        if (sentinel_read_server(reply_at(replicas, i), &replica) == RC_OK)
            sentinels->replica_count = slots_add_node(sentinels->replicas, sentinels->replica_count,
                                                      REPLICAS_MAX, &replica);
}

static const char *
hint_of_rejection(const char *error)
{
    if (strstr(error, "No such master") != NULL)
        return "[store] url must end in the primary's name, as in sentinel monitor";
    if (strstr(error, "NOPERM") != NULL)
        return "The sentinels' user needs +sentinel|master, +sentinel|replicas, +subscribe and "
               "&+switch-master";
    return SENTINEL_HINT;
}

static void
query_sentinel(struct sentinels *sentinels, struct probe *node, const char *where)
{
    const char *name = urls_rest(sentinels->config->store.url);
    const char *master[] = {"SENTINEL", "MASTER", name};
    const char *replicas[] = {"SENTINEL", "REPLICAS", name};
    const char *subscribe[] = {"SUBSCRIBE", "+switch-master"};
    const struct redisReply *reply = probe_request(node, 3, master);

    if (reply == NULL) {
        findings_add(sentinels->findings, STORE, "sentinel", false,
                     hint_of_rejection(probe_error(node)), "%s: %s", where, probe_error(node));
        return;
    }
    sentinels->reachable++;
    read_sentinel_state(sentinels, where, reply);
    reply = probe_request(node, 3, replicas);
    if (reply != NULL)
        read_known_replicas(sentinels, reply);
    if (reply == NULL || probe_request(node, 2, subscribe) == NULL)
        findings_warn(sentinels->findings, STORE, "sentinel user",
                      hint_of_rejection(probe_error(node)), "%s: %s", where, probe_error(node));
}

static void
check_sentinel(struct sentinels *sentinels, unsigned number)
{
    char error[PROBE_ERROR_MAX], where[URL_FORMAT_MAX];
    struct probe *node = NULL;
    struct url address;

    if (!store_read_address(sentinels->config, number, &address))
        return;
    sentinel_credentials(sentinels->config, &address);
    address.database = PROBE_NO_DATABASE;
    url_format(&address, where);
    node = probe_open(sentinels->config, &address, QUERY_TIMEOUT_S, error);
    if (node != NULL)
        query_sentinel(sentinels, node, where);
    else
        findings_add(sentinels->findings, STORE, "sentinel", false, SENTINEL_HINT, "%s: %s", where,
                     error);
    probe_close(node);
    explicit_bzero(&address, sizeof(address));
}

/* A failover needs the quorum to detect the failure, and a majority to elect its leader. */
static void
check_sentinel_quorum(const struct sentinels *sentinels)
{
    const long long majority = sentinels->known / 2 + 1;
    const long long needed = majority > sentinels->quorum ? majority : sentinels->quorum;

    findings_add(sentinels->findings, STORE, "sentinels", sentinels->reachable >= needed,
                 "No failover without them: start the other sentinels and name them in [store] url",
                 "%u of %lld reachable, %lld required for a failover", sentinels->reachable,
                 sentinels->known, needed);
    if (sentinels->known < FEW_SENTINELS)
        findings_warn(sentinels->findings, STORE, "number of sentinels",
                      "Add sentinels: with fewer than 3, the loss of one prevents a failover",
                      "%lld", sentinels->known);
}

static bool
check_sentinels(const struct config *config, struct findings *findings)
{
    struct sentinels sentinels = {.config = config, .findings = findings, .epoch = -1};
    const unsigned count = urls_count(config->store.url);
    bool is_up;

    for (unsigned i = 0; i < count; i++)
        check_sentinel(&sentinels, i);
    if (sentinels.reachable > 0)
        check_sentinel_quorum(&sentinels);
    if (sentinels.primary.port == 0)
        return false;
    is_up = store_server_check(
        &(struct store_server){.config = config, .findings = findings, .node = sentinels.primary});
    for (size_t i = 0; i < sentinels.replica_count; i++)
        (void)store_server_check(&(struct store_server){.config = config,
                                                        .findings = findings,
                                                        .node = sentinels.replicas[i],
                                                        .is_replica = true});
    return is_up;
}

/* A node in [store] url. */
struct seed {
    char where[URL_FORMAT_MAX];
    char id[CLUSTER_ID_MAX]; /* "": unknown */
    long long covered;       /* number of slots with a primary in its reply; -1: no reply */
};

struct cluster {
    const struct config *config;
    struct findings *findings;
    long long covered; /* the most that a seed reported, as the following members; -1: no reply */
    struct slots_node queried;          /* this seed */
    char *members;                      /* NULL: CLUSTER NODES is not permitted */
    struct slots_node nodes[NODES_MAX]; /* in CLUSTER SLOTS */
    size_t count;
    struct store_primaries primaries;
    bool is_up;
};

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

        cluster->primaries.is_known[k] =
            slots_primary(slots, slot, queried, &cluster->primaries.nodes[k]) == RC_OK;
    }
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
    if (members != NULL) {
        struct cluster_nodes nodes = cluster_nodes_read(members, address->host, 0);

        memcpy(seed->id, nodes.own_id, sizeof(seed->id));
        cluster_nodes_free(&nodes);
    }
    if (is_best) {
        free(cluster->members);
        cluster->members = members != NULL ? memory_text(members, strlen(members)) : NULL;
    }
}

static void
report_no_reply(const struct cluster *cluster, const struct seed *seed, bool is_error,
                const char *error)
{
    const char *hint = store_hint(error);

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
    if (!store_read_address(cluster->config, number, &address))
        return;
    url_format(&address, seed->where);
    node = probe_open(cluster->config, &address, QUERY_TIMEOUT_S, error);
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
    return cluster_nodes_list(cluster->members, seed->id);
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

static void
check_cluster_node(struct cluster *cluster, const struct slots_node *node, bool has_slots)
{
    struct store_server server = {.config = cluster->config,
                                  .findings = cluster->findings,
                                  .node = *node,
                                  .is_replica = true,
                                  .primaries = &cluster->primaries,
                                  .has_slots = has_slots};
    char shards[SHARD_LIST_MAX];

    store_list_shards(cluster->config, &cluster->primaries, node, shards);
    if (!store_server_check(&server) && shards[0] != '\0')
        cluster->is_up = false;
}

static void
check_cluster_nodes(struct cluster *cluster)
{
    for (int k = 0; k < cluster->config->store.shards; k++)
        cluster->is_up &= cluster->primaries.is_known[k];
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
            findings_warn(cluster->findings, STORE, "connection", STORE_LOST_HINT,
                          "%s:%d: failed primary without slots, ID %s", primary->node.host,
                          primary->node.port, primary->id);
    }
    cluster_nodes_free(&nodes);
}

/* Returns false if a shard has no primary that replies. */
static bool
check_cluster(const struct config *config, struct findings *findings)
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

/* `command` is NULL if the store is unavailable because of `error`. */
struct contents {
    const struct config *config;
    struct findings *findings;
    char error[COMMAND_ERROR_MAX];
    struct command *command;
};

static void
check_shards(struct contents *contents)
{
    const bool is_known = contents->command != NULL && command_check_shards(contents->command);

    if (!is_known || contents->config->store.shards > 1)
        findings_add(contents->findings, STORE, "store.shards", is_known,
                     "Restore the old number; or, once all notifications are acknowledged, choose "
                     "another [store] prefix and drop the slot",
                     "%d%s%s", contents->config->store.shards, is_known ? "" : ": ",
                     is_known                    ? ""
                     : contents->command != NULL ? command_error(contents->command)
                                                 : contents->error);
}

static void
read_text(const struct redisReply *reply, size_t nth, char ret_text[VALUE_MAX])
{
    const struct bytes text = reply_is_array(reply, nth + 1) ? reply_bytes(reply_at(reply, nth))
                                                             : (struct bytes){NULL, 0};

    snprintf(ret_text, VALUE_MAX, "%.*s", (int)text.len,
             text.at != NULL ? (const char *)text.at : "");
}

/* Reads the progress key of the slot that was acquired last: acquire.lua stores it. */
static bool
read_progress_key(struct contents *contents, char ret_key[VALUE_MAX])
{
    const struct config *config = contents->config;
    const struct topology topology = topology_of(config);
    char prefix[STORE_PREFIX_MAX], meta[STORE_KEY_MAX];
    const char *argv[] = {"HMGET", meta, META_PROGRESS};
    struct redisReply *reply;

    topology_shard_prefix(&topology, config->store.prefix, 0, prefix);
    key_write(meta, prefix, KEY_META);
    reply = command_request(contents->command, 0, 3, argv);
    read_text(reply, 0, ret_key);
    free(reply);
    return ret_key[0] != '\0';
}

/* A store serves one slot: acquire.lua rejects all other slots. */
static void
check_stored_slot(struct contents *contents, const char *key)
{
    const struct config *config = contents->config;
    const struct topology topology = topology_of(config);
    char prefix[STORE_PREFIX_MAX], own[STORE_KEY_MAX];
    const char *argv[] = {"EXISTS", key};
    struct redisReply *reply;

    topology_shard_prefix(&topology, config->store.prefix, 0, prefix);
    key_write_of(own, sizeof(own), prefix, KEY_PROGRESS, config->feed.slot);
    reply = command_request(contents->command, 0, 2, argv);
    if (strcmp(key, own) != 0 && reply != NULL && reply_integer(reply) == 1)
        findings_add(contents->findings, STORE, "slot", false, SLOT_HINT,
                     "store belongs to another slot: %s, not %s", key, own);
    else
        findings_add(contents->findings, STORE, "slot", true, NULL, "%s", config->feed.slot);
    free(reply);
}

/* A store serves one database: acquire.lua rejects all other databases. */
static void
check_database(struct contents *contents, const struct origin *origin, bool is_read)
{
    char key[VALUE_MAX], system[VALUE_MAX], database[VALUE_MAX], name[VALUE_MAX];
    const char *argv[] = {"HMGET", key, "system", "database", "database_name"};
    struct redisReply *reply;
    bool is_same;

    if (origin->system[0] == '\0')
        return;
    if (!read_progress_key(contents, key)) {
        if (is_read)
            findings_warn(contents->findings, STORE, "slot", OTHER_STORE_HINT,
                          "the slot is read, but not into this store with prefix %s",
                          contents->config->store.prefix);
        return;
    }
    reply = command_request(contents->command, 0, 5, argv);
    read_text(reply, 0, system);
    read_text(reply, 1, database);
    read_text(reply, 2, name);
    free(reply);
    if (system[0] == '\0')
        return;
    is_same = strcmp(system, origin->system) == 0 &&
              (database[0] == '\0' || strcmp(database, origin->database) == 0);
    if (is_same) {
        findings_add(contents->findings, STORE, "database", true, NULL,
                     "database \"%s\" (oid %s) of cluster %s", name, database, system);
        check_stored_slot(contents, key);
    } else {
        findings_add(contents->findings, STORE, "database", false, DATABASE_HINT,
                     "%s belongs to database \"%s\" (oid %s) of cluster %s; [feed] conninfo names "
                     "database \"%s\" (oid %s) of cluster %s",
                     key, name, database, system, origin->name, origin->database, origin->system);
    }
}

/* The value follows the field. Returns the time of a group's last heartbeat, in ms; 0: none. */
static long long
last_seen(const struct redisReply *fields, const char *group)
{
    long long last = 0;
    char prefix[VALUE_MAX + 8], text[VALUE_MAX];

    snprintf(prefix, sizeof(prefix), "seen:%s:", group);
    for (size_t i = 0; i + 1 < reply_count(fields); i += 2) {
        read_text(fields, i, text);
        if (strncmp(text, prefix, strlen(prefix)) != 0)
            continue;
        read_text(fields, i + 1, text);
        if (strtoll(text, NULL, 10) > last)
            last = strtoll(text, NULL, 10);
    }
    return last;
}

static bool
has_field(const struct redisReply *fields, const char *name)
{
    char text[VALUE_MAX];

    for (size_t i = 0; i + 1 < reply_count(fields); i += 2) {
        read_text(fields, i, text);
        if (strcmp(text, name) == 0)
            return true;
    }
    return false;
}

/* Reads the name of a group in a reply to XINFO GROUPS. */
static void
read_group(const struct redisReply *group, char ret_name[VALUE_MAX])
{
    ret_name[0] = '\0';
    for (size_t i = 0; i + 1 < reply_count(group); i += 2) {
        const struct bytes field = reply_bytes(reply_at(group, i));

        if (field.len == 4 && memcmp(field.at, "name", 4) == 0)
            read_text(group, i + 1, ret_name);
    }
}

/* The oldest notification with a Web Push, of all shards. */
static void
check_web_pushes(struct contents *contents)
{
    const struct config *config = contents->config;
    const struct topology topology = topology_of(config);
    int64_t oldest_ms = 0;

    for (unsigned i = 0; i < topology.shards; i++) {
        char prefix[STORE_PREFIX_MAX], commits[STORE_KEY_MAX], text[VALUE_MAX];
        const char *read[] = {"ZRANGE", commits, "0", "0", "WITHSCORES"};
        struct redisReply *found;
        int64_t age_ms;

        if (command_is_missing(contents->command, i))
            continue; /* other checks report it; a request would wait for it */
        topology_shard_prefix(&topology, config->store.prefix, i, prefix);
        key_write(commits, prefix, KEY_WEB_PUSH_COMMITS);
        found = command_request(contents->command, i, 5, read);
        read_text(found, 1, text);
        age_ms = reply_count(found) == 2 ? clock_wall_us() / 1000 - strtoll(text, NULL, 10) : 0;
        if (age_ms > oldest_ms)
            oldest_ms = age_ms;
        free(found);
    }
    if (oldest_ms > WEB_PUSH_LATE_MS)
        findings_warn(contents->findings, STORE, "web pushes", WEB_PUSH_HINT,
                      "the oldest has waited for %lld s", (long long)(oldest_ms / 1000));
}

static void
check_sink_is_read(struct contents *contents, bool is_set, const struct redisReply *fields,
                   const char *group)
{
    if (is_set && last_seen(fields, group) == 0)
        findings_warn(contents->findings, STORE, "receipts", NO_SINK_HINT,
                      "no relay reads those of the sink %s", group);
}

/* Nothing reads the receipts of a sink that was switched off, until they are trimmed. */
static void
check_sink_groups(struct contents *contents)
{
    const struct config *config = contents->config;
    const struct topology topology = topology_of(config);
    char prefix[STORE_PREFIX_MAX], stream[STORE_KEY_MAX], sinks[STORE_KEY_MAX], name[VALUE_MAX];
    const char *list[] = {"XINFO", "GROUPS", stream}, *read[] = {"HGETALL", sinks};
    const char *exists[] = {"EXISTS", stream};
    struct redisReply *found, *groups = NULL, *fields = NULL;

    topology_shard_prefix(&topology, config->store.prefix, 0, prefix);
    key_write(stream, prefix, KEY_RECEIPTS);
    key_write(sinks, prefix, KEY_SINKS);
    found = command_request(contents->command, 0, 2, exists);
    if (reply_integer(found) == 1) {
        groups = command_request(contents->command, 0, 3, list);
        fields = command_request(contents->command, 0, 2, read);
    }
    check_sink_is_read(contents, config->receipts.sql, fields, "sql");
    check_sink_is_read(contents, config->webhook.url != NULL, fields, "webhook");
    if (has_field(fields, "off:webhook"))
        findings_warn(contents->findings, "sink", "webhook", WEBHOOK_HINT,
                      "switched off: the endpoint has replied 410 Gone");
    for (size_t i = 0; i < reply_count(groups); i++) {
        long long seen_ms;

        read_group(reply_at(groups, i), name);
        seen_ms = last_seen(fields, name);
        if (seen_ms * 1000 > clock_wall_us() - SINK_DEAD_US)
            findings_add(contents->findings, STORE, "receipts", true, NULL,
                         "a relay reads those of the sink %s", name);
        else
            findings_warn(contents->findings, STORE, "receipts", SINK_HINT,
                          "no relay reads those of the sink %s", name);
    }
    free(found);
    free(groups);
    free(fields);
}

static void
check_contents(const struct config *config, const struct origin *origin, bool is_read,
               struct findings *findings)
{
    struct contents contents = {.config = config, .findings = findings};

    contents.command = command_open(config, contents.error);
    check_shards(&contents);
    if (contents.command != NULL)
        check_database(&contents, origin, is_read);
    if (contents.command != NULL)
        check_sink_groups(&contents);
    if (contents.command != NULL)
        check_web_pushes(&contents);
    command_close(contents.command);
}

void
doctor_check_store(const struct config *config, const struct origin *origin, bool is_read,
                   struct findings *findings)
{
    struct store_server single = {.config = config, .findings = findings};
    bool is_up;

    switch (urls_kind(config->store.url)) {
    case URLS_CLUSTER:
        is_up = check_cluster(config, findings);
        break;
    case URLS_SENTINEL:
        is_up = check_sentinels(config, findings);
        break;
    default:
        is_up = store_server_check(&single);
    }
    if (is_up)
        check_contents(config, origin, is_read, findings);
}
