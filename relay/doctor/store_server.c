/*
 * store_server.c: the checks of one store server: a single server, a primary or replica of
 * sentinels, or a node of a cluster. The table `checks` lists them.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "doctor/doctor_private.h"
#include "store/connection/reply.h"
#include "store/servers/topology.h"
#include "store/shards/shard.h"

#define SERVER_TIMEOUT_S 5
#define COMMAND_WORDS_MAX 16
#define SKEW_MAX_US 1000000
#define FULL_PERCENT 90
#define BUFFER_MIN ((long long)32 << 20) /* twice the largest reply to the relay */

#define HANGS_HINT                                                                                 \
    "The server accepts connections but does not reply: it is stopped, swaps, or runs a long "     \
    "command. See its log, and ps -o stat,wchan -C redis-server,keydb-server,valkey-server"

/* The servers that a check applies to. */
enum subject { ANY_SERVER, CLUSTER_NODE, CLUSTER_PRIMARY };

struct check {
    const char *name;
    enum subject subject;
    void (*run)(struct store_server *server, const struct check *check);
    const char *hint; /* NULL: `run` selects it */
};

const char *
store_hint(const char *error)
{
    const char *hint = fault_hint(error);

    return hint != NULL ? hint : "";
}

bool
store_read_address(const struct config *config, unsigned number, struct url *ret_address)
{
    char *url = urls_at(config->store.url, number);
    bool is_valid = url_read(url, ret_address) == RC_OK;

    explicit_bzero(url, strlen(url));
    free(url);
    return is_valid;
}

void
store_list_shards(const struct config *config, const struct store_primaries *primaries,
                  const struct slots_node *node, char *ret_list)
{
    ret_list[0] = '\0';
    for (unsigned k = 0; k < (unsigned)config->store.shards; k++)
        if (primaries->is_known[k] && slots_is_same_node(&primaries->nodes[k], node))
            shard_list_add(ret_list, k);
}

/* Adds a finding about the server. `hint` NULL: that of the check. */
static void report(const struct store_server *server, const struct check *check, bool ok,
                   const char *hint, const char *format, ...) PRINTF_LIKE(5, 6);

static void
report(const struct store_server *server, const struct check *check, bool ok, const char *hint,
       const char *format, ...)
{
    char text[FINDING_TEXT_MAX];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    findings_add(server->findings, STORE, check->name, ok, hint != NULL ? hint : check->hint,
                 "%s%s", server->where, text);
}

static void warn(const struct store_server *server, const char *name, const char *hint,
                 const char *format, ...) PRINTF_LIKE(4, 5);

static void
warn(const struct store_server *server, const char *name, const char *hint, const char *format, ...)
{
    char text[FINDING_TEXT_MAX];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    findings_warn(server->findings, STORE, name, hint, "%s%s", server->where, text);
}

/* Returns the value of an INFO field; "" if the server does not report it. */
static const char *
info_text(const struct store_server *server, const char *name, char ret_value[VALUE_MAX])
{
    char line[VALUE_MAX];
    const char *at;

    snprintf(line, sizeof(line), "\n%s:", name);
    at = strstr(server->info, line);
    if (at != NULL)
        at += strlen(line);
    snprintf(ret_value, VALUE_MAX, "%.*s", at != NULL ? (int)strcspn(at, "\r\n") : 0,
             at != NULL ? at : "");
    return ret_value;
}

static bool
info_is(const struct store_server *server, const char *name, const char *wanted)
{
    char value[VALUE_MAX];

    return strcmp(info_text(server, name, value), wanted) == 0;
}

static long long
info_number(const struct store_server *server, const char *name)
{
    char value[VALUE_MAX];

    return strtoll(info_text(server, name, value), NULL, 10);
}

static bool
is_primary(const struct store_server *server)
{
    return info_is(server, "role", "master");
}

/* Returns false, and the value "", if CONFIG is not permitted or the setting is unknown. */
static bool
read_setting(struct store_server *server, const char *name, char ret_value[VALUE_MAX])
{
    const char *argv[] = {"CONFIG", "GET", name};
    const struct redisReply *reply = probe_request(server->probe, 3, argv);
    struct bytes value = {NULL, 0};

    if (reply_is_array(reply, 2))
        value = reply_bytes(reply_at(reply, 1));
    snprintf(ret_value, VALUE_MAX, "%.*s", value.at != NULL ? (int)value.len : 0,
             value.at != NULL ? (const char *)value.at : "");
    return value.at != NULL;
}

static void
check_version(struct store_server *server, const struct check *check)
{
    const bool is_loaded = info_is(server, "loading", "0");
    char version[VALUE_MAX];
    const char *name = "Valkey";

    if (info_text(server, "valkey_version", version)[0] == '\0') {
        name = "version";
        info_text(server, "redis_version", version);
    }
    report(server, check, is_loaded, NULL, "%s %s, up for %lld s%s", name, version,
           info_number(server, "uptime_in_seconds"), is_loaded ? "" : ", loading");
}

static void
check_role(struct store_server *server, const struct check *check)
{
    char role[VALUE_MAX], active[VALUE_MAX], host[VALUE_MAX], port[VALUE_MAX];
    bool is_active, is_synced;

    info_text(server, "role", role);
    is_active = (read_setting(server, "active-replica", active) && strcmp(active, "yes") == 0) ||
                strcmp(role, "active-replica") == 0;
    if (server->is_replica && !is_active && strcmp(role, "slave") == 0) {
        is_synced = info_is(server, "master_link_status", "up");
        report(server, check, is_synced,
               "This replica receives no data and cannot replace its primary: see its log",
               "replica of %s:%s%s", info_text(server, "master_host", host),
               info_text(server, "master_port", port), is_synced ? "" : ", not connected to it");
        return;
    }
    report(server, check, strcmp(role, "master") == 0 && !is_active,
           is_active ? "Two writable primaries lose notifications: use one primary with "
                       "replicas; set active-replica no in keydb.conf, then restart"
                     : "Set [store] url to the primary; to promote this server: REPLICAOF NO ONE",
           "%s%s", role, is_active ? ", active-replica" : "");
}

static void
check_cluster_mode(struct store_server *server, const struct check *check)
{
    const bool is_on = info_is(server, "cluster_enabled", "1");
    const bool is_wanted = urls_kind(server->config->store.url) == URLS_CLUSTER;

    report(server, check, is_on == is_wanted,
           is_wanted ? "This server is not a node of a cluster: set [store] url = "
                       "redis://host:port"
                     : "This server is a node of a cluster: set [store] url = "
                       "redis+cluster://host:port,host:port",
           "%s", is_on ? "on" : "off");
}

static void
check_eviction(struct store_server *server, const struct check *check)
{
    char policy[VALUE_MAX];

    info_text(server, "maxmemory_policy", policy);
    report(server, check, strcmp(policy, "noeviction") == 0, NULL, "%s", policy);
}

static void
check_memory(struct store_server *server, const struct check *check)
{
    const long long used = info_number(server, "used_memory");
    const long long max = info_number(server, "maxmemory");

    if (max == 0)
        warn(server, check->name,
             "Without a limit the machine runs out of memory: CONFIG SET maxmemory to 60 % of it; "
             "CONFIG REWRITE",
             "%lld MB used, no limit", used >> 20);
    else
        report(server, check, used < max / 100 * FULL_PERCENT, NULL, "%lld MB used of %lld MB",
               used >> 20, max >> 20);
}

/* The relay then reads smaller replies, each after a lost connection. */
static void
check_output_buffer(struct store_server *server, const struct check *check)
{
    char limits[VALUE_MAX];
    const char *at;
    long long hard;

    if (!read_setting(server, "client-output-buffer-limit", limits))
        return; /* no permission for CONFIG: the appendfsync check reports this */
    at = strstr(limits, "normal ");
    hard = at != NULL ? strtoll(at + strlen("normal "), NULL, 10) : 0;
    if (hard > 0 && hard < BUFFER_MIN)
        warn(server, check->name, check->hint, "normal %lld bytes", hard);
    else
        report(server, check, true, NULL, "normal %lld bytes%s", hard,
               hard == 0 ? ", no limit" : "");
}

static void
check_append_only(struct store_server *server, const struct check *check)
{
    const bool has_aof = info_is(server, "aof_enabled", "1");

    report(server, check, has_aof, NULL, "%s", has_aof ? "yes" : "no");
}

static void
check_fsync(struct store_server *server, const struct check *check)
{
    char mode[VALUE_MAX];
    const bool is_readable = read_setting(server, "appendfsync", mode);

    report(server, check,
           is_readable && (strcmp(mode, "always") == 0 || strcmp(mode, "everysec") == 0),
           is_readable ? "CONFIG SET appendfsync everysec; CONFIG REWRITE"
                       : "The relay's ACL user needs +config|get",
           "%s%s", is_readable ? mode : "not readable",
           strcmp(mode, "everysec") == 0 ? ": WAL is confirmed to PostgreSQL two seconds late"
                                         : "");
}

static void
check_disk(struct store_server *server, const struct check *check)
{
    const bool writes = !info_is(server, "aof_last_write_status", "err") &&
                        !info_is(server, "aof_last_bgrewrite_status", "err") &&
                        !info_is(server, "rdb_last_bgsave_status", "err");
    const long long late = info_number(server, "aof_delayed_fsync");

    report(server, check, writes, NULL, "%s, %lld late fsync%s",
           writes ? "writes succeed" : "the last write failed", late, late == 1 ? "" : "s");
}

/* Returns false if the reply is missing or invalid. */
static bool
read_time(struct probe *probe, int64_t *ret_us)
{
    const char *argv[] = {"TIME"};
    const struct redisReply *reply = probe_request(probe, 1, argv);
    struct bytes seconds, micros;

    if (reply == NULL || !reply_is_array(reply, 2))
        return false;
    seconds = reply_bytes(reply_at(reply, 0));
    micros = reply_bytes(reply_at(reply, 1));
    if (seconds.at == NULL || micros.at == NULL)
        return false;
    *ret_us = strtoll((const char *)seconds.at, NULL, 10) * 1000000 +
              strtoll((const char *)micros.at, NULL, 10);
    return true;
}

/* Assumes that the server reads its clock halfway through the round trip. */
static void
check_clock(struct store_server *server, const struct check *check)
{
    int64_t before_us = clock_wall_us(), store_us, after_us, skew_us;

    if (!read_time(server->probe, &store_us)) {
        report(server, check, false, store_hint(probe_error(server->probe)), "TIME failed: %s",
               probe_error(server->probe));
        return;
    }
    after_us = clock_wall_us();
    skew_us = store_us - before_us / 2 - after_us / 2;
    report(server, check, llabs(skew_us) < SKEW_MAX_US, NULL,
           "%.3f s off this machine's clock, reply in %.1f ms", (double)skew_us / 1e6,
           (double)(after_us - before_us) / 1000.0);
}

/*
 * Between MULTI and DISCARD the server checks the permission of a command but does not run it, so
 * even commands that write have no effect. % is replaced by the key KEY_DOCTOR.
 */
static const char *const required_commands[] = {
    "CONFIG GET appendfsync",
    "DEL %",
    "EVAL x 0",
    "EVALSHA x 0",
    "EXISTS %",
    "GET %",
    "HDEL % a",
    "HEXISTS % a",
    "HGET % a",
    "HGETALL %",
    "HINCRBY % a 1",
    "HKEYS %",
    "HLEN %",
    "HMGET % a",
    "HMSET % a b",
    "HSCAN % 0",
    "HSET % a b",
    "HSETNX % a b",
    "INFO",
    "LINDEX % 0",
    "LPUSH % a",
    "LRANGE % 0 0",
    "LREM % 0 a",
    "LTRIM % 0 0",
    "MEMORY USAGE %",
    "PERSIST %",
    "PEXPIRE % 9",
    "PING",
    "PTTL %",
    "RENAME % %",
    "RENAMENX % %",
    "RPUSH % a",
    "SADD % a",
    "SCAN 0",
    "SCARD %",
    "SCRIPT EXISTS x",
    "SCRIPT LOAD x",
    "SET % a",
    "SINTER % %",
    "SISMEMBER % a",
    "SMEMBERS %",
    "SPOP % 1",
    "SREM % a",
    "SSCAN % 0",
    "TIME",
    "TYPE %",
    "UNLINK %",
    "XACK % a 1-1",
    "XADD % * a b",
    "XCLAIM % a b 0 1-1",
    "XDEL % 1-1",
    "XGROUP CREATE % a $",
    "XGROUP DELCONSUMER % a b",
    "XGROUP SETID % a $",
    "XINFO CONSUMERS % a",
    "XINFO GROUPS %",
    "XINFO STREAM %",
    "XLEN %",
    "XPENDING % a",
    "XRANGE % - +",
    "XREAD STREAMS % $",
    "XREADGROUP GROUP a b STREAMS % >",
    "XREVRANGE % - +",
    "XSETID % 1-1",
    "XTRIM % MAXLEN 9",
    "ZADD % 1 a",
    "ZCARD %",
    "ZCOUNT % 0 1",
    "ZRANGE % 0 0",
    "ZRANGEBYLEX % - +",
    "ZINCRBY % 1 a",
    "ZRANGEBYSCORE % 0 1",
    "ZREM % a",
    "ZREMRANGEBYSCORE % 0 1",
    "ZREVRANGE % 0 0",
    "ZREVRANGEBYLEX % + -",
    "ZSCAN % 0",
    "ZSCORE % a",
};

/*
 * A redirection proves permission: a cluster node checks permissions before it redirects, and a
 * replica before it rejects a write.
 */
static bool
is_permitted(struct store_server *server, const char *command)
{
    char text[VALUE_MAX];
    const char *argv[COMMAND_WORDS_MAX];
    char *rest = NULL;
    int argc = 0;

    snprintf(text, sizeof(text), "%s", command);
    for (char *word = strtok_r(text, " ", &rest); word != NULL && argc < COMMAND_WORDS_MAX;
         word = strtok_r(NULL, " ", &rest))
        argv[argc++] = strcmp(word, "%") == 0 ? server->key : word;
    return probe_request(server->probe, argc, argv) != NULL ||
           (urls_kind(server->config->store.url) != URLS_SINGLE &&
            probe_is_redirected(server->probe));
}

static void
check_commands(struct store_server *server, const struct check *check)
{
    const size_t count = sizeof(required_commands) / sizeof(required_commands[0]);
    const char *last = probe_error(server->probe);
    char missing[VALUE_MAX] = "", error[PROBE_ERROR_MAX] = "";
    size_t rejected = 0;

    if (!is_permitted(server, "MULTI")) {
        report(server, check, false, store_hint(last), "%s", last);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(missing);

        if (is_permitted(server, required_commands[i]))
            continue;
        rejected++;
        snprintf(error, sizeof(error), "%s", last);
        snprintf(missing + len, sizeof(missing) - len, " %.*s",
                 (int)strcspn(required_commands[i], " "), required_commands[i]);
    }
    if (!is_permitted(server, "DISCARD") && rejected == 0)
        snprintf(error, sizeof(error), "%s", last);
    report(server, check, error[0] == '\0', store_hint(error), "%zu of %zu permitted%s%s%s%s%s",
           count - rejected, count, rejected > 0 ? "; not" : "", missing,
           error[0] != '\0' ? " (" : "", error, error[0] != '\0' ? ")" : "");
}

static void
check_cluster_state(struct store_server *server, const struct check *check)
{
    const char *argv[] = {"CLUSTER", "INFO"};
    const char *info = reply_text(probe_request(server->probe, 2, argv));
    const bool is_ok = info != NULL && strstr(info, "cluster_state:ok") != NULL;

    if (info != NULL)
        report(server, check, is_ok, NULL, "%s", is_ok ? "ok" : "failed");
    else
        warn(server, check->name, "The relay's ACL user needs +cluster|info", "%s",
             probe_error(server->probe));
}

/*
 * A node lists only slots that it is migrating, "[93->-ID]", or importing, "[93-<-ID]". With Valkey
 * a replica repeats those of its primary.
 */
static void
check_moves(struct store_server *server, const struct check *check)
{
    const char *argv[] = {"CLUSTER", "NODES"};
    const char *text = reply_text(probe_request(server->probe, 2, argv));
    struct cluster_nodes nodes = cluster_nodes_read(text != NULL ? text : "", "", 0);

    if (text == NULL)
        report(server, check, false, "The relay's ACL user needs +cluster|nodes", "%s",
               probe_error(server->probe));
    else if (nodes.moves.len > 0 && is_primary(server))
        warn(server, check->name, check->hint, "%.*s", (int)nodes.moves.len,
             (const char *)nodes.moves.at);
    cluster_nodes_free(&nodes);
}

static void
check_coverage(struct store_server *server, const struct check *check)
{
    char value[VALUE_MAX];

    if (!read_setting(server, "cluster-require-full-coverage", value))
        return; /* no permission for CONFIG: the appendfsync check reports this */
    if (strcmp(value, "no") == 0)
        report(server, check, true, NULL, "no");
    else
        warn(server, check->name, check->hint, "%s", value);
}

static void
check_shards(struct store_server *server, const struct check *check)
{
    char shards[SHARD_LIST_MAX];

    store_list_shards(server->config, server->primaries, &server->node, shards);
    if (server->has_slots)
        report(server, check, true, NULL, "primary of %s%s",
               shards[0] != '\0' ? "shards " : "no shard", shards);
    else
        report(server, check, true, NULL, "primary without slots");
}

/* The relay waits for min_replicas of each primary that it uses. */
static void
check_replicas(struct store_server *server, const struct check *check)
{
    const long long count = info_number(server, "connected_slaves");
    const int required = server->config->store.min_replicas;
    bool is_used = server->primaries == NULL && !server->is_replica;
    const char *hint = NULL;

    if (server->primaries != NULL && is_primary(server)) {
        char shards[SHARD_LIST_MAX];

        store_list_shards(server->config, server->primaries, &server->node, shards);
        is_used = shards[0] != '\0';
        if (!is_used && server->has_slots && count == 0)
            hint = "Add a replica: if the node fails, its slots are unavailable";
    }
    if (is_used && count == 0 && required == 0 &&
        urls_kind(server->config->store.url) != URLS_SINGLE)
        hint = "No server can replace this primary if it fails: add a replica";
    if (hint != NULL)
        warn(server, "replicas", hint, "no replica");
    else if (is_used)
        report(server, check, count >= required, NULL, "%lld replica%s, %d required", count,
               count == 1 ? "" : "s", required);
}

/* Returns -1 if the node does not count them. */
static long long
count_keys(const struct store_server *server, unsigned slot)
{
    char text[8];
    const char *argv[] = {"CLUSTER", "COUNTKEYSINSLOT", text};
    const struct redisReply *reply;

    snprintf(text, sizeof(text), "%u", slot);
    reply = probe_request(server->probe, 3, argv);
    return reply_is_integer(reply) ? reply_integer(reply) : -1;
}

/* A relay does not use a shard while a primary other than its own has keys of it. */
static void
check_keys(struct store_server *server, const struct check *check)
{
    const struct store_primaries *primaries = server->primaries;
    const struct topology topology = topology_of(server->config);

    for (unsigned k = 0; k < topology.shards; k++) {
        const unsigned slot = topology_slot(&topology, server->config->store.prefix, k);
        const long long count = count_keys(server, slot);

        if (count < 0) {
            report(server, check, false, "The relay's ACL user needs +cluster|countkeysinslot",
                   "%s", probe_error(server->probe));
            return;
        }
        if (count > 0 && primaries->is_known[k] &&
            !slots_is_same_node(&primaries->nodes[k], &server->node))
            warn(server, check->name, check->hint,
                 "%lld keys of slot %u (shard %u), which %s:%d has", count, slot, k,
                 primaries->nodes[k].host, primaries->nodes[k].port);
    }
}

/* Reads what the shard's node has stored. Returns false if another node has the shard. */
static bool
read_place(struct store_server *server, unsigned shard, struct place_facts *ret_facts,
           bool *ret_is_used)
{
    const struct store_primaries *primaries = server->primaries;
    const struct topology topology = topology_of(server->config);
    char prefix[STORE_PREFIX_MAX], meta[STORE_KEY_MAX];
    const char *argv[] = {"HMGET", meta, META_PLACE, META_WITHOUT, META_EPOCH};
    const struct redisReply *reply;

    if (!primaries->is_known[shard] || !slots_is_same_node(&primaries->nodes[shard], &server->node))
        return false;
    topology_shard_prefix(&topology, server->config->store.prefix, shard, prefix);
    key_write(meta, prefix, KEY_META);
    reply = probe_request(server->probe, 5, argv);
    *ret_facts = (struct place_facts){.count = 0};
    place_read_meta(reply, ret_facts);
    *ret_is_used = reply_bytes(reply_at(reply, 2)).len > 0;
    return true;
}

static void
check_abandoned_keys(struct store_server *server, const struct check *check)
{
    struct place_facts facts;
    bool is_used;

    for (unsigned k = 0; k < (unsigned)server->config->store.shards; k++)
        if (read_place(server, k, &facts, &is_used) && facts.without[0] != '\0')
            warn(server, check->name, check->hint, "shard %u is used without the keys on %s", k,
                 facts.without);
}

/* A relay stores that this node has all keys of a shard. */
static void
check_waiting_shards(struct store_server *server, const struct check *check)
{
    struct place_facts facts;
    bool is_used;

    for (unsigned k = 0; k < (unsigned)server->config->store.shards; k++)
        if (read_place(server, k, &facts, &is_used) && is_used && facts.verdict[0] == '\0')
            warn(server, check->name, check->hint,
                 "no relay has found all keys of shard %u on this node", k);
}

static const struct check checks[] = {
    {"server", ANY_SERVER, check_version, "The store is loading its dataset: wait"},
    {"role", ANY_SERVER, check_role, NULL},
    {"cluster mode", ANY_SERVER, check_cluster_mode, NULL},
    {"maxmemory-policy", ANY_SERVER, check_eviction,
     "A full store evicts notifications: CONFIG SET maxmemory-policy noeviction; CONFIG REWRITE"},
    {"memory", ANY_SERVER, check_memory,
     "Raise the limit: CONFIG SET maxmemory ..; CONFIG REWRITE; or shorten [store] retention"},
    {"client-output-buffer-limit", ANY_SERVER, check_output_buffer,
     "The server closes the relay's connections at large replies: CONFIG SET "
     "client-output-buffer-limit 'normal 0 0 0'; CONFIG REWRITE"},
    {"appendonly", ANY_SERVER, check_append_only,
     "Stored notifications are lost in a crash: CONFIG SET appendonly yes; CONFIG REWRITE"},
    {"appendfsync", ANY_SERVER, check_fsync, NULL},
    {"disk", ANY_SERVER, check_disk,
     "See the store's log; usually the disk is full, or vm.overcommit_memory is not 1"},
    {"clock", ANY_SERVER, check_clock,
     "Retries and expirations use the store's clock: run chrony or timesyncd on both machines: "
     "timedatectl set-ntp true"},
    {"commands", ANY_SERVER, check_commands, NULL},
    {"cluster state", CLUSTER_NODE, check_cluster_state,
     "Nodes or slots are missing: redis-cli --cluster check HOST:PORT"},
    {"moving slots", CLUSTER_NODE, check_moves,
     "The shards in these slots wait. If no redis-cli moves them, complete the moves: see "
     "CLUSTER.md"},
    {"cluster-require-full-coverage", CLUSTER_NODE, check_coverage,
     "A failed primary without a replica stops all shards: CONFIG SET "
     "cluster-require-full-coverage no; CONFIG REWRITE, on each node"},
    {"shards", CLUSTER_PRIMARY, check_shards, NULL},
    {"store.min_replicas", ANY_SERVER, check_replicas,
     "PostgreSQL retains WAL until enough replicas are connected: start them, or lower [store] "
     "min_replicas"},
    {"keys of shards", CLUSTER_PRIMARY, check_keys,
     "The shard waits. If no redis-cli moves this slot, complete its move: see CLUSTER.md"},
    {"abandoned keys", CLUSTER_PRIMARY, check_abandoned_keys,
     "A person accepted this loss. Remove the lost node: CLUSTER FORGET on all other nodes within "
     "60 s"},
    {"waiting shards", CLUSTER_PRIMARY, check_waiting_shards,
     "Start a relay. If it waits for the shard, its log names the node and the command: see "
     "CLUSTER.md"},
};

static bool
applies(const struct check *check, const struct store_server *server)
{
    switch (check->subject) {
    case CLUSTER_NODE:
        return server->primaries != NULL;
    case CLUSTER_PRIMARY:
        return server->primaries != NULL && is_primary(server);
    default:
        return true;
    }
}

/*
 * A server that replies with an error is not lost; such errors have a hint. The relay usually
 * ignores a primary without slots that does not reply, so this is a warning.
 */
static void
report_no_connection(const struct store_server *server, const char *where, const char *error)
{
    static const char start[] = "Start the store (systemctl start redis-server, keydb-server or "
                                "valkey-server), or correct [store] url";
    const char *hint = strstr(error, PROBE_TIMED_OUT) != NULL ? HANGS_HINT : store_hint(error);

    if (hint[0] == '\0' && server->primaries != NULL && !server->has_slots)
        findings_warn(server->findings, STORE, "connection", STORE_LOST_HINT, "%s: %s", where,
                      error);
    else
        findings_add(server->findings, STORE, "connection", false, hint[0] != '\0' ? hint : start,
                     "%s: %s", where, error);
}

/* Connects, and reads INFO. Returns false after adding a finding. */
static bool
open_server(struct store_server *server, const struct url *address)
{
    static const struct check info_check = {"server", ANY_SERVER, NULL, NULL};
    const struct topology topology = topology_of(server->config);
    const char *argv[] = {"INFO", "all"};
    char error[PROBE_ERROR_MAX], where[URL_FORMAT_MAX], prefix[STORE_PREFIX_MAX];
    const struct redisReply *reply;

    topology_shard_prefix(&topology, server->config->store.prefix, 0, prefix);
    key_write(server->key, prefix, KEY_DOCTOR);
    url_format(address, where);
    server->probe = probe_open(server->config, address, SERVER_TIMEOUT_S, error);
    if (server->probe == NULL) {
        report_no_connection(server, where, error);
        return false;
    }
    findings_add(server->findings, STORE, "connection", true, NULL, "%s", where);
    reply = probe_request(server->probe, 2, argv);
    if (reply_text(reply) == NULL) {
        report(server, &info_check, false, store_hint(probe_error(server->probe)), "%s",
               reply == NULL ? probe_error(server->probe) : "invalid reply to INFO");
        return false;
    }
    server->info = memory_text(reply_text(reply), strlen(reply_text(reply)));
    return true;
}

bool
store_server_check(struct store_server *server)
{
    struct url address;
    bool is_up = store_read_address(server->config, 0, &address);

    if (is_up && server->node.port != 0) {
        snprintf(address.host, sizeof(address.host), "%s", server->node.host);
        address.port = server->node.port;
        snprintf(server->where, sizeof(server->where), "%s:%d: ", server->node.host,
                 server->node.port);
    }
    is_up = is_up && open_server(server, &address);
    for (size_t i = 0; is_up && i < sizeof(checks) / sizeof(checks[0]); i++)
        if (applies(&checks[i], server))
            checks[i].run(server, &checks[i]);
    free(server->info);
    probe_close(server->probe);
    explicit_bzero(&address, sizeof(address));
    return is_up;
}
