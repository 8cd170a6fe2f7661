/* admin.c: asks the store how it stands, and mends its error log. */
#include "store/admin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "store/call.h"
#include "store/redrive.h"
#include "store/reply.h"

#define REDRIVE_ARGC 8

struct admin_call {
    struct shard *shard;
    store_described *described;
    store_mended *mended;
    void *ctx;
};

static struct admin_call *
admin_call_new(struct shard *shard, void *ctx)
{
    struct admin_call *call = memory_new(sizeof(*call));

    call->shard = shard;
    call->ctx = ctx;
    return call;
}

static void
on_described(void *ctx, const redisReply *reply)
{
    struct admin_call *call = ctx;
    struct bytes json = {NULL, 0};

    if (call_succeeded(call->shard, reply, "describe itself"))
        json = reply_bytes(reply);
    call->described(call->ctx, json.at != NULL ? RC_OK : RC_IO, json);
    free(call);
}

static enum rc
describe(struct store *store, enum store_script script, const char *argument_text,
         store_described *done, void *ctx)
{
    struct shard *shard = &store->shards[0];
    struct arguments arguments = {.argc = 0};
    struct admin_call *call;
    enum rc rc;

    if (!store->is_up)
        return RC_AGAIN;
    call = admin_call_new(shard, ctx);
    call->described = done;
    argument(&arguments, shard->stream_key);
    argument(&arguments, shard->prefix);
    if (argument_text != NULL)
        argument(&arguments, argument_text);
    rc = link_call(shard->link, script, 1, on_described, call, arguments.argc, arguments.argv,
                   arguments.lens);
    if (rc != RC_OK)
        free(call);
    return rc;
}

enum rc
store_overview(struct store *store, store_described *done, void *ctx)
{
    return describe(store, STORE_SCRIPT_overview, NULL, done, ctx);
}

enum rc
store_errors(struct store *store, const struct entry_id *before, store_described *done, void *ctx)
{
    char place[ENTRY_ID_TEXT_MAX + 1] = "(";

    if (before != NULL)
        entry_id_text(*before, place + 1);
    return describe(store, STORE_SCRIPT_errors, before != NULL ? place : "+", done, ctx);
}

static void
finish(struct admin_call *call, enum rc rc, enum store_mend how, long long users)
{
    call->mended(call->ctx, rc, how, users);
    free(call);
}

static void
on_redriven(void *ctx, const redisReply *reply)
{
    struct admin_call *call = ctx;

    if (!call_succeeded(call->shard, reply, "redrive a message") ||
        reply->type != REDIS_REPLY_INTEGER)
        finish(call, RC_IO, STORE_MENDED, 0);
    else if (reply->integer < 0)
        finish(call, RC_OK, reply->integer == -1 ? STORE_MEND_GONE : STORE_MEND_NOBODY, 0);
    else
        finish(call, RC_OK, STORE_MENDED, reply->integer);
}

/* Not a text: it holds zeroes, and none at its end. */
static void
add(struct long_arguments *arguments, const void *bytes, size_t len)
{
    if (arguments->argc == arguments->room)
        abort(); /* the caller counted */
    arguments->argv[arguments->argc] = bytes;
    arguments->lens[arguments->argc++] = len;
}

static enum rc
send_redrive(struct admin_call *call, const struct error_entry *entry,
             const struct redrive *redrive)
{
    struct shard *shard = call->shard;
    struct long_arguments arguments;
    char place[ENTRY_ID_TEXT_MAX], ends[24];
    enum rc rc;

    entry_id_text(entry->entry, place);
    snprintf(ends, sizeof(ends), "%" PRId64, redrive->ends_ms);
    long_arguments_init(&arguments, REDRIVE_ARGC);
    long_argument(&arguments, shard->stream_key);
    long_argument(&arguments, shard->prefix);
    long_argument(&arguments, place);
    add(&arguments, entry->id.at, entry->id.len);
    add(&arguments, redrive->route, redrive->route_len);
    add(&arguments, redrive->data, redrive->data_len);
    long_argument(&arguments, ends);
    long_argument(&arguments, shard->store->delivery.retention);
    rc = link_call(shard->link, STORE_SCRIPT_redrive, 1, on_redriven, call, (int)arguments.argc,
                   arguments.argv, arguments.lens);
    free(arguments.argv);
    free(arguments.lens);
    return rc;
}

/* The entry, which is to be sent anew with a new lifetime. */
static void
on_entry(void *ctx, const redisReply *reply)
{
    struct admin_call *call = ctx;
    struct error_entry entry;
    struct redrive redrive;
    enum rc rc;

    if (!call_succeeded(call->shard, reply, "read its error log")) {
        finish(call, RC_IO, STORE_MENDED, 0);
        return;
    }
    if (!reply_is_array(reply, 1)) {
        finish(call, RC_OK, STORE_MEND_GONE, 0);
        return;
    }
    if (error_entry_read(reply->element[0], &entry) != RC_OK || entry.id.at == NULL ||
        redrive_prepare(&entry, clock_wall_us(), &redrive) != RC_OK) {
        finish(call, RC_OK, STORE_MEND_NOBODY, 0);
        return;
    }
    rc = send_redrive(call, &entry, &redrive);
    redrive_free(&redrive);
    if (rc != RC_OK)
        finish(call, RC_IO, STORE_MENDED, 0);
}

static void
on_dropped(void *ctx, const redisReply *reply)
{
    struct admin_call *call = ctx;

    if (!call_succeeded(call->shard, reply, "drop an error") || reply->type != REDIS_REPLY_INTEGER)
        finish(call, RC_IO, STORE_MENDED, 0);
    else
        finish(call, RC_OK, reply->integer > 0 ? STORE_MENDED : STORE_MEND_GONE, 0);
}

/* One command about one entry of the error log. */
static enum rc
ask_of_entry(struct store *store, const char *command, struct entry_id entry, link_reply *reply,
             store_mended *done, void *ctx)
{
    struct shard *shard = &store->shards[0];
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX], place[ENTRY_ID_TEXT_MAX];
    struct admin_call *call;
    enum rc rc;

    if (!store->is_up)
        return RC_AGAIN;
    call = admin_call_new(shard, ctx);
    call->mended = done;
    snprintf(key, sizeof(key), "%s:errors", shard->prefix);
    entry_id_text(entry, place);
    argument(&arguments, command);
    argument(&arguments, key);
    argument(&arguments, place);
    if (reply == on_entry)
        argument(&arguments, place);
    rc = link_send(shard->link, reply, call, arguments.argc, arguments.argv, arguments.lens);
    if (rc != RC_OK)
        free(call);
    return rc;
}

enum rc
store_redrive(struct store *store, struct entry_id entry, store_mended *done, void *ctx)
{
    return ask_of_entry(store, "XRANGE", entry, on_entry, done, ctx);
}

enum rc
store_drop(struct store *store, struct entry_id entry, store_mended *done, void *ctx)
{
    return ask_of_entry(store, "XDEL", entry, on_dropped, done, ctx);
}
