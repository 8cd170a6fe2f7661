/* call.c: sends one question to the store and judges its answer. */
#include "store/shards/call.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "store/connection/reply.h"

void
argument(struct arguments *arguments, const char *text)
{
    arguments->argv[arguments->argc] = text;
    arguments->lens[arguments->argc++] = strlen(text);
}

struct call *
call_new(struct shard *shard, void *ctx)
{
    struct call *call = memory_new(sizeof(*call));

    call->store = shard->store;
    call->shard = shard;
    call->ctx = ctx;
    return call;
}

enum rc
call_send(struct call *call, enum store_script script, int key_count, link_reply *reply,
          const struct arguments *arguments)
{
    enum rc rc = link_call(call->shard->link, script, key_count, reply, call, arguments->argc,
                           (const char **)arguments->argv, arguments->lens);
    if (rc != RC_OK)
        free(call);
    return rc;
}

void
long_arguments_init(struct long_arguments *arguments, size_t room)
{
    *arguments = (struct long_arguments){.argv = memory_new(room * sizeof(*arguments->argv)),
                                         .lens = memory_new(room * sizeof(*arguments->lens)),
                                         .room = room};
}

void
long_argument(struct long_arguments *arguments, const char *text)
{
    long_argument_bytes(arguments, text, strlen(text));
}

void
long_argument_bytes(struct long_arguments *arguments, const void *bytes, size_t len)
{
    if (arguments->argc == arguments->room)
        abort(); /* the caller counted */
    arguments->argv[arguments->argc] = bytes;
    arguments->lens[arguments->argc++] = len;
}

void
long_arguments_free(struct long_arguments *arguments)
{
    free(arguments->argv);
    free(arguments->lens);
}

bool
call_succeeded(struct shard *shard, const struct redisReply *reply, const char *what)
{
    struct store *store = shard->store;
    const struct fault *fault;

    if (reply == NULL)
        return false;
    if (!reply_is_error(reply))
        return true;
    if (strncmp(reply_text(reply), "FENCED", 6) == 0) {
        log_warn(shard->name, "could not %s: %s", what,
                 reply_text(reply)); /* as it should be: no error */
        return false;
    }
    stats_add(store->stats, STAT_STORE_ERRORS, 1);
    fault = fault_report(&store->faults, what, reply_text(reply));
    if (fault != NULL && fault->is_of_server)
        link_restart(shard->link, reply_text(reply));
    else if (strncmp(reply_text(reply), "NOSCRIPT", 8) == 0)
        link_restart(shard->link, "its scripts were flushed");
    else if (strncmp(reply_text(reply), "EPOCH", 5) == 0 ||
             strncmp(reply_text(reply), "NOGROUP", 7) == 0)
        link_restart(shard->link, "it is not what it was"); /* the greeting mends it, or tells */
    return false;
}
