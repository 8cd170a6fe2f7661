/* ask.c: sends a request to one or more shards, and finishes when all of them have replied. */
#include "store/shards/ask.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/shards/store_private.h"

/* One shard's part of the request. */
struct ask_part {
    struct ask *ask;
    struct shard *shard;
    size_t left; /* replies expected */
    bool has_failed;
};

struct ask_copy {
    struct ask_copy *next;
    struct redisReply *reply;
};

void *
ask_new(size_t size, struct store *store, const struct ask_kind *kind)
{
    struct ask *ask = memory_new(size);

    ask->kind = kind;
    ask->store = store;
    return ask;
}

static void
ask_free(struct ask *ask)
{
    while (ask->copies != NULL) {
        struct ask_copy *copy = ask->copies;

        ask->copies = copy->next;
        free(copy->reply);
        free(copy);
    }
    if (ask->kind->release != NULL)
        ask->kind->release(ask);
    free(ask);
}

static struct ask_part *
part_new(struct ask *ask, struct shard *shard, size_t commands)
{
    struct ask_part *part = memory_new(sizeof(*part));

    *part = (struct ask_part){.ask = ask, .shard = shard, .left = commands};
    return part;
}

static void
part_sent(struct ask_part *part, enum rc rc)
{
    if (rc == RC_OK) {
        part->ask->left++;
        return;
    }
    part->ask->has_failed = true;
    free(part);
}

static bool
takes(const struct ask_part *part, const struct redisReply *reply)
{
    struct ask *ask = part->ask;

    if (part->has_failed)
        return false;
    if (ask_accepts(part->shard, reply, ask->kind->what))
        return ask->kind->take(ask, part->shard, reply);
    if (reply == NULL)
        ask->is_cut_off = true;
    else if (ask->kind->on_error != NULL)
        ask->kind->on_error(ask, reply);
    return false;
}

static void
on_reply(void *ctx, const struct redisReply *reply)
{
    struct ask_part *part = ctx;
    struct ask *ask = part->ask;

    if (!takes(part, reply))
        ask->has_failed = true;
    free(part);
    if (--ask->left > 0)
        return;
    ask->kind->finish(ask, ask->has_failed ? RC_IO : RC_OK);
    ask_free(ask);
}

/* Only the first error is logged: later replies fail because of it. */
static void
on_one_of_several(void *ctx, const struct redisReply *reply)
{
    struct ask_part *part = ctx;

    if (--part->left == 0) {
        on_reply(part, reply);
    } else if (!part->has_failed && (reply == NULL || reply_is_error(reply))) {
        part->has_failed = true;
        (void)ask_accepts(part->shard, reply, part->ask->kind->what);
    }
}

void
ask_script_words(struct ask *ask, struct shard *shard, enum store_script script, int keys,
                 size_t argc, const char **argv, const size_t *lens)
{
    struct ask_part *part = part_new(ask, shard, 1);

    part_sent(part, link_call(shard->link, script, keys, on_reply, part, (int)argc, argv, lens));
}

void
ask_script(struct ask *ask, struct shard *shard, enum store_script script, int keys,
           struct arguments *arguments)
{
    ask_script_words(ask, shard, script, keys, arguments->argc, arguments->argv, arguments->lens);
    arguments_free(arguments);
}

void
ask_command(struct ask *ask, struct shard *shard, struct arguments *arguments)
{
    struct ask_part *part = part_new(ask, shard, 1);

    part_sent(part, link_send(shard->link, on_reply, part, (int)arguments->argc, arguments->argv,
                              arguments->lens));
    arguments_free(arguments);
}

void
ask_commands(struct ask *ask, struct shard *shard, enum time_of time, char *bytes, size_t len,
             size_t count)
{
    struct ask_part *part = part_new(ask, shard, count);

    part_sent(part, link_send_ready(shard->link, time, on_one_of_several, part, bytes, len, count));
}

enum rc
ask_sent(struct ask *ask)
{
    if (ask->left > 0)
        return RC_OK;
    ask_free(ask);
    return RC_AGAIN;
}

const struct redisReply *
ask_keep(struct ask *ask, const struct redisReply *reply)
{
    struct ask_copy *copy;

    if (ask->left == 1)
        return reply;
    copy = memory_new(sizeof(*copy));
    *copy = (struct ask_copy){ask->copies, reply_keep(reply)};
    ask->copies = copy;
    return copy->reply;
}

bool
ask_accepts(struct shard *shard, const struct redisReply *reply, const char *what)
{
    struct store *store = shard->store;
    const struct fault *fault;

    if (!reply_is_error(reply))
        return reply != NULL;
    if (strncmp(reply_text(reply), "FENCED", 6) == 0) {
        log_warn(shard->name, "request rejected: another feed owns the slot", /* expected */
                 LOG_TEXT("request", what), LOG_TEXT("error", reply_text(reply)));
        return false;
    }
    stats_add(store->stats, STAT_STORE_ERRORS, 1);
    fault = fault_report(&store->faults, what, reply_text(reply));
    if (fault != NULL && fault->is_of_server)
        link_restart(shard->link, reply_text(reply));
    else if (strncmp(reply_text(reply), "NOSCRIPT", 8) == 0)
        link_restart(shard->link, "scripts were flushed");
    else if (strncmp(reply_text(reply), "EPOCH", 5) == 0 ||
             strncmp(reply_text(reply), "NOGROUP", 7) == 0)
        link_restart(shard->link,
                     "store epoch changed"); /* hello.lua repairs it, or reports why not */
    return false;
}
