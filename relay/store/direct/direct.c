/* direct.c: blocking requests to the store, for CLI commands. */
#include "store/direct.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/direct/direct_private.h"
#include "store/scripts/scripts.h"

const char *
direct_error(const struct direct *direct)
{
    return direct->error;
}

const struct redisReply *
direct_request(struct direct *direct, unsigned shard, int argc, const char **argv)
{
    struct node_command command;
    const struct redisReply *reply;

    if (direct_read_changes(direct) != RC_OK)
        return NULL;
    command = node_command_new(argc, argv, NULL);
    reply = direct_run(direct, shard, &command);
    node_command_free(&command);
    return reply;
}

struct direct *
direct_new(const struct config *config)
{
    struct direct *direct = memory_new(sizeof(*direct));

    direct->config = config;
    direct->queue_end = &direct->queue;
    locator_init(&direct->locator, config);
    delivery_settings(config, &direct->delivery);
    direct->shard_count = direct->locator.topology.shards;
    for (unsigned k = 0; k < direct->shard_count; k++) {
        struct direct_shard *shard = &direct->shards[k];
        char prefix[STORE_PREFIX_MAX];

        topology_shard_prefix(&direct->locator.topology, config->store.prefix, k, prefix);
        memcpy(shard->prefix, prefix, sizeof(prefix));
        key_write(shard->stream, prefix, KEY_STREAM);
        key_write(shard->errors, prefix, KEY_ERRORS);
        key_write(shard->none, prefix, KEY_NONE);
    }
    return direct;
}

const char *
direct_missing(struct direct *direct)
{
    direct->missing_list[0] = '\0';
    for (unsigned k = 0; k < direct->shard_count; k++) {
        if (direct->is_missing[k])
            shard_list_add(direct->missing_list, k);
    }
    return direct->missing_list;
}

/* Each shard stores the number, unless the store is a single server with one shard. */
bool
direct_check_shards(struct direct *direct)
{
    unsigned shard = 0;
    char prefix[STORE_PREFIX_MAX], key[STORE_KEY_MAX];
    const char *argv[] = {"HGET", key, "shards"};
    const struct redisReply *reply;
    long created_with;

    while (shard + 1 < direct->shard_count && direct->is_missing[shard])
        shard++;
    key_shard_prefix(prefix, direct->config->store.prefix, shard);
    key_write(key, prefix, KEY_META);
    reply = direct_request(direct, shard, 3, argv);
    if (reply == NULL)
        return false;
    created_with = reply_text(reply) != NULL ? strtol(reply_text(reply), NULL, 10) : 0;
    if (created_with == 0 || created_with == (long)direct->shard_count)
        return true;
    snprintf(direct->error, sizeof(direct->error),
             "the store was created with [store] shards = %ld, not %u", created_with,
             direct->shard_count);
    return false;
}

/* Checks the number of shards, because it decides the shard of a notification. */
struct direct *
direct_open(const struct config *config, char error[DIRECT_ERROR_MAX])
{
    struct direct *direct = direct_new(config);

    for (unsigned k = 0; k < direct->shard_count; k++)
        direct->is_missing[k] = direct->locator.topology.is_cluster;
    if (direct_reach(direct, false) == RC_OK && direct_check_shards(direct))
        return direct;
    snprintf(error, DIRECT_ERROR_MAX, "%s", direct->error);
    direct_close(direct);
    return NULL;
}

void
direct_close(struct direct *direct)
{
    if (direct == NULL)
        return;
    trace_free(&direct->trace);
    node_free_reply(direct->completed);
    direct_free_queue(direct);
    for (unsigned i = 0; i < STORE_SHARDS_MAX; i++)
        node_close(direct->connections[i].node);
    free(direct);
}

static enum rc
trace_in(struct direct *direct, unsigned number, const char *id)
{
    const struct direct_shard *shard = &direct->shards[number];
    char from[24];
    const char *argv[] = {"EVAL",      store_script_trace, "2", shard->stream,
                          shard->none, shard->prefix,      id,  from};
    const struct redisReply *reply;

    snprintf(from, sizeof(from), "%" PRId64, trace_commit_ms(id));
    reply = direct_request(direct, number, 8, argv);
    if (reply == NULL)
        return RC_IO;
    if (trace_read(reply, id, &direct->trace) == RC_OK)
        return RC_OK;
    return direct_fail(direct, "invalid reply to trace.lua");
}

/* Queries the available shards that were not queried yet, until one has the notification. */
static enum rc
trace_available(struct direct *direct, const char *id, bool is_queried[STORE_SHARDS_MAX])
{
    enum rc rc = RC_OK;

    for (unsigned k = 0; k < direct->shard_count && rc == RC_OK; k++) {
        if (direct->is_missing[k] || is_queried[k])
            continue;
        is_queried[k] = true;
        rc = trace_in(direct, k, id);
        if (!trace_is_empty(&direct->trace))
            break;
    }
    return rc;
}

enum rc
direct_trace(struct direct *direct, const char *id, const struct trace **ret_trace)
{
    bool is_queried[STORE_SHARDS_MAX] = {false};
    enum rc rc = trace_available(direct, id, is_queried);

    if (rc == RC_OK && trace_is_empty(&direct->trace))
        rc = direct_reach(direct, true);
    if (rc == RC_OK && trace_is_empty(&direct->trace))
        rc = trace_available(direct, id, is_queried);
    *ret_trace = &direct->trace;
    return rc;
}
