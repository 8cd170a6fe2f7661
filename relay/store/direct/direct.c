/* direct.c: blocking requests to the store, for commands of the CLI. */
#include "store/direct.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/urls.h"
#include "store/connection/reply.h"
#include "store/connection/tls.h"
#include "store/connection/url.h"
#include "store/direct/direct_private.h"
#include "store/scripts/scripts.h"
#include "store/shards/store_private.h"

#define DIRECT_TIMEOUT_S 10

const char *
direct_error(const struct direct *direct)
{
    return direct->error;
}

static void
forget_reply(struct direct *direct)
{
    trace_free(&direct->trace);
    if (direct->reply != NULL)
        freeReplyObject(direct->reply);
    direct->reply = NULL;
}

static const struct redisReply *
check_reply(struct direct *direct)
{
    if (direct->reply == NULL)
        snprintf(direct->error, sizeof(direct->error), "the store does not reply: %s",
                 direct->servers[direct->at]->errstr);
    else if (reply_is_error(direct->reply))
        snprintf(direct->error, sizeof(direct->error), "the store rejected the command: %s",
                 reply_text(direct->reply));
    else
        return direct->reply;
    return NULL;
}

enum rc
direct_read_changes(struct direct *direct)
{
    char error[DIRECT_ERROR_MAX];
    enum rc rc = RC_OK;

    for (; direct->queued > 0; direct->queued--) {
        const struct redisReply *reply;

        forget_reply(direct);
        if (redisGetReply(direct->servers[direct->at], (void **)&direct->reply) != REDIS_OK)
            direct->reply = NULL;
        reply = check_reply(direct);
        if (!reply_is_integer(reply)) {
            if (rc == RC_OK)
                memcpy(error, direct->error, sizeof(error));
            rc = RC_IO;
        } else if (reply_integer(reply) >= 0) {
            direct->changes.entries += reply_integer(reply) > 0 || direct->changes.is_redrive;
            direct->changes.users += direct->changes.is_redrive ? reply_integer(reply) : 0;
        }
    }
    if (rc != RC_OK)
        memcpy(direct->error, error, sizeof(error));
    return rc;
}

enum rc
direct_queue_change(struct direct *direct, bool is_redrive, int argc, const char **argv,
                    const size_t *lens)
{
    direct->changes.is_redrive = is_redrive;
    if (redisAppendCommandArgv(direct->servers[direct->at], argc, argv, lens) != REDIS_OK) {
        snprintf(direct->error, sizeof(direct->error), "could not queue a command: %s",
                 direct->servers[direct->at]->errstr);
        return RC_IO;
    }
    direct->queued++;
    return RC_OK;
}

/* NULL: see direct->error. The reply is valid until the next request. */
const struct redisReply *
direct_request(struct direct *direct, int argc, const char **argv)
{
    if (direct_read_changes(direct) != RC_OK)
        return NULL;
    forget_reply(direct);
    direct->reply = redisCommandArgv(direct->servers[direct->at], argc, argv, NULL);
    return check_reply(direct);
}

static bool
log_in(struct direct *direct, const struct url *address)
{
    char database[16];
    const char *auth[3] = {"AUTH", address->user, address->password};
    const char *select[2] = {"SELECT", database};

    snprintf(database, sizeof(database), "%d", address->database);
    if (address->password[0] != '\0' && address->user[0] == '\0')
        auth[1] = address->password;
    if (address->password[0] != '\0' &&
        direct_request(direct, address->user[0] != '\0' ? 3 : 2, auth) == NULL)
        return false;
    return direct_request(direct, 2, select) != NULL;
}

static void
fail_connecting(struct direct *direct, const struct url *address, const char *reason)
{
    char where[URL_FORMAT_MAX];

    url_format(address, where);
    snprintf(direct->error, sizeof(direct->error), "could not connect to the store (%.200s): %s",
             where, reason);
}

static bool
secure(struct direct *direct, const struct config *config, const struct url *address)
{
    char reason[TLS_ERROR_MAX];

    if (!address->tls ||
        tls_start(config, address->host, direct->servers[direct->at], reason) == RC_OK)
        return true;
    fail_connecting(direct, address, reason);
    return false;
}

/* Connects to server direct->at. */
static bool
connect_server(struct direct *direct, const struct config *config, const struct url *address)
{
    const struct timeval timeout = {DIRECT_TIMEOUT_S, 0};
    redisContext *redis = address->path[0] != '\0'
                              ? redisConnectUnixWithTimeout(address->path, timeout)
                              : redisConnectWithTimeout(address->host, address->port, timeout);

    direct->servers[direct->at] = redis;
    if (redis != NULL && redis->err == 0)
        return redisSetTimeout(redis, timeout) == REDIS_OK && secure(direct, config, address) &&
               log_in(direct, address);
    fail_connecting(direct, address, redis != NULL ? redis->errstr : "out of memory");
    return false;
}

/* Adds it to direct->servers. */
static bool
open_server(struct direct *direct, const struct config *config, unsigned server)
{
    char *url = urls_at(config->store.url, server);
    struct url address;
    bool is_good = url_read(url, &address) == RC_OK;

    direct->at = direct->server_count++;
    if (is_good)
        is_good = connect_server(direct, config, &address);
    else
        snprintf(direct->error, sizeof(direct->error), "invalid store.url");
    explicit_bzero(&address, sizeof(address));
    explicit_bzero(url, strlen(url));
    free(url);
    return is_good;
}

static struct direct *
direct_new(const struct config *config)
{
    struct direct *direct = memory_new(sizeof(*direct));

    delivery_settings(config, &direct->delivery);
    direct->topology = topology_of(config);
    direct->shard_count = direct->topology.shards;
    snprintf(direct->prefix, sizeof(direct->prefix), "%s", config->store.prefix);
    key_write(direct->errors_key, direct->prefix, KEY_ERRORS);
    return direct;
}

static struct direct *
direct_failed(struct direct *direct, char error[DIRECT_ERROR_MAX])
{
    snprintf(error, DIRECT_ERROR_MAX, "%s", direct->error);
    direct_close(direct);
    return NULL;
}

struct direct *
direct_open_server(const struct config *config, unsigned server, char error[DIRECT_ERROR_MAX])
{
    struct direct *direct = direct_new(config);

    direct->topology.connections = 1;
    return open_server(direct, config, server) ? direct : direct_failed(direct, error);
}

bool
direct_check_shards(struct direct *direct)
{
    char prefix[STORE_PREFIX_MAX], key[STORE_KEY_MAX];
    const char *argv[] = {"HGET", key, "shards"};
    long created_with = 0;

    direct->at = 0;
    for (unsigned k = 0; k < STORE_SHARDS_MAX && created_with == 0; k++) {
        const struct redisReply *reply;

        key_shard_prefix(prefix, direct->prefix, k);
        key_write(key, prefix, KEY_META);
        reply = direct_request(direct, 3, argv);
        if (reply == NULL)
            return false;
        created_with = reply_text(reply) != NULL ? strtol(reply_text(reply), NULL, 10) : 0;
    }
    if (created_with == 0 || created_with == (long)direct->shard_count)
        return true;
    snprintf(direct->error, sizeof(direct->error),
             "the store was created with [store] shards = %ld, not %u", created_with,
             direct->shard_count);
    return false;
}

/* Checks the number of shards, which decides where a notification is. */
struct direct *
direct_open(const struct config *config, char error[DIRECT_ERROR_MAX])
{
    struct direct *direct = direct_new(config);
    unsigned count = direct->topology.connections;
    bool is_good = count <= STORE_SHARDS_MAX;

    for (unsigned i = 0; i < count && is_good; i++)
        is_good = open_server(direct, config, i);
    return is_good && direct_check_shards(direct) ? direct : direct_failed(direct, error);
}

void
direct_close(struct direct *direct)
{
    if (direct == NULL)
        return;
    trace_free(&direct->trace);
    if (direct->reply != NULL)
        freeReplyObject(direct->reply);
    for (unsigned i = 0; i < direct->server_count; i++) {
        if (direct->servers[i] != NULL)
            redisFree(direct->servers[i]);
    }
    free(direct);
}

void
direct_select_shard(struct direct *direct, unsigned shard, char ret_prefix[STORE_PREFIX_MAX],
                    char ret_stream[STORE_KEY_MAX])
{
    topology_shard_prefix(&direct->topology, direct->prefix, shard, ret_prefix);
    key_write(ret_stream, ret_prefix, KEY_STREAM);
    direct->at = topology_connection_of(&direct->topology, shard);
}

static enum rc
trace_in(struct direct *direct, unsigned shard, const char *id)
{
    char prefix[STORE_PREFIX_MAX], stream[STORE_KEY_MAX], from[24];
    const char *argv[] = {"EVAL", store_script_trace, "1", stream, prefix, id, from};
    const struct redisReply *reply;

    direct_select_shard(direct, shard, prefix, stream);
    snprintf(from, sizeof(from), "%" PRId64, trace_commit_ms(id));
    reply = direct_request(direct, 7, argv);
    if (reply == NULL)
        return RC_IO;
    if (trace_read(reply, id, &direct->trace) == RC_OK)
        return RC_OK;
    snprintf(direct->error, sizeof(direct->error), "invalid reply to trace.lua");
    return RC_IO;
}

enum rc
direct_trace(struct direct *direct, const char *id, const struct trace **ret_trace)
{
    for (unsigned k = 0; k < direct->shard_count; k++) {
        if (trace_in(direct, k, id) != RC_OK)
            return RC_IO;
        if (!trace_is_empty(&direct->trace))
            break;
    }
    *ret_trace = &direct->trace;
    return RC_OK;
}
