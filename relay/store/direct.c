/* direct.c: asks the store and waits for the answer, for commands that run and end. */
#include "store/direct.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "store/address.h"
#include "store/call.h"
#include "store/direct_ask.h"
#include "store/redrive.h"
#include "store/reply.h"
#include "store/scripts.h"
#include "store/secure.h"

#define DIRECT_PATIENCE_S 10
#define DIRECT_PAGE "50" /* entries of up to a megabyte each */
#define DIRECT_ARGC_FIXED 11

struct direct {
    redisContext *redis;
    redisReply *reply; /* the last one */
    struct trace trace;
    struct delivery delivery;
    char prefix[STORE_KEY_MAX / 2];
    char stream_key[STORE_KEY_MAX];
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
    direct->reply = redisCommandArgv(direct->redis, argc, argv, lens);
    if (direct->reply == NULL)
        snprintf(direct->error, sizeof(direct->error), "the store does not answer: %s",
                 direct->redis->errstr);
    else if (direct->reply->type == REDIS_REPLY_ERROR)
        snprintf(direct->error, sizeof(direct->error), "the store refused: %s", direct->reply->str);
    else
        return direct->reply;
    return NULL;
}

const redisReply *
direct_ask(struct direct *direct, int argc, const char **argv)
{
    size_t lens[DIRECT_WORDS_MAX];

    for (int i = 0; i < argc; i++)
        lens[i] = strlen(argv[i]);
    return ask(direct, argc, argv, lens);
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

static bool
secure(struct direct *direct, const struct config *config, const struct address *address)
{
    char reason[SECURE_ERROR_MAX];

    if (!address->tls || secure_start(config, address->host, direct->redis, reason) == RC_OK)
        return true;
    snprintf(direct->error, sizeof(direct->error), "could not connect to the store: %s", reason);
    return false;
}

struct direct *
direct_open(const struct config *config, char error[DIRECT_ERROR_MAX])
{
    const struct timeval patience = {DIRECT_PATIENCE_S, 0};
    struct direct *direct = memory_new(sizeof(*direct));
    struct address address;
    bool is_good = false;

    delivery_settings(config, &direct->delivery);
    snprintf(direct->prefix, sizeof(direct->prefix), "%s", config->store.prefix);
    snprintf(direct->stream_key, STORE_KEY_MAX, "%s:stream", direct->prefix);
    snprintf(direct->errors_key, STORE_KEY_MAX, "%s:errors", direct->prefix);
    if (address_read(config->store.url, &address) != RC_OK) {
        snprintf(error, DIRECT_ERROR_MAX, "store.url cannot be read");
        free(direct);
        return NULL;
    }
    direct->redis = address.path[0] != '\0'
                        ? redisConnectUnixWithTimeout(address.path, patience)
                        : redisConnectWithTimeout(address.host, address.port, patience);
    if (direct->redis == NULL || direct->redis->err != 0)
        snprintf(direct->error, sizeof(direct->error), "could not connect to the store: %s",
                 direct->redis != NULL ? direct->redis->errstr : "out of memory");
    else
        is_good = redisSetTimeout(direct->redis, patience) == REDIS_OK &&
                  secure(direct, config, &address) && greet(direct, &address);
    explicit_bzero(&address, sizeof(address));
    if (is_good)
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
    if (direct->reply != NULL)
        freeReplyObject(direct->reply);
    if (direct->redis != NULL)
        redisFree(direct->redis);
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

enum rc
direct_errors(struct direct *direct, struct entry_id since, direct_visit *visit, void *ctx)
{
    char from[ENTRY_ID_TEXT_MAX + 1], to[ENTRY_ID_TEXT_MAX];
    const char *argv[] = {"XRANGE", direct->errors_key, from, to, "COUNT", DIRECT_PAGE};
    struct entry_id last = since;
    size_t seen = 1;

    if (ask_newest_error(direct, to) != RC_OK)
        return RC_IO;
    entry_id_text(since, from);
    while (seen > 0) {
        const redisReply *reply = direct_ask(direct, 6, argv);

        if (reply == NULL || reply->type != REDIS_REPLY_ARRAY)
            return RC_IO;
        if (!visit_page(direct, visit, ctx, &last, &seen))
            return RC_OK;
        from[0] = '('; /* the next page begins behind it */
        entry_id_text(last, from + 1);
    }
    return RC_OK;
}

static void
add(struct long_arguments *arguments, const void *bytes, size_t len)
{
    if (arguments->argc == arguments->room)
        abort(); /* the caller counted */
    arguments->argv[arguments->argc] = bytes;
    arguments->lens[arguments->argc++] = len;
}

enum rc
direct_redrive(struct direct *direct, const struct error_entry *entry, const char *const *users,
               size_t count, long long *ret_users)
{
    struct long_arguments arguments;
    struct redrive redrive;
    char place[ENTRY_ID_TEXT_MAX], ends[24];
    const redisReply *reply;

    if (redrive_prepare(entry, clock_wall_us(), &redrive) != RC_OK) {
        snprintf(direct->error, sizeof(direct->error), "its entry cannot be read");
        return RC_BAD;
    }
    entry_id_text(entry->entry, place);
    snprintf(ends, sizeof(ends), "%" PRId64, redrive.ends_ms);
    long_arguments_init(&arguments, DIRECT_ARGC_FIXED + count);
    long_argument(&arguments, "EVAL");
    long_argument(&arguments, store_script_redrive);
    long_argument(&arguments, "1");
    long_argument(&arguments, direct->stream_key);
    long_argument(&arguments, direct->prefix);
    long_argument(&arguments, place);
    add(&arguments, entry->id.at, entry->id.len);
    add(&arguments, redrive.route, redrive.route_len);
    add(&arguments, redrive.data, redrive.data_len);
    long_argument(&arguments, ends);
    long_argument(&arguments, direct->delivery.retention);
    for (size_t i = 0; i < count; i++)
        long_argument(&arguments, users[i]);
    reply = ask(direct, (int)arguments.argc, arguments.argv, arguments.lens);
    free(arguments.argv);
    free(arguments.lens);
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

enum rc
direct_trace(struct direct *direct, const char *id, const struct trace **ret_trace)
{
    char from[24];
    const char *argv[] = {"EVAL", store_script_trace, "1", direct->stream_key, direct->prefix, id,
                          from};
    const redisReply *reply;

    snprintf(from, sizeof(from), "%" PRId64, trace_commit_ms(id));
    reply = direct_ask(direct, 7, argv);
    if (reply == NULL)
        return RC_IO;
    if (trace_read(reply, id, &direct->trace) != RC_OK) {
        snprintf(direct->error, sizeof(direct->error), "the store's answer makes no sense");
        return RC_IO;
    }
    *ret_trace = &direct->trace;
    return RC_OK;
}
