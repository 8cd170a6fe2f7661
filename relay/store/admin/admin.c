/* admin.c: asks the store how it stands, and mends its error log. */
#include "store/admin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "store/admin/admin_merge.h"
#include "store/shards/call.h"
#include "store/admin/redrive.h"
#include "store/connection/reply.h"

/* What all shards, or all servers, say of themselves. */
struct description {
    struct store *store;
    store_described *done;
    void *ctx;
    enum store_script script;
    unsigned count;
    unsigned left; /* answers that are still to come */
    bool has_failed;
    char *parts[STORE_SHARDS_MAX]; /* JSON texts */
};

struct description_part {
    struct description *description;
    struct shard *shard;
};

static void
description_free(struct description *description)
{
    for (unsigned i = 0; i < description->count; i++)
        free(description->parts[i]);
    free(description);
}

static char *
merge(const struct description *description)
{
    const char *const *parts = (const char *const *)description->parts;

    switch (description->script) {
    case STORE_SCRIPT_errors:
        return admin_merge_errors(parts, description->count);
    case STORE_SCRIPT_latest:
        return admin_merge_latest(parts, description->count);
    case STORE_SCRIPT_user:
        return admin_merge_users(parts, description->count);
    default:
        return admin_merge_overviews(parts, description->count, description->store->server_count);
    }
}

static void
finish_description(struct description *description)
{
    char *text = description->has_failed ? NULL : merge(description);

    if (text != NULL)
        description->done(description->ctx, RC_OK,
                          (struct bytes){(const unsigned char *)text, strlen(text)});
    else
        description->done(description->ctx, RC_IO, (struct bytes){NULL, 0});
    free(text);
    description_free(description);
}

/* With one to ask its answer goes on as it is. */
static void
on_described(void *ctx, const struct redisReply *reply)
{
    struct description_part *part = ctx;
    struct description *description = part->description;
    struct bytes json = {NULL, 0};

    if (call_succeeded(part->shard, reply, "describe itself"))
        json = reply_bytes(reply);
    if (description->count == 1) {
        description->done(description->ctx, json.at != NULL ? RC_OK : RC_IO, json);
        description_free(description);
        free(part);
        return;
    }
    if (json.at != NULL)
        description->parts[part->shard->number] = memory_text((const char *)json.at, json.len);
    else
        description->has_failed = true;
    free(part);
    if (--description->left == 0)
        finish_description(description);
}

static enum rc
ask_description(struct description *description, struct shard *shard, const char *argument_text)
{
    struct description_part *part = memory_new(sizeof(*part));
    struct arguments arguments = {.argc = 0};
    enum rc rc;

    *part = (struct description_part){description, shard};
    argument(&arguments, shard->stream_key);
    argument(&arguments, shard->prefix);
    if (argument_text != NULL)
        argument(&arguments, argument_text);
    rc = link_call(shard->link, description->script, 1, on_described, part, arguments.argc,
                   arguments.argv, arguments.lens);
    if (rc != RC_OK)
        free(part);
    return rc;
}

/* Asks the first `count` shards. */
static enum rc
describe(struct store *store, enum store_script script, const char *argument_text, unsigned count,
         store_described *done, void *ctx)
{
    struct description *description;

    if (!store->is_up)
        return RC_AGAIN;
    description = memory_new(sizeof(*description));
    *description = (struct description){
        .store = store, .done = done, .ctx = ctx, .script = script, .count = count};
    for (unsigned k = 0; k < count; k++) {
        if (ask_description(description, &store->shards[k], argument_text) == RC_OK)
            description->left++;
        else
            description->has_failed = true;
    }
    if (description->left > 0)
        return RC_OK;
    description_free(description);
    return RC_AGAIN;
}

enum rc
store_overview(struct store *store, store_described *done, void *ctx)
{
    return describe(store, STORE_SCRIPT_overview, NULL, store->shard_count, done, ctx);
}

/* Each server has an error log. */
enum rc
store_errors(struct store *store, const struct entry_id *before, store_described *done, void *ctx)
{
    char place[ENTRY_ID_TEXT_MAX + 1] = "(";

    if (before != NULL)
        entry_id_text(*before, place + 1);
    return describe(store, STORE_SCRIPT_errors, before != NULL ? place : "+", store->server_count,
                    done, ctx);
}

enum rc
store_latest(struct store *store, const struct entry_id *after, store_described *done, void *ctx)
{
    char place[ENTRY_ID_TEXT_MAX + 1] = "(";

    if (after != NULL)
        entry_id_text(*after, place + 1);
    return describe(store, STORE_SCRIPT_latest, after != NULL ? place : "-", store->shard_count,
                    done, ctx);
}

enum rc
store_user(struct store *store, const char *user, store_described *done, void *ctx)
{
    return describe(store, STORE_SCRIPT_user, user, store->shard_count, done, ctx);
}

/* Mends an entry of the error log, at the server of its shard. */
struct admin_call {
    struct shard *shard;
    store_mended *mended;
    void *ctx;
    struct entry_id entry;
};

static void
finish(struct admin_call *call, enum rc rc, enum store_mend how, long long users)
{
    call->mended(call->ctx, rc, how, users);
    free(call);
}

static void
on_redriven(void *ctx, const struct redisReply *reply)
{
    struct admin_call *call = ctx;

    if (!call_succeeded(call->shard, reply, "redrive a message") || !reply_is_integer(reply))
        finish(call, RC_IO, STORE_MENDED, 0);
    else if (reply_integer(reply) < 0)
        finish(call, RC_OK, reply_integer(reply) == -1 ? STORE_MEND_GONE : STORE_MEND_NOBODY, 0);
    else
        finish(call, RC_OK, STORE_MENDED, reply_integer(reply));
}

static enum rc
send_redrive(struct admin_call *call, const struct error_entry *entry,
             const struct redrive *redrive)
{
    struct shard *shard = call->shard;
    struct long_arguments arguments;
    enum rc rc;

    long_arguments_init(&arguments, REDRIVE_ARGUMENTS);
    redrive_arguments(&arguments, shard->stream_key, shard->prefix,
                      shard->store->delivery.retention, entry, redrive);
    rc = link_call(shard->link, STORE_SCRIPT_redrive, 1, on_redriven, call, (int)arguments.argc,
                   arguments.argv, arguments.lens);
    long_arguments_free(&arguments);
    return rc;
}

/* The entry, which is to be sent anew with a new lifetime. */
static void
on_entry(void *ctx, const struct redisReply *reply)
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
    if (error_entry_read(reply_at(reply, 0), &entry) != RC_OK || entry.id.at == NULL ||
        entry.shard >= call->shard->store->shard_count ||
        redrive_prepare(&entry, clock_wall_us(), &redrive) != RC_OK) {
        finish(call, RC_OK, STORE_MEND_NOBODY, 0);
        return;
    }
    call->shard = &call->shard->store->shards[entry.shard];
    rc = send_redrive(call, &entry, &redrive);
    redrive_free(&redrive);
    if (rc != RC_OK)
        finish(call, RC_IO, STORE_MENDED, 0);
}

static void
on_dropped(void *ctx, const struct redisReply *reply)
{
    struct admin_call *call = ctx;

    if (!call_succeeded(call->shard, reply, "drop an error") || !reply_is_integer(reply))
        finish(call, RC_IO, STORE_MENDED, 0);
    else
        finish(call, RC_OK, reply_integer(reply) > 0 ? STORE_MENDED : STORE_MEND_GONE, 0);
}

/* Drops the entry, or reads it. */
static enum rc
ask_of_entry(struct admin_call *call, bool is_drop)
{
    struct arguments arguments = {.argc = 0};
    char place[ENTRY_ID_TEXT_MAX];

    entry_id_text(call->entry, place);
    argument(&arguments, is_drop ? "XDEL" : "XRANGE");
    argument(&arguments, call->shard->store->errors_key);
    argument(&arguments, place);
    if (!is_drop)
        argument(&arguments, place);
    return link_send(call->shard->link, is_drop ? on_dropped : on_entry, call, arguments.argc,
                     arguments.argv, arguments.lens);
}

static enum rc
mend(struct store *store, struct entry_id entry, bool is_drop, store_mended *done, void *ctx)
{
    struct admin_call *call;
    enum rc rc;

    if (!store->is_up)
        return RC_AGAIN;
    call = memory_new(sizeof(*call));
    /* In a store of one shard a place says nothing of it, and there is one server. */
    *call = (struct admin_call){&store->shards[error_entry_shard(entry) % store->server_count],
                                done, ctx, entry};
    rc = ask_of_entry(call, is_drop);
    if (rc != RC_OK)
        free(call);
    return rc;
}

enum rc
store_redrive(struct store *store, struct entry_id entry, store_mended *done, void *ctx)
{
    return mend(store, entry, false, done, ctx);
}

enum rc
store_drop(struct store *store, struct entry_id entry, store_mended *done, void *ctx)
{
    return mend(store, entry, true, done, ctx);
}
