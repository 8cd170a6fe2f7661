/*
 * command.c: the store for commands: connects without changing anything, and runs the loop until a
 * request is answered.
 */
#include "store/command.h"

#include <ev.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "store/admin/admin_private.h"
#include "store/connection/reply.h"
#include "store/connection/connect.h"
#include "store/servers/topology.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"

#define DECIDE_US 6000000    /* an unresponsive node fails after 3 to 5 s (timeouts.h, link.c) */
#define COUNT_TIMEOUT_S 10.0 /* name resolution, connection, TLS and reply */

/*
 * The watchdog of a link ends it within a second. A command that prints may be stopped for minutes,
 * by a pager: without ev_resume, the watchdogs would run before the replies are read.
 */
void
command_run(struct command *command)
{
    ev_resume(command->loop);
    ev_run(command->loop, EVRUN_ONCE);
    ev_suspend(command->loop);
}

enum rc
command_fail(struct command *command, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(command->error, sizeof(command->error), format, args);
    va_end(args);
    return RC_IO;
}

const char *
command_error(const struct command *command)
{
    return command->error;
}

const char *
command_missing(struct command *command)
{
    command->missing_list[0] = '\0';
    for (unsigned k = 0; k < command->store->shard_count; k++) {
        if (command->is_missing[k])
            shard_list_add(command->missing_list, k);
    }
    return command->missing_list;
}

/*
 * Waiting is of no use with a store of one server, after a reply that is an error, and against a
 * wrong password, a missing permission or an invalid certificate.
 */
static void
on_shard_failed(struct shard *shard, const char *what, const char *reason)
{
    struct command *command = shard->store->command;

    (void)command_fail(command, "%s: %s", what, reason);
    command->has_failed[shard->number] = true;
    command->is_hopeless |= !servers_can_move(shard->store->servers) ||
                            (shard->is_up && link_is_up(shard->link)) ||
                            (fault_find(reason) != NULL && !fault_is_redirection(reason));
}

static void
on_shard_changed(struct shard *shard)
{
    (void)shard; /* the waits below look at shard->is_up */
}

static const struct shard_events command_events = {
    .on_up = on_shard_changed, .on_down = on_shard_changed, .on_failed = on_shard_failed};

/* True if waiting is of no use: command->error is then the reason. */
static bool
is_hopeless(struct command *command)
{
    const char *failure = servers_failure(command->store->servers);

    if (failure != NULL)
        (void)command_fail(command, "%s", failure);
    return failure != NULL || command->is_hopeless;
}

static void
fail_waiting(struct command *command, unsigned shard)
{
    struct url address;

    if (command->store->shards[shard].place.state == PLACE_SPLIT)
        (void)command_fail(
            command, "shard %u waits: its slot moves, or another node may have keys of it", shard);
    else if (servers_find(command->store->servers, shard, &address) != RC_OK)
        (void)command_fail(command,
                           "shard %u has no primary: its slot is not covered, or a failover is in "
                           "progress",
                           shard);
    else if (!command->has_failed[shard])
        (void)command_fail(command, "the store is not ready: it loads its dataset, is busy, or "
                                    "does not reply");
    explicit_bzero(&address, sizeof(address));
}

/* Waits until the shard may be used or, if `any_keys`, its node replies. */
enum rc
command_wait(struct command *command, unsigned number, bool any_keys, int64_t end_us)
{
    const struct shard *shard = &command->store->shards[number];

    while (!shard->is_up && !(any_keys && link_is_up(shard->link))) {
        if (is_hopeless(command))
            return RC_IO;
        if (clock_monotonic_us() >= end_us) {
            fail_waiting(command, number);
            return RC_IO;
        }
        command_run(command);
    }
    return RC_OK;
}

/* With one server or sentinels, all shards are needed. `waits`: waits several seconds. */
enum rc
command_reach(struct command *command, bool waits)
{
    struct store *store = command->store;
    const int64_t end_us = clock_monotonic_us() + (waits ? COMMAND_RETRY_US : DECIDE_US);
    bool is_decided;

    if (!store->topology.is_cluster) {
        for (unsigned k = 0; k < store->shard_count; k++) {
            if (command_wait(command, k, false, clock_monotonic_us() + COMMAND_RETRY_US) != RC_OK)
                return RC_IO;
        }
        return RC_OK;
    }
    do {
        is_decided = true;
        for (unsigned k = 0; k < store->shard_count; k++) {
            const bool has_failed =
                command->has_failed[k] || store->shards[k].place.state == PLACE_SPLIT;

            command->is_missing[k] = !store->shards[k].is_up;
            if (command->is_missing[k] && (waits || !has_failed))
                is_decided = false;
        }
        if (is_decided)
            return RC_OK;
        if (is_hopeless(command))
            return RC_IO;
        command_run(command);
    } while (clock_monotonic_us() < end_us);
    return RC_OK;
}

struct command *
command_open(const struct config *config, char error[COMMAND_ERROR_MAX])
{
    struct command *command = memory_new(sizeof(*command));

    command->changes_end = &command->changes;
    command->loop = ev_loop_new(EVFLAG_AUTO);
    if (command->loop == NULL) {
        (void)command_fail(command, "could not create an event loop");
    } else {
        command->store =
            store_open_with(command->loop, config, &command->stats, &command_events, command);
        if (command->store == NULL)
            (void)command_fail(command, "invalid store.url");
        else if (command_reach(command, false) == RC_OK)
            return command;
    }
    snprintf(error, COMMAND_ERROR_MAX, "%s", command->error);
    command_close(command);
    return NULL;
}

void
command_close(struct command *command)
{
    if (command == NULL)
        return;
    if (command->close_audit != NULL)
        command->close_audit(command);
    store_close(command->store);
    free(command->completed);
    if (command->loop != NULL)
        ev_loop_destroy(command->loop);
    free(command);
}

bool
command_is_missing(const struct command *command, unsigned shard)
{
    return command->is_missing[shard];
}

/* A request in flight. */
struct call {
    bool is_done;
    struct redisReply *reply; /* NULL: the connection was lost */
};

static void
on_call_reply(void *ctx, const struct redisReply *reply)
{
    struct call *call = ctx;

    call->is_done = true;
    call->reply = reply != NULL ? reply_keep(reply) : NULL;
}

static struct redisReply *
call_once(struct command *command, struct shard *shard, const struct command_call *what)
{
    struct call call = {.reply = NULL};
    enum rc rc;

    if (what->script >= 0)
        rc = link_call(shard->link, (enum store_script)what->script, 1, on_call_reply, &call,
                       what->argc, what->argv, NULL);
    else
        rc = link_send(shard->link, on_call_reply, &call, what->argc, what->argv, NULL);
    while (rc == RC_OK && !call.is_done)
        command_run(command);
    return call.reply;
}

/* True if the request with this error may succeed later: the connection is then restarted. */
static bool
may_repeat(struct shard *shard, const char *error)
{
    const bool is_redirected = link_is_redirected(shard->link, error);

    if (!is_redirected && strncmp(error, "NOSCRIPT", 8) != 0)
        return false;
    link_restart(shard->link, is_redirected ? error : NULL);
    return true;
}

struct redisReply *
command_call(struct command *command, unsigned number, const struct command_call *what)
{
    struct shard *shard = &command->store->shards[number];
    const int64_t end_us = clock_monotonic_us() + COMMAND_RETRY_US;

    while (command_wait(command, number, what->any_keys, end_us) == RC_OK) {
        struct redisReply *reply = call_once(command, shard, what);
        bool is_final;

        if (reply == NULL)
            continue;
        if (!reply_is_error(reply))
            return reply;
        is_final = !may_repeat(shard, reply_text(reply));
        (void)command_fail(command, "the store rejected the command: %s", reply_text(reply));
        free(reply);
        if (is_final)
            return NULL;
    }
    return NULL;
}

struct redisReply *
command_request(struct command *command, unsigned shard, int argc, const char **argv)
{
    return command_call(command, shard, &(struct command_call){-1, argc, argv, false});
}

/* Each shard stores the number, unless the store is a single server with one shard. */
bool
command_check_shards(struct command *command)
{
    const struct store *store = command->store;
    unsigned shard = 0;
    char prefix[STORE_PREFIX_MAX], key[STORE_KEY_MAX];
    const char *argv[] = {"HGET", key, META_SHARDS};
    struct redisReply *reply;
    long created_with;

    while (shard + 1 < store->shard_count && command->is_missing[shard])
        shard++;
    key_shard_prefix(prefix, store->config->store.prefix, shard);
    key_write(key, prefix, KEY_META);
    reply = command_request(command, shard, 3, argv);
    if (reply == NULL)
        return false;
    created_with = reply_text(reply) != NULL ? strtol(reply_text(reply), NULL, 10) : 0;
    free(reply);
    if (created_with == 0 || created_with == (long)store->shard_count)
        return true;
    (void)command_fail(command, "the store was created with [store] shards = %ld, not %u",
                       created_with, store->shard_count);
    return false;
}

enum rc
command_cut_off(struct command *command, const struct cutoff *cutoff, const char *user)
{
    const unsigned shard = user != NULL ? store_shard_of(command->store, user) : 0;
    struct arguments arguments = {.argc = 0};
    struct cutoff_texts texts;
    char key[CUTOFF_KEY_MAX];
    struct redisReply *reply;

    cutoff_arguments(&command->store->shards[0], cutoff, &arguments, &texts);
    reply = command_call(
        command, 0,
        &(struct command_call){STORE_SCRIPT_cutoff, (int)arguments.argc, arguments.argv, false});
    arguments_free(&arguments);
    if (reply != NULL && user != NULL) {
        free(reply);
        cutoff_unsubscribe(&command->store->shards[shard], user, &arguments, key);
        reply = command_request(command, shard, (int)arguments.argc, arguments.argv);
        arguments_free(&arguments);
    }
    free(reply);
    return reply != NULL ? RC_OK : RC_IO;
}

/* A trace in flight. */
struct tracing {
    command_traced *found;
    void *ctx;
    const char *user; /* NULL: none */
    bool is_done;
    bool is_found;
    bool is_complete;
};

static void
on_traced(void *ctx, enum rc rc, const struct trace *trace)
{
    struct tracing *tracing = ctx;

    tracing->is_done = true;
    tracing->is_complete = rc == RC_OK;
    tracing->is_found = rc == RC_OK && !trace_is_empty(trace);
    if (tracing->is_found)
        tracing->found(tracing->ctx, trace);
}

/* Traces in the available shards. */
static void
trace_once(struct command *command, const char *id, struct tracing *tracing)
{
    enum rc rc;

    tracing->is_done = false;
    if (tracing->user != NULL)
        rc = store_trace_of_user(command->store, id, tracing->user, on_traced, tracing);
    else
        rc = store_trace(command->store, STORE_SHARD_UNKNOWN, id, on_traced, tracing);
    if (rc != RC_OK)
        return;
    while (!tracing->is_done)
        command_run(command);
}

enum rc
command_trace(struct command *command, const char *id, const char *user, command_traced *found,
              void *ctx)
{
    const int64_t end_us = clock_monotonic_us() + COMMAND_RETRY_US;
    struct tracing tracing = {.found = found, .ctx = ctx, .user = user};

    trace_once(command, id, &tracing);
    while (!tracing.is_found && !tracing.is_complete) {
        if (is_hopeless(command) || command_reach(command, true) != RC_OK)
            return RC_IO;
        trace_once(command, id, &tracing);
        if (tracing.is_found || tracing.is_complete)
            break;
        if (is_hopeless(command))
            return RC_IO;
        if (command_missing(command)[0] != '\0')
            return RC_OK;
        if (clock_monotonic_us() >= end_us)
            return command_fail(command, "a shard did not reply");
    }
    if (tracing.is_complete)
        memset(command->is_missing, 0, sizeof(command->is_missing));
    return RC_OK;
}

/* What the shard's node replies. */
struct acceptance {
    struct command *command;
    unsigned shard;
    unsigned slot;
    char meta[STORE_KEY_MAX];
    struct cluster_nodes nodes;
    struct place_facts facts;
};

static struct redisReply *
query_node(const struct acceptance *acceptance, int argc, const char **argv)
{
    return command_call(acceptance->command, acceptance->shard,
                        &(struct command_call){-1, argc, argv, true});
}

static enum rc
read_node(struct acceptance *acceptance)
{
    const char *fields[] = {"HMGET", acceptance->meta, META_PLACE, META_WITHOUT};
    const char *nodes[] = {"CLUSTER", "NODES"};
    struct redisReply *reply = query_node(acceptance, 4, fields);
    struct url address;
    enum rc rc = RC_IO;

    if (reply == NULL)
        return RC_IO;
    place_read_meta(reply, &acceptance->facts);
    free(reply);
    reply = query_node(acceptance, 2, nodes);
    if (reply_text(reply) != NULL &&
        servers_find(acceptance->command->store->servers, acceptance->shard, &address) == RC_OK) {
        acceptance->nodes = cluster_nodes_read(reply_text(reply), address.host, acceptance->slot);
        rc = RC_OK;
    }
    explicit_bzero(&address, sizeof(address));
    free(reply);
    return rc;
}

/* Finds a primary by its ID or HOST:PORT. */
static const struct cluster_primary *
find_other(const struct cluster_nodes *nodes, const char *name)
{
    char address[SLOTS_HOST_MAX + 16];

    for (size_t i = 0; i < nodes->count; i++) {
        const struct cluster_primary *other = &nodes->others[i];

        snprintf(address, sizeof(address), "%s:%d", other->node.host, other->node.port);
        if (strcmp(name, other->id) == 0 || strcmp(name, address) == 0)
            return other;
    }
    return NULL;
}

/* A count of the keys on another node. */
struct key_count {
    bool is_done;
    struct query *query;
    long long keys;  /* -1: unknown */
    char error[256]; /* error reply; "": none */
};

/* An error reply begins with a code, such as LOADING. So do errors of TLS, with "SSL". */
static bool
is_error_reply(const char *error)
{
    return strspn(error, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") > 1;
}

static void
on_key_count(void *ctx, const struct redisReply *reply, const char *error)
{
    struct key_count *count = ctx;

    count->is_done = true;
    if (reply == NULL && is_error_reply(error))
        snprintf(count->error, sizeof(count->error), "%s", error);
    if (reply_is_integer(reply))
        count->keys = reply_integer(reply);
    if (reply != NULL)
        query_stop(count->query);
}

static struct key_count
count_keys(const struct acceptance *acceptance, const struct slots_node *node)
{
    struct command *command = acceptance->command;
    const struct store *store = command->store;
    struct key_count count = {.keys = -1};
    char slot[8];
    const char *words[QUERY_WORDS_MAX] = {"CLUSTER", "COUNTKEYSINSLOT", slot};
    struct url address;

    if (servers_find(store->servers, acceptance->shard, &address) != RC_OK)
        return count;
    snprintf(address.host, sizeof(address.host), "%s", node->host);
    address.port = node->port;
    snprintf(slot, sizeof(slot), "%u", acceptance->slot);
    count.query = query_start(command->loop, store->config, &address, words, COUNT_TIMEOUT_S,
                              on_key_count, &count);
    explicit_bzero(&address, sizeof(address));
    while (!count.is_done)
        command_run(command);
    return count;
}

/* Only the keys of a lost node are abandoned. A node that replies with an error is not lost. */
static enum rc
check_is_lost(const struct acceptance *acceptance, const struct cluster_primary *other)
{
    struct key_count count = {.keys = -1};

    if (!other->is_failed)
        count = count_keys(acceptance, &other->node);
    if (count.error[0] != '\0')
        return command_fail(acceptance->command, "node %s replies: %s", other->id, count.error);
    if (count.keys < 0)
        return RC_OK;
    return command_fail(acceptance->command, "node %s replies, and has %lld keys of shard %u: %s",
                        other->id, count.keys, acceptance->shard,
                        count.keys > 0 ? "complete the move of its slot instead, see CLUSTER.md"
                                       : "no shard waits for it");
}

/* The new epoch announces the loss to clients. While the slot moves, the node rejects EXISTS. */
static enum rc
store_acceptance(const struct acceptance *acceptance, const char *id)
{
    struct command *command = acceptance->command;
    struct shard *shard = &command->store->shards[acceptance->shard];
    const char *known = acceptance->facts.without;
    char without[PLACE_WITHOUT_MAX + CLUSTER_ID_MAX], epoch[STORE_EPOCH_TEXT + 1];
    const char *probe[] = {"EXISTS", acceptance->meta, link_none_key(shard->link)};
    const char *set[] = {"HSET", acceptance->meta, META_WITHOUT, without, META_EPOCH, epoch};
    struct redisReply *reply;

    snprintf(without, sizeof(without), "%s%s%s", known, known[0] != '\0' ? " " : "", id);
    if (strlen(without) >= PLACE_WITHOUT_MAX)
        return command_fail(command, "too many nodes were abandoned: remove them from the cluster");
    reply = call_once(command, shard, &(struct command_call){-1, 3, probe, true});
    if (reply_is_error(reply))
        (void)command_fail(command,
                           "the store rejected the command: %s; if the slot is moving, first run "
                           "cluster setslot %u stable on its node",
                           reply_text(reply), acceptance->slot);
    if (reply == NULL || reply_is_error(reply)) {
        free(reply);
        return RC_IO;
    }
    free(reply);
    random_hex(epoch, STORE_EPOCH_TEXT);
    reply = query_node(acceptance, 6, set);
    free(reply);
    return reply != NULL ? RC_OK : RC_IO;
}

enum rc
command_accept(struct command *command, unsigned shard, const char *name,
               command_before_accept *before_change, char ret_id[COMMAND_NODE_MAX])
{
    const struct store *store = command->store;
    struct acceptance acceptance = {.command = command, .shard = shard};
    const struct cluster_primary *other = NULL;
    enum rc rc;

    if (!store->topology.is_cluster)
        return command_fail(command, "the store is not a cluster: no shard waits for a node");
    if (shard >= store->shard_count)
        return command_fail(command, "no shard %u: the store has %u", shard, store->shard_count);
    acceptance.slot = slots_of_key(store->shards[shard].prefix);
    key_write(acceptance.meta, store->shards[shard].prefix, KEY_META);
    rc = read_node(&acceptance);
    if (rc == RC_OK) {
        other = find_other(&acceptance.nodes, name);
        rc = other != NULL
                 ? check_is_lost(&acceptance, other)
                 : command_fail(command,
                                "no other primary of the cluster has this ID or address: %.100s",
                                name);
    }
    if (rc == RC_OK) {
        snprintf(ret_id, COMMAND_NODE_MAX, "%s", other->id);
        before_change(shard, ret_id);
        if (!place_is_abandoned(&acceptance.facts, other->id))
            rc = store_acceptance(&acceptance, other->id);
    }
    cluster_nodes_free(&acceptance.nodes);
    return rc;
}
