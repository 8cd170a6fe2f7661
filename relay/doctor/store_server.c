/* store_server.c: the checks of one store server. */
#include "doctor/store_probe.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "store/connection/fault.h"
#include "store/connection/reply.h"
#include "store/servers/sentinel_reply.h"
#include "store/servers/topology.h"
#include "store/scripts/keys.h"

#define COMMAND_WORDS_MAX 16
#define SKEW_MAX_US 1000000
#define FULL_PERCENT 90

static bool
read_named(const struct config *config, unsigned number, struct url *ret_address)
{
    char *url = urls_at(config->store.url, number);
    bool is_valid = url_read(url, ret_address) == RC_OK;

    explicit_bzero(url, strlen(url));
    free(url);
    return is_valid;
}

bool
store_named_address(const struct config *config, unsigned number, struct url *ret_address)
{
    if (!read_named(config, number, ret_address))
        return false;
    if (urls_kind(config->store.url) == URLS_SENTINEL) {
        sentinel_credentials(config, ret_address);
        ret_address->database = PROBE_NO_DATABASE;
    }
    return true;
}

bool
store_node_address(const struct config *config, const struct slots_node *node,
                   struct url *ret_address)
{
    if (!read_named(config, 0, ret_address))
        return false;
    snprintf(ret_address->host, sizeof(ret_address->host), "%s", node->host);
    ret_address->port = node->port;
    return true;
}

const char *
store_probe_hint(const char *error)
{
    const char *hint = fault_hint(error);

    return hint != NULL ? hint : "";
}

void
store_probe_report(const struct store_probe *probe, const char *check, bool ok, const char *hint,
                   const char *format, ...)
{
    char text[FINDING_TEXT_MAX];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    findings_add(probe->findings, STORE, check, ok, hint, "%s%s", probe->where, text);
}

void
store_probe_info(const struct store_probe *probe, const char *name, char ret_value[VALUE_MAX])
{
    char line[VALUE_MAX];
    const char *at;

    snprintf(line, sizeof(line), "\n%s:", name);
    at = strstr(probe->info, line);
    if (at != NULL)
        at += strlen(line);
    snprintf(ret_value, VALUE_MAX, "%.*s", at != NULL ? (int)strcspn(at, "\r\n") : 0,
             at != NULL ? at : "");
}

static bool
info_is(const struct store_probe *probe, const char *name, const char *wanted)
{
    char value[VALUE_MAX];

    store_probe_info(probe, name, value);
    return strcmp(value, wanted) == 0;
}

long long
store_probe_number(const struct store_probe *probe, const char *name)
{
    char value[VALUE_MAX];

    store_probe_info(probe, name, value);
    return strtoll(value, NULL, 10);
}

bool
store_probe_setting(struct store_probe *probe, const char *name, char ret_value[VALUE_MAX])
{
    const char *argv[] = {"CONFIG", "GET", name};
    const struct redisReply *reply = probe_request(probe->node, 3, argv);
    struct bytes value = {NULL, 0};

    if (reply_is_array(reply, 2))
        value = reply_bytes(reply_at(reply, 1));
    snprintf(ret_value, VALUE_MAX, "%.*s", value.at != NULL ? (int)value.len : 0,
             value.at != NULL ? (const char *)value.at : "");
    return value.at != NULL;
}

static const char *
version_of(const struct store_probe *probe, char ret_version[VALUE_MAX])
{
    store_probe_info(probe, "valkey_version", ret_version);
    if (ret_version[0] != '\0')
        return "Valkey";
    store_probe_info(probe, "redis_version", ret_version);
    return "version";
}

static void
check_store_version(const struct store_probe *probe)
{
    const bool is_loaded = info_is(probe, "loading", "0");
    char version[VALUE_MAX];
    const char *name = version_of(probe, version);

    store_probe_report(probe, "server", is_loaded, "The store is loading its dataset: wait",
                       "%s %s, up for %lld s%s", name, version,
                       store_probe_number(probe, "uptime_in_seconds"),
                       is_loaded ? "" : ", loading");
}

static void
check_store_replica(const struct store_probe *probe)
{
    const bool is_synced = info_is(probe, "master_link_status", "up");
    char host[VALUE_MAX], port[VALUE_MAX];

    store_probe_info(probe, "master_host", host);
    store_probe_info(probe, "master_port", port);
    store_probe_report(probe, "role", is_synced,
                       "This replica receives no data and cannot replace its primary: see its log",
                       "replica of %s:%s%s", host, port, is_synced ? "" : ", not connected to it");
}

static void
check_store_role(struct store_probe *probe)
{
    char role[VALUE_MAX], active[VALUE_MAX];
    bool is_active;

    store_probe_info(probe, "role", role);
    is_active =
        (store_probe_setting(probe, "active-replica", active) && strcmp(active, "yes") == 0) ||
        strcmp(role, "active-replica") == 0;
    if (probe->is_replica && !is_active && strcmp(role, "slave") == 0) {
        check_store_replica(probe);
        return;
    }
    store_probe_report(
        probe, "role", strcmp(role, "master") == 0 && !is_active,
        is_active ? "Two writable primaries lose notifications: use one primary with "
                    "replicas; set active-replica no in keydb.conf, then restart"
                  : "Set [store] url to the primary; to promote this server: REPLICAOF NO ONE",
        "%s%s", role, is_active ? ", active-replica" : "");
}

bool
store_probe_is_primary(const struct store_probe *probe)
{
    return info_is(probe, "role", "master");
}

void
store_probe_check_replicas(const struct store_probe *probe)
{
    const long long count = store_probe_number(probe, "connected_slaves");
    const int required = probe->config->store.min_replicas;

    if (count == 0 && required == 0 && urls_kind(probe->config->store.url) != URLS_SINGLE)
        findings_warn(probe->findings, STORE, "replicas",
                      "No server can replace this primary if it fails: add a replica",
                      "%sno replica", probe->where);
    else
        store_probe_report(probe, "store.min_replicas", count >= required,
                           "PostgreSQL retains WAL until enough replicas are connected: start "
                           "them, or lower [store] min_replicas",
                           "%lld replica%s, %d required", count, count == 1 ? "" : "s", required);
}

static void
check_cluster_mode(const struct store_probe *probe)
{
    const bool is_on = info_is(probe, "cluster_enabled", "1");
    const bool is_wanted = urls_kind(probe->config->store.url) == URLS_CLUSTER;

    store_probe_report(probe, "cluster mode", is_on == is_wanted,
                       is_wanted ? "This server is not a node of a cluster: set [store] url = "
                                   "redis://host:port"
                                 : "This server is a node of a cluster: set [store] url = "
                                   "redis+cluster://host:port,host:port",
                       "%s", is_on ? "on" : "off");
}

static void
check_store_memory(struct store_probe *probe)
{
    long long used = store_probe_number(probe, "used_memory");
    long long max = store_probe_number(probe, "maxmemory");
    char policy[VALUE_MAX];

    store_probe_info(probe, "maxmemory_policy", policy);
    store_probe_report(probe, "maxmemory-policy", strcmp(policy, "noeviction") == 0,
                       "A full store evicts notifications: CONFIG SET maxmemory-policy noeviction; "
                       "CONFIG REWRITE",
                       "%s", policy);
    store_probe_report(
        probe, "memory", max == 0 || used < max / 100 * FULL_PERCENT,
        "Raise the limit: CONFIG SET maxmemory ..; CONFIG REWRITE; or shorten [store] retention",
        max == 0 ? "%lld MB used, no limit" : "%lld MB used of %lld MB", used >> 20, max >> 20);
}

static void
check_store_disk(struct store_probe *probe)
{
    bool has_aof = info_is(probe, "aof_enabled", "1");
    bool writes = !info_is(probe, "aof_last_write_status", "err") &&
                  !info_is(probe, "aof_last_bgrewrite_status", "err") &&
                  !info_is(probe, "rdb_last_bgsave_status", "err");
    char mode[VALUE_MAX];
    bool is_readable = store_probe_setting(probe, "appendfsync", mode);

    store_probe_report(
        probe, "appendonly", has_aof,
        "Stored notifications are lost in a crash: CONFIG SET appendonly yes; CONFIG "
        "REWRITE",
        "%s", has_aof ? "yes" : "no");
    store_probe_report(
        probe, "appendfsync",
        is_readable && (strcmp(mode, "always") == 0 || strcmp(mode, "everysec") == 0),
        is_readable ? "CONFIG SET appendfsync everysec; CONFIG REWRITE"
                    : "The relay's ACL user needs +config|get",
        "%s%s", is_readable ? mode : "not readable",
        strcmp(mode, "everysec") == 0 ? ": WAL is confirmed to PostgreSQL two seconds late" : "");
    store_probe_report(probe, "disk", writes,
                       "See the store's log; usually the disk is full, or vm.overcommit_memory is "
                       "not 1",
                       "%s, %lld late fsync%s", writes ? "writes succeed" : "the last write failed",
                       store_probe_number(probe, "aof_delayed_fsync"),
                       store_probe_number(probe, "aof_delayed_fsync") == 1 ? "" : "s");
}

/* Returns false if the reply is missing or invalid. */
static bool
read_time(struct probe *node, int64_t *ret_us)
{
    const char *argv[] = {"TIME"};
    const struct redisReply *reply = probe_request(node, 1, argv);
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
check_store_clock(struct store_probe *probe)
{
    int64_t before_us = clock_wall_us(), store_us, after_us, skew_us;

    if (!read_time(probe->node, &store_us)) {
        store_probe_report(probe, "clock", false, store_probe_hint(probe_error(probe->node)),
                           "TIME failed: %s", probe_error(probe->node));
        return;
    }
    after_us = clock_wall_us();
    skew_us = store_us - before_us / 2 - after_us / 2;
    store_probe_report(probe, "clock", llabs(skew_us) < SKEW_MAX_US,
                       "Retries and expirations use the store's clock: run chrony or timesyncd on "
                       "both machines: timedatectl set-ntp true",
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
    "KEYS %",
    "LINDEX % 0",
    "LPUSH % a",
    "LRANGE % 0 0",
    "LREM % 0 a",
    "LTRIM % 0 0",
    "PERSIST %",
    "PEXPIRE % 9",
    "PING",
    "RENAME % %",
    "RENAMENX % %",
    "RPUSH % a",
    "SADD % a",
    "SCARD %",
    "SCRIPT LOAD x",
    "SET % a",
    "SINTER % %",
    "SISMEMBER % a",
    "SMEMBERS %",
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
    "XINFO STREAM %",
    "XLEN %",
    "XPENDING % a",
    "XRANGE % - +",
    "XREAD STREAMS % $",
    "XREVRANGE % - +",
    "XSETID % 1-1",
    "XTRIM % MAXLEN 9",
    "ZADD % 1 a",
    "ZCARD %",
    "ZRANGEBYLEX % - +",
    "ZINCRBY % 1 a",
    "ZRANGEBYSCORE % 0 1",
    "ZREM % a",
    "ZREVRANGE % 0 0",
    "ZREVRANGEBYLEX % + -",
    "ZSCORE % a",
};

/*
 * A redirection proves permission: a cluster node checks permissions before it redirects, and a
 * replica before it rejects a write.
 */
static bool
is_permitted(struct store_probe *probe, const char *command)
{
    char text[VALUE_MAX];
    const char *argv[COMMAND_WORDS_MAX];
    char *rest = NULL;
    int argc = 0;

    snprintf(text, sizeof(text), "%s", command);
    for (char *word = strtok_r(text, " ", &rest); word != NULL && argc < COMMAND_WORDS_MAX;
         word = strtok_r(NULL, " ", &rest))
        argv[argc++] = strcmp(word, "%") == 0 ? probe->key : word;
    return probe_request(probe->node, argc, argv) != NULL ||
           (urls_kind(probe->config->store.url) != URLS_SINGLE && probe_is_redirected(probe->node));
}

static void
check_commands(struct store_probe *probe)
{
    const size_t count = sizeof(required_commands) / sizeof(required_commands[0]);
    char missing[VALUE_MAX] = "", error[PROBE_ERROR_MAX] = "";
    size_t rejected = 0;

    if (!is_permitted(probe, "MULTI")) {
        store_probe_report(probe, "commands", false, store_probe_hint(probe_error(probe->node)),
                           "%s", probe_error(probe->node));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(missing);

        if (is_permitted(probe, required_commands[i]))
            continue;
        rejected++;
        snprintf(error, sizeof(error), "%s", probe_error(probe->node));
        snprintf(missing + len, sizeof(missing) - len, " %.*s",
                 (int)strcspn(required_commands[i], " "), required_commands[i]);
    }
    if (!is_permitted(probe, "DISCARD") && rejected == 0)
        snprintf(error, sizeof(error), "%s", probe_error(probe->node));
    store_probe_report(probe, "commands", error[0] == '\0', store_probe_hint(error),
                       "%zu of %zu permitted%s%s%s%s%s", count - rejected, count,
                       rejected > 0 ? "; not" : "", missing, error[0] != '\0' ? " (" : "", error,
                       error[0] != '\0' ? ")" : "");
}

static bool
save_store_info(struct store_probe *probe)
{
    const char *argv[] = {"INFO", "all"};
    const struct redisReply *reply = probe_request(probe->node, 2, argv);

    if (reply == NULL || reply_text(reply) == NULL) {
        store_probe_report(probe, "server", false, store_probe_hint(probe_error(probe->node)), "%s",
                           reply == NULL ? probe_error(probe->node) : "invalid reply to INFO");
        return false;
    }
    probe->info = memory_text(reply_text(reply), strlen(reply_text(reply)));
    return true;
}

static void
write_key(struct store_probe *probe)
{
    const struct topology topology = topology_of(probe->config);
    char prefix[STORE_PREFIX_MAX];

    topology_shard_prefix(&topology, probe->config->store.prefix, 0, prefix);
    key_write(probe->key, prefix, KEY_DOCTOR);
}

/* A server that replies with an error is not lost; such errors have a hint. */
static void
report_no_connection(const struct store_probe *probe, const char *where, const char *error)
{
    const char *hint = store_probe_hint(error);

    if (hint[0] == '\0' && probe->lost_hint != NULL)
        findings_warn(probe->findings, STORE, "connection", probe->lost_hint, "%s: %s", where,
                      error);
    else
        findings_add(probe->findings, STORE, "connection", false,
                     hint[0] != '\0' ? hint
                                     : "Start the store (systemctl start redis-server, "
                                       "keydb-server or valkey-server), or correct [store] url",
                     "%s: %s", where, error);
}

bool
store_probe_open(struct store_probe *probe, const struct url *address)
{
    char error[PROBE_ERROR_MAX], where[URL_FORMAT_MAX];

    write_key(probe);
    url_format(address, where);
    probe->node = probe_open(probe->config, address, DOCTOR_TIMEOUT_S, error);
    if (probe->node != NULL) {
        findings_add(probe->findings, STORE, "connection", true, NULL, "%s", where);
        return save_store_info(probe);
    }
    report_no_connection(probe, where, error);
    return false;
}

void
store_probe_close(struct store_probe *probe)
{
    free(probe->info);
    probe_close(probe->node);
    probe->info = NULL;
    probe->node = NULL;
}

void
store_probe_check(struct store_probe *probe)
{
    check_store_version(probe);
    check_store_role(probe);
    check_cluster_mode(probe);
    check_store_memory(probe);
    check_store_disk(probe);
    check_store_clock(probe);
    check_commands(probe);
}
