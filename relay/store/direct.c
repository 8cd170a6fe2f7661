/* direct.c: asks the store and waits for the answer, for commands that run and end. */
#include "store/direct.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/urls.h"
#include "store/address.h"
#include "store/call.h"
#include "store/direct_ask.h"
#include "store/redrive.h"
#include "store/reply.h"
#include "store/scripts.h"
#include "store/secure.h"

#define DIRECT_PATIENCE_S 10
#define DIRECT_PAGE "50" /* entries of up to a megabyte each */
#define EVAL_ARGUMENTS 3

struct direct {
    redisContext *servers[STORE_SHARDS_MAX];
    unsigned server_count;
    unsigned at; /* the server that is asked */
    unsigned shard_count;
    redisReply *reply; /* the last one */
    struct trace trace;
    struct delivery delivery;
    char prefix[STORE_KEY_MAX / 2 - 8]; /* of all shards */
    char errors_key[STORE_KEY_MAX];
    char error[DIRECT_ERROR_MAX];
};

const char *
direct_error(const struct direct *direct)
{
    return direct->error;
}

/* NULL: why is in direct->error. The answer lives until the next question. */
static const redisReply *
ask(struct direct *direct, int argc, const char **argv, const size_t *lens)
{
    trace_free(&direct->trace);
    if (direct->reply != NULL)
        freeReplyObject(direct->reply);
    direct->reply = redisCommandArgv(direct->servers[direct->at], argc, argv, lens);
    if (direct->reply == NULL)
        snprintf(direct->error, sizeof(direct->error), "the store does not answer: %s",
                 direct->servers[direct->at]->errstr);
    else if (direct->reply->type == REDIS_REPLY_ERROR)
        snprintf(direct->error, sizeof(direct->error), "the store refused: %s", direct->reply->str);
    else
        return direct->reply;
    return NULL;
}

const redisReply *
direct_ask(struct direct *direct, int argc, const char **argv)
{
    return ask(direct, argc, argv, NULL);
}

static bool
greet(struct direct *direct, const struct address *address)
{
    char database[16];
    const char *auth[3] = {"AUTH", address->user, address->password};
    const char *select[2] = {"SELECT", database};

    snprintf(database, sizeof(database), "%d", address->database);
    if (address->password[0] != '\0' && address->user[0] == '\0')
        auth[1] = address->password;
    if (address->password[0] != '\0' &&
        direct_ask(direct, address->user[0] != '\0' ? 3 : 2, auth) == NULL)
        return false;
    return direct_ask(direct, 2, select) != NULL;
}

static void
fail_connecting(struct direct *direct, const struct address *address, const char *reason)
{
    char where[ADDRESS_SHOWN_MAX];

    address_show(address, where);
    snprintf(direct->error, sizeof(direct->error), "could not connect to the store (%.200s): %s",
             where, reason);
}

static bool
secure(struct direct *direct, const struct config *config, const struct address *address)
{
    char reason[SECURE_ERROR_MAX];

    if (!address->tls ||
        secure_start(config, address->host, direct->servers[direct->at], reason) == RC_OK)
        return true;
    fail_connecting(direct, address, reason);
    return false;
}

/* Connects to the server direct->at. */
static bool
connect_server(struct direct *direct, const struct config *config, const struct address *address)
{
    const struct timeval patience = {DIRECT_PATIENCE_S, 0};
    redisContext *redis = address->path[0] != '\0'
                              ? redisConnectUnixWithTimeout(address->path, patience)
                              : redisConnectWithTimeout(address->host, address->port, patience);

    direct->servers[direct->at] = redis;
    if (redis != NULL && redis->err == 0)
        return redisSetTimeout(redis, patience) == REDIS_OK && secure(direct, config, address) &&
               greet(direct, address);
    fail_connecting(direct, address, redis != NULL ? redis->errstr : "out of memory");
    return false;
}

/* As the next one of direct->servers. */
static bool
open_server(struct direct *direct, const struct config *config, unsigned server)
{
    char *url = urls_at(config->store.url, server);
    struct address address;
    bool is_good = address_read(url, &address) == RC_OK;

    direct->at = direct->server_count++;
    if (is_good)
        is_good = connect_server(direct, config, &address);
    else
        snprintf(direct->error, sizeof(direct->error), "store.url cannot be read");
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
    direct->shard_count = (unsigned)config->store.shards;
    snprintf(direct->prefix, sizeof(direct->prefix), "%s", config->store.prefix);
    snprintf(direct->errors_key, STORE_KEY_MAX, "%s:errors", direct->prefix);
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

    return open_server(direct, config, server) ? direct : direct_failed(direct, error);
}

bool
direct_knows_shards(struct direct *direct)
{
    char key[STORE_KEY_MAX];
    const char *argv[] = {"HGET", key, "shards"};
    long made_with = 0;

    direct->at = 0;
    for (unsigned k = 0; k < STORE_SHARDS_MAX && made_with == 0; k++) {
        const redisReply *reply;

        snprintf(key, sizeof(key), "%s:{%u}:meta", direct->prefix, k);
        reply = direct_ask(direct, 3, argv);
        if (reply == NULL)
            return false;
        made_with = reply->str != NULL ? strtol(reply->str, NULL, 10) : 0;
    }
    if (made_with == 0 || made_with == (long)direct->shard_count)
        return true;
    snprintf(direct->error, sizeof(direct->error),
             "the store was made with [store] shards = %ld, not %u", made_with,
             direct->shard_count);
    return false;
}

/* With another number of shards messages would be looked for where they are not. */
struct direct *
direct_open(const struct config *config, char error[DIRECT_ERROR_MAX])
{
    struct direct *direct = direct_new(config);
    unsigned count = urls_count(config->store.url);
    bool is_good = count <= STORE_SHARDS_MAX;

    for (unsigned i = 0; i < count && is_good; i++)
        is_good = open_server(direct, config, i);
    return is_good && direct_knows_shards(direct) ? direct : direct_failed(direct, error);
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

/* The error log. */

/* The visits may ask questions of their own, so the page is kept from them. */
static bool
visit_page(struct direct *direct, direct_visit *visit, void *ctx, struct entry_id *last,
           size_t *ret_seen)
{
    redisReply *page = direct->reply;
    bool goes_on = true;

    direct->reply = NULL;
    *ret_seen = page->elements;
    for (size_t i = 0; i < page->elements && goes_on; i++) {
        struct error_entry entry;

        if (error_entry_read(page->element[i], &entry) != RC_OK)
            continue;
        *last = entry.entry;
        if (entry.shard % direct->server_count != direct->at)
            continue; /* left here when its shard went to another server */
        goes_on = visit(ctx, &entry);
    }
    freeReplyObject(page);
    return goes_on;
}

/* What is redriven may be logged again meanwhile: a walk ends where the log ended when it began. */
static enum rc
ask_newest_error(struct direct *direct, char ret_to[ENTRY_ID_TEXT_MAX])
{
    const char *argv[] = {"XREVRANGE", direct->errors_key, "+", "-", "COUNT", "1"};
    const redisReply *reply = direct_ask(direct, 6, argv);
    struct error_entry newest = {.entry = {0, 0}};

    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY)
        return RC_IO;
    if (reply->elements > 0 && error_entry_read(reply->element[0], &newest) != RC_OK)
        return RC_IO;
    entry_id_text(newest.entry, ret_to);
    return RC_OK;
}

/* The log of the server direct->at; *goes_on: the visits want more. */
static enum rc
walk_log(struct direct *direct, struct entry_id since, direct_visit *visit, void *ctx,
         bool *goes_on)
{
    char from[ENTRY_ID_TEXT_MAX + 1], to[ENTRY_ID_TEXT_MAX];
    const char *argv[] = {"XRANGE", direct->errors_key, from, to, "COUNT", DIRECT_PAGE};
    struct entry_id last = since;
    size_t seen = 1;

    if (ask_newest_error(direct, to) != RC_OK)
        return RC_IO;
    entry_id_text(since, from);
    while (seen > 0 && *goes_on) {
        const redisReply *reply = direct_ask(direct, 6, argv);

        if (reply == NULL || reply->type != REDIS_REPLY_ARRAY)
            return RC_IO;
        *goes_on = visit_page(direct, visit, ctx, &last, &seen);
        from[0] = '('; /* the next page begins behind it */
        entry_id_text(last, from + 1);
    }
    return RC_OK;
}

enum rc
direct_errors(struct direct *direct, struct entry_id since, direct_visit *visit, void *ctx)
{
    bool goes_on = true;

    for (unsigned i = 0; i < direct->server_count && goes_on; i++) {
        direct->at = i;
        if (walk_log(direct, since, visit, ctx, &goes_on) != RC_OK)
            return RC_IO;
    }
    return RC_OK;
}

/* What the keys of a shard begin with, and its stream; its server is asked from now on. */
static void
turn_to_shard(struct direct *direct, unsigned shard, char ret_prefix[STORE_KEY_MAX / 2],
              char ret_stream[STORE_KEY_MAX])
{
    shard_prefix(direct->prefix, direct->shard_count, shard, ret_prefix);
    snprintf(ret_stream, STORE_KEY_MAX, "%s:stream", ret_prefix);
    direct->at = shard % direct->server_count;
}

enum rc
direct_redrive(struct direct *direct, const struct error_entry *entry, const char *const *users,
               size_t count, long long *ret_users)
{
    struct long_arguments arguments;
    struct redrive redrive;
    char prefix[STORE_KEY_MAX / 2], stream[STORE_KEY_MAX];
    const redisReply *reply;

    if (entry->shard >= direct->shard_count ||
        redrive_prepare(entry, clock_wall_us(), &redrive) != RC_OK) {
        snprintf(direct->error, sizeof(direct->error), "its entry cannot be read");
        return RC_BAD;
    }
    turn_to_shard(direct, entry->shard, prefix, stream);
    long_arguments_init(&arguments, EVAL_ARGUMENTS + REDRIVE_ARGUMENTS + count);
    long_argument(&arguments, "EVAL");
    long_argument(&arguments, store_script_redrive);
    long_argument(&arguments, "1");
    redrive_arguments(&arguments, stream, prefix, direct->delivery.retention, entry, &redrive);
    for (size_t i = 0; i < count; i++)
        long_argument(&arguments, users[i]);
    reply = ask(direct, (int)arguments.argc, arguments.argv, arguments.lens);
    long_arguments_free(&arguments);
    redrive_free(&redrive);
    if (reply == NULL || reply->type != REDIS_REPLY_INTEGER)
        return RC_IO;
    *ret_users = reply->integer;
    return RC_OK;
}

enum rc
direct_drop(struct direct *direct, struct entry_id entry, bool *ret_done)
{
    char place[ENTRY_ID_TEXT_MAX];
    const char *argv[] = {"XDEL", direct->errors_key, place};
    const redisReply *reply;

    entry_id_text(entry, place);
    reply = direct_ask(direct, 3, argv);
    if (reply == NULL || reply->type != REDIS_REPLY_INTEGER)
        return RC_IO;
    *ret_done = reply->integer > 0;
    return RC_OK;
}

static enum rc
trace_in(struct direct *direct, unsigned shard, const char *id)
{
    char prefix[STORE_KEY_MAX / 2], stream[STORE_KEY_MAX], from[24];
    const char *argv[] = {"EVAL", store_script_trace, "1", stream, prefix, id, from};
    const redisReply *reply;

    turn_to_shard(direct, shard, prefix, stream);
    snprintf(from, sizeof(from), "%" PRId64, trace_commit_ms(id));
    reply = direct_ask(direct, 7, argv);
    if (reply == NULL)
        return RC_IO;
    if (trace_read(reply, id, &direct->trace) == RC_OK)
        return RC_OK;
    snprintf(direct->error, sizeof(direct->error), "the store's answer makes no sense");
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
