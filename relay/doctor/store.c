/* store.c: the checks of the store. */
#include "doctor/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/urls.h"
#include "store/connection/fault.h"
#include "store/connection/reply.h"
#include "store/connection/topology.h"
#include "store/connection/url.h"
#include "store/direct/direct_request.h"
#include "store/scripts/keys.h"

#define COMMAND_WORDS_MAX 16
#define STORE "store"
#define VALUE_MAX 256
#define SKEW_MAX_US 1000000
#define FULL_PERCENT 90

#define DATABASE_HINT                                                                              \
    "Choose another [store] prefix; or if this database replaces that one (pg_upgrade, a "         \
    "restored dump), DEL that key (with several shards in each): clients receive a gap"

#define SLOT_HINT                                                                                  \
    "Set [feed] slot to that one, or choose another [store] prefix; to replace that slot, stop "   \
    "its relay and DEL that key (with several shards in each): clients receive a gap"

struct store_probe {
    const struct config *config;
    struct findings *findings;
    struct direct *direct;
    char *info; /* all of INFO */
    char key[STORE_KEY_MAX];
};

static const char *
hint_of(const char *error)
{
    const struct fault *fault = fault_find(error);

    return fault != NULL ? fault->hint : "";
}

/* The value of a line of INFO; "" if the server does not report it. */
static void
read_info(const struct store_probe *probe, const char *name, char ret_value[VALUE_MAX])
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

    read_info(probe, name, value);
    return strcmp(value, wanted) == 0;
}

static long long
info_number(const struct store_probe *probe, const char *name)
{
    char value[VALUE_MAX];

    read_info(probe, name, value);
    return strtoll(value, NULL, 10);
}

/* False if CONFIG is not permitted or the setting is unknown; the value is "" then. */
static bool
read_setting(struct store_probe *probe, const char *name, char ret_value[VALUE_MAX])
{
    const char *argv[] = {"CONFIG", "GET", name};
    const struct redisReply *reply = direct_request(probe->direct, 3, argv);
    struct bytes value = {NULL, 0};

    if (reply_is_array(reply, 2))
        value = reply_bytes(reply_at(reply, 1));
    snprintf(ret_value, VALUE_MAX, "%.*s", value.at != NULL ? (int)value.len : 0,
             value.at != NULL ? (const char *)value.at : "");
    return value.at != NULL;
}

static void
check_server(struct store_probe *probe)
{
    struct findings *findings = probe->findings;
    char version[VALUE_MAX], valkey[VALUE_MAX], role[VALUE_MAX], active[VALUE_MAX];
    bool is_active;

    read_info(probe, "redis_version", version);
    read_info(probe, "valkey_version", valkey);
    findings_add(findings, STORE, "server", info_is(probe, "loading", "0"),
                 "The store is loading its dataset: wait.", "%s %s, up for %lld s%s",
                 valkey[0] != '\0' ? "Valkey" : "version", valkey[0] != '\0' ? valkey : version,
                 info_number(probe, "uptime_in_seconds"),
                 info_is(probe, "loading", "0") ? "" : ", loading");
    read_info(probe, "role", role);
    is_active = (read_setting(probe, "active-replica", active) && strcmp(active, "yes") == 0) ||
                strcmp(role, "active-replica") == 0;
    findings_add(findings, STORE, "role", strcmp(role, "master") == 0 && !is_active,
                 is_active
                     ? "Two writable primaries lose entries: use one primary with "
                       "replicas; set active-replica no in keydb.conf, then restart"
                     : "Set [store] url to the primary; to promote this server: REPLICAOF NO ONE",
                 "%s%s", role, is_active ? ", active-replica" : "");
    findings_add(
        findings, STORE, "cluster mode", !info_is(probe, "cluster_enabled", "1"),
        "Cluster mode is not supported: set cluster-enabled no; for more than one server, set "
        "[store] shards",
        "%s", info_is(probe, "cluster_enabled", "1") ? "on" : "off");
    findings_add(findings, STORE, "store.min_replicas",
                 info_number(probe, "connected_slaves") >= probe->config->store.min_replicas,
                 "PostgreSQL retains WAL until enough replicas are connected: start them, or "
                 "lower [store] min_replicas",
                 "%lld replica%s, %d required", info_number(probe, "connected_slaves"),
                 info_number(probe, "connected_slaves") == 1 ? "" : "s",
                 probe->config->store.min_replicas);
}

static void
check_memory(struct store_probe *probe)
{
    long long used = info_number(probe, "used_memory");
    long long max = info_number(probe, "maxmemory");
    char policy[VALUE_MAX];

    read_info(probe, "maxmemory_policy", policy);
    findings_add(probe->findings, STORE, "maxmemory-policy", strcmp(policy, "noeviction") == 0,
                 "A full store deletes notifications: CONFIG SET maxmemory-policy noeviction; "
                 "CONFIG REWRITE",
                 "%s", policy);
    findings_add(
        probe->findings, STORE, "memory", max == 0 || used < max / 100 * FULL_PERCENT,
        "Raise the limit: CONFIG SET maxmemory ..; CONFIG REWRITE; or shorten [store] retention",
        max == 0 ? "%lld MB used, no limit" : "%lld MB used of %lld MB", used >> 20, max >> 20);
}

static void
check_disk(struct store_probe *probe)
{
    struct findings *findings = probe->findings;
    bool has_aof = info_is(probe, "aof_enabled", "1");
    bool writes = !info_is(probe, "aof_last_write_status", "err") &&
                  !info_is(probe, "aof_last_bgrewrite_status", "err") &&
                  !info_is(probe, "rdb_last_bgsave_status", "err");
    char mode[VALUE_MAX];
    bool is_readable = read_setting(probe, "appendfsync", mode);

    findings_add(findings, STORE, "appendonly", has_aof,
                 "Stored notifications are lost in a crash: CONFIG SET appendonly yes; CONFIG "
                 "REWRITE",
                 "%s", has_aof ? "yes" : "no");
    findings_add(findings, STORE, "appendfsync",
                 is_readable && (strcmp(mode, "always") == 0 || strcmp(mode, "everysec") == 0),
                 is_readable ? "CONFIG SET appendfsync everysec; CONFIG REWRITE"
                             : "The relay's ACL user needs +config|get",
                 "%s%s", is_readable ? mode : "not readable",
                 strcmp(mode, "everysec") == 0 ? ": WAL is confirmed to PostgreSQL two seconds late"
                                               : "");
    findings_add(findings, STORE, "disk", writes,
                 "See the log of the store; usually the disk is full, or vm.overcommit_memory is "
                 "not 1",
                 "%s, %lld late fsync%s", writes ? "writes succeed" : "the last write failed",
                 info_number(probe, "aof_delayed_fsync"),
                 info_number(probe, "aof_delayed_fsync") == 1 ? "" : "s");
}

/* False if the store did not reply. */
static bool
read_time(struct direct *direct, int64_t *ret_us)
{
    const char *argv[] = {"TIME"};
    const struct redisReply *reply = direct_request(direct, 1, argv);
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

/* Assumes that the request takes half of the round trip. */
static void
check_store_clock(struct store_probe *probe)
{
    int64_t before_us = clock_wall_us(), store_us, after_us, skew_us;

    if (!read_time(probe->direct, &store_us)) {
        findings_add(probe->findings, STORE, "clock", false, hint_of(direct_error(probe->direct)),
                     "TIME failed: %s", direct_error(probe->direct));
        return;
    }
    after_us = clock_wall_us();
    skew_us = store_us - before_us / 2 - after_us / 2;
    findings_add(probe->findings, STORE, "clock", llabs(skew_us) < SKEW_MAX_US,
                 "Retries and expirations use the clock of the store: run chrony or timesyncd on "
                 "both machines: timedatectl set-ntp true",
                 "%.3f s off this machine's clock, reply in %.1f ms", (double)skew_us / 1e6,
                 (double)(after_us - before_us) / 1000.0);
}

/*
 * Between MULTI and DISCARD the server checks the permission of a command but does not run it. So
 * the check has no effect, even for commands that write. %: the key KEY_DOCTOR.
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
    "LTRIM % 0 0",
    "PEXPIRE % 9",
    "PING",
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
    "TIME",
    "TYPE %",
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
    "ZRANGEBYSCORE % 0 1",
    "ZREM % a",
    "ZREVRANGE % 0 0",
    "ZSCORE % a",
};

static const struct redisReply *
try_command(struct store_probe *probe, const char *command)
{
    char text[VALUE_MAX];
    const char *argv[COMMAND_WORDS_MAX];
    char *rest = NULL;
    int argc = 0;

    snprintf(text, sizeof(text), "%s", command);
    for (char *word = strtok_r(text, " ", &rest); word != NULL && argc < COMMAND_WORDS_MAX;
         word = strtok_r(NULL, " ", &rest))
        argv[argc++] = strcmp(word, "%") == 0 ? probe->key : word;
    return direct_request(probe->direct, argc, argv);
}

static void
check_commands(struct store_probe *probe)
{
    const size_t count = sizeof(required_commands) / sizeof(required_commands[0]);
    char missing[VALUE_MAX] = "", error[DIRECT_ERROR_MAX] = "";
    size_t rejected = 0;

    if (try_command(probe, "MULTI") == NULL) {
        findings_add(probe->findings, STORE, "commands", false,
                     hint_of(direct_error(probe->direct)), "%s", direct_error(probe->direct));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(missing);

        if (try_command(probe, required_commands[i]) != NULL)
            continue;
        rejected++;
        snprintf(error, sizeof(error), "%s", direct_error(probe->direct));
        snprintf(missing + len, sizeof(missing) - len, " %.*s",
                 (int)strcspn(required_commands[i], " "), required_commands[i]);
    }
    if (try_command(probe, "DISCARD") == NULL && rejected == 0)
        snprintf(error, sizeof(error), "%s", direct_error(probe->direct));
    findings_add(probe->findings, STORE, "commands", error[0] == '\0', hint_of(error),
                 "%zu of %zu permitted%s%s%s%s%s", count - rejected, count,
                 rejected > 0 ? "; not" : "", missing, error[0] != '\0' ? " (" : "", error,
                 error[0] != '\0' ? ")" : "");
}

/* The address without user and password. */
static void
describe(const struct config *config, unsigned server, char ret_text[URL_FORMAT_MAX])
{
    char *url = urls_at(config->store.url, server);
    struct url address;

    if (url_read(url, &address) != RC_OK)
        snprintf(ret_text, URL_FORMAT_MAX, "store.url");
    else
        url_format(&address, ret_text);
    explicit_bzero(&address, sizeof(address));
    explicit_bzero(url, strlen(url));
    free(url);
}

static bool
save_info(struct store_probe *probe)
{
    const char *argv[] = {"INFO", "all"};
    const struct redisReply *reply = direct_request(probe->direct, 2, argv);

    if (reply == NULL || reply_text(reply) == NULL) {
        findings_add(probe->findings, STORE, "server", false, hint_of(direct_error(probe->direct)),
                     "%s", reply == NULL ? direct_error(probe->direct) : "INFO returned no text");
        return false;
    }
    probe->info = strdup(reply_text(reply));
    return probe->info != NULL;
}

/* Only the first server is certain to have the number of shards. */
static void
check_shards(struct store_probe *probe)
{
    bool is_known = direct_check_shards(probe->direct);

    if (!is_known || probe->config->store.shards > 1)
        findings_add(probe->findings, STORE, "store.shards", is_known,
                     "Restore the old number; or once all notifications are acknowledged, choose "
                     "another [store] prefix, and drop the slot",
                     "%d%s%s", probe->config->store.shards, is_known ? "" : ": ",
                     is_known ? "" : direct_error(probe->direct));
}

static void
read_text(const struct redisReply *reply, size_t nth, char ret_text[VALUE_MAX])
{
    const struct bytes text = reply_is_array(reply, nth + 1) ? reply_bytes(reply_at(reply, nth))
                                                             : (struct bytes){NULL, 0};

    snprintf(ret_text, VALUE_MAX, "%.*s", (int)text.len,
             text.at != NULL ? (const char *)text.at : "");
}

/* The progress key of the slot that was acquired last, as in acquire.lua. */
static bool
read_progress_key(struct store_probe *probe, char ret_key[VALUE_MAX])
{
    const struct config *config = probe->config;
    const struct topology topology = topology_of(config);
    char prefix[STORE_PREFIX_MAX], meta[STORE_KEY_MAX];
    const char *argv[] = {"HMGET", meta, "progress"};

    topology_shard_prefix(&topology, config->store.prefix, 0, prefix);
    key_write(meta, prefix, KEY_META);
    read_text(direct_request(probe->direct, 3, argv), 0, ret_key);
    return ret_key[0] != '\0';
}

/* A store serves one slot: acquire.lua rejects another. */
static void
check_stored_slot(struct store_probe *probe, const char *key)
{
    const struct config *config = probe->config;
    const struct topology topology = topology_of(config);
    char prefix[STORE_PREFIX_MAX], own[STORE_KEY_MAX];
    const char *argv[] = {"EXISTS", key};
    const struct redisReply *reply;

    topology_shard_prefix(&topology, config->store.prefix, 0, prefix);
    key_write_of(own, sizeof(own), prefix, KEY_PROGRESS, config->feed.slot);
    reply = direct_request(probe->direct, 2, argv);
    if (strcmp(key, own) != 0 && reply != NULL && reply_integer(reply) == 1)
        findings_add(probe->findings, STORE, "slot", false, SLOT_HINT,
                     "store belongs to another slot: %s, not %s", key, own);
    else
        findings_add(probe->findings, STORE, "slot", true, NULL, "%s", config->feed.slot);
}

/* A store serves one database: acquire.lua rejects another. */
static void
check_database(struct store_probe *probe, const struct origin *origin)
{
    char key[VALUE_MAX], system[VALUE_MAX], database[VALUE_MAX], name[VALUE_MAX];
    const char *argv[] = {"HMGET", key, "system", "database", "database_name"};
    const struct redisReply *reply;
    bool is_same;

    if (origin->system[0] == '\0' || !read_progress_key(probe, key))
        return;
    reply = direct_request(probe->direct, 5, argv);
    read_text(reply, 0, system);
    read_text(reply, 1, database);
    read_text(reply, 2, name);
    if (system[0] == '\0')
        return;
    is_same = strcmp(system, origin->system) == 0 &&
              (database[0] == '\0' || strcmp(database, origin->database) == 0);
    if (is_same) {
        findings_add(probe->findings, STORE, "database", true, NULL,
                     "database \"%s\" (oid %s) of cluster %s", name, database, system);
        check_stored_slot(probe, key);
    } else {
        findings_add(probe->findings, STORE, "database", false, DATABASE_HINT,
                     "%s belongs to database \"%s\" (oid %s) of cluster %s, [feed] conninfo leads "
                     "to database \"%s\" (oid %s) of cluster %s",
                     key, name, database, system, origin->name, origin->database, origin->system);
    }
}

static void
check_all(const struct config *config, unsigned server, const struct origin *origin,
          struct findings *findings)
{
    struct store_probe probe = {.config = config, .findings = findings};
    char error[DIRECT_ERROR_MAX], where[URL_FORMAT_MAX];

    describe(config, server, where);
    key_write(probe.key, config->store.prefix, KEY_DOCTOR);
    probe.direct = direct_open_server(config, server, error);
    if (probe.direct == NULL) {
        const char *hint = hint_of(error);

        findings_add(findings, STORE, "connection", false,
                     hint[0] != '\0' ? hint
                                     : "Start the store (systemctl start redis-server, "
                                       "keydb-server or valkey-server), or correct [store] url",
                     "%s: %s", where, error);
        return;
    }
    findings_add(findings, STORE, "connection", true, NULL, "%s", where);
    if (save_info(&probe)) {
        check_server(&probe);
        check_memory(&probe);
        check_disk(&probe);
        check_store_clock(&probe);
        check_commands(&probe);
        if (server == 0) {
            check_shards(&probe);
            check_database(&probe, origin);
        }
    }
    free(probe.info);
    direct_close(probe.direct);
}

void
doctor_check_store(const struct config *config, const struct origin *origin,
                   struct findings *findings)
{
    unsigned count = urls_count(config->store.url);

    for (unsigned i = 0; i < count; i++)
        check_all(config, i, origin, findings);
}
