/* admin.c: queries the store for the console, and redrives or drops dead letters. */
#include "store/admin.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/admin/admin_merge.h"
#include "store/admin/redrive.h"
#include "store/connection/reply.h"
#include "store/servers/topology.h"
#include "store/shards/shard.h"
#include "store/shards/store_private.h"

/* A query to several shards. */
struct description {
    struct shard_request request;
    store_described *done;
    void *ctx;
    enum store_script script;
    bool is_queried[STORE_SHARDS_MAX];
    struct bytes parts[STORE_SHARDS_MAX]; /* JSON, by shard; empty: no reply */
};

static bool
on_description_reply(struct shard_request *request, struct shard *shard,
                     const struct redisReply *reply)
{
    struct bytes *part = &((struct description *)request)->parts[shard->number];

    *part = reply_bytes(shard_request_keep_reply(request, reply));
    return part->at != NULL;
}

static char *
merge_replies(const struct description *description)
{
    const unsigned count = description->request.store->shard_count;

    switch (description->script) {
    case STORE_SCRIPT_errors:
        return admin_merge_errors(description->parts, count);
    case STORE_SCRIPT_latest:
        return admin_merge_latest(description->parts, count);
    case STORE_SCRIPT_user:
        return admin_merge_users(description->parts, count);
    default:
        return admin_merge_overviews(description->parts, count);
    }
}

/* The reply of a single shard is returned unchanged. */
static void
finish_description(struct shard_request *request, enum rc rc)
{
    const struct description *description = (struct description *)request;
    const unsigned count = request->store->shard_count;
    struct bytes json = description->parts[0];
    char missing[SHARD_LIST_MAX] = "";
    char *text = NULL;

    (void)rc; /* the reply lacks the shards that failed */
    for (unsigned k = 0; k < count; k++) {
        if (description->is_queried[k] && description->parts[k].at == NULL)
            shard_list_add(missing, k);
    }
    if (count > 1) {
        text = merge_replies(description);
        json = (struct bytes){(const unsigned char *)text, text != NULL ? strlen(text) : 0};
    }
    description->done(description->ctx, json.at != NULL ? RC_OK : RC_IO, json, missing);
    free(text);
}

static const struct shard_request_kind description_kind = {.failure =
                                                               "could not read the store overview",
                                                           .on_reply = on_description_reply,
                                                           .finish = finish_description};

/* The notifications of a user are in shard 0 and in the user's shard. */
static bool
has_part(const struct store *store, enum store_script script, const char *argument_text,
         unsigned shard)
{
    return script != STORE_SCRIPT_user || shard == 0 ||
           shard == store_shard_of(store, argument_text);
}

static void
query_shard(struct description *description, struct shard *shard, const char *argument_text)
{
    struct arguments arguments = {.argc = 0};

    description->is_queried[shard->number] = true;
    if (!shard->is_up)
        return;
    shard_arguments(shard, &arguments);
    if (argument_text != NULL)
        argument(&arguments, argument_text);
    shard_request_send_script(&description->request, shard, description->script, 1, &arguments);
}

static enum rc
describe(struct store *store, enum store_script script, const char *argument_text,
         store_described *done, void *ctx)
{
    struct description *description =
        shard_request_new(sizeof(*description), store, &description_kind);

    description->done = done;
    description->ctx = ctx;
    description->script = script;
    for (unsigned k = 0; k < store->shard_count; k++) {
        if (has_part(store, script, argument_text, k))
            query_shard(description, &store->shards[k], argument_text);
    }
    return shard_request_await(&description->request);
}

enum rc
store_overview(struct store *store, store_described *done, void *ctx)
{
    return describe(store, STORE_SCRIPT_overview, NULL, done, ctx);
}

enum rc
store_errors(struct store *store, const struct entry_id *before, store_described *done, void *ctx)
{
    char start[ENTRY_ID_TEXT_MAX + 1] = "(";

    if (before != NULL)
        entry_id_text(*before, start + 1);
    return describe(store, STORE_SCRIPT_errors, before != NULL ? start : "+", done, ctx);
}

enum rc
store_latest(struct store *store, const struct entry_id *after, store_described *done, void *ctx)
{
    char start[ENTRY_ID_TEXT_MAX + 1] = "(";

    if (after != NULL)
        entry_id_text(*after, start + 1);
    return describe(store, STORE_SCRIPT_latest, after != NULL ? start : "-", done, ctx);
}

enum rc
store_user(struct store *store, const char *user, store_described *done, void *ctx)
{
    return describe(store, STORE_SCRIPT_user, user, done, ctx);
}

/* A request to redrive or drop a dead letter of one shard. */
struct change {
    struct shard_request request;
    store_error_changed *done;
    void *ctx;
    bool is_drop;
    bool is_sent; /* the dead letter was read, and a redrive was sent */
    enum store_error_change outcome;
    long long users;
};

static void
send_redrive(struct change *change, struct shard *shard, const struct error_entry *entry,
             const struct redrive *redrive)
{
    struct arguments arguments = {.argc = 0};

    argument(&arguments, shard->stream_key);
    redrive_arguments(&arguments, shard->prefix, shard->store->delivery.retention, entry, redrive);
    shard_request_send_script(&change->request, shard, STORE_SCRIPT_redrive, 1, &arguments);
    change->is_sent = true;
}

/* Sends the redrive of the dead letter in `reply`. */
static void
send_entry_redrive(struct change *change, struct shard *shard, const struct redisReply *reply)
{
    struct error_entry entry;
    struct redrive redrive;

    if (!reply_is_array(reply, 1)) {
        change->outcome = STORE_ERROR_NOT_FOUND;
    } else if (error_entry_read(reply_at(reply, 0), &entry) != RC_OK || entry.id.at == NULL ||
               redrive_prepare(&entry, clock_wall_us(), &redrive) != RC_OK) {
        change->outcome = STORE_ERROR_NO_USERS;
    } else {
        send_redrive(change, shard, &entry, &redrive);
        redrive_free(&redrive);
    }
}

static bool
on_change_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct change *change = (struct change *)request;

    if (!change->is_drop && !change->is_sent) {
        send_entry_redrive(change, shard, reply);
        return true;
    }
    if (!reply_is_integer(reply))
        return false;
    if (change->is_drop)
        change->outcome = reply_integer(reply) > 0 ? STORE_ERROR_CHANGED : STORE_ERROR_NOT_FOUND;
    else if (reply_integer(reply) < 0)
        change->outcome = reply_integer(reply) == -1 ? STORE_ERROR_NOT_FOUND : STORE_ERROR_NO_USERS;
    else
        change->users = reply_integer(reply);
    return true;
}

static void
finish_change(struct shard_request *request, enum rc rc)
{
    const struct change *change = (struct change *)request;

    if (rc == RC_OK)
        change->done(change->ctx, RC_OK, change->outcome, change->users);
    else
        change->done(change->ctx, RC_IO, STORE_ERROR_CHANGED, 0);
}

static const struct shard_request_kind redrive_kind = {.failure = "could not redrive a dead letter",
                                                       .on_reply = on_change_reply,
                                                       .finish = finish_change};
static const struct shard_request_kind drop_kind = {.failure = "could not drop a dead letter",
                                                    .on_reply = on_change_reply,
                                                    .finish = finish_change};

static enum rc
change_entry(struct store *store, struct entry_id entry, bool is_drop, store_error_changed *done,
             void *ctx)
{
    struct shard *shard;
    struct arguments arguments = {.argc = 0};
    char id[ENTRY_ID_TEXT_MAX];
    struct change *change;

    if (!store->is_up)
        return RC_AGAIN;
    shard = &store->shards[error_entry_shard(entry, store->shard_count)];
    change = shard_request_new(sizeof(*change), store, is_drop ? &drop_kind : &redrive_kind);
    change->done = done;
    change->ctx = ctx;
    change->is_drop = is_drop;
    entry_id_text(entry, id);
    shard_arguments(shard, &arguments);
    argument(&arguments, id);
    argument(&arguments, is_drop ? "drop" : "read");
    shard_request_send_script(&change->request, shard, STORE_SCRIPT_error_entry, 1, &arguments);
    return shard_request_await(&change->request);
}

enum rc
store_redrive(struct store *store, struct entry_id entry, store_error_changed *done, void *ctx)
{
    return change_entry(store, entry, false, done, ctx);
}

enum rc
store_drop(struct store *store, struct entry_id entry, store_error_changed *done, void *ctx)
{
    return change_entry(store, entry, true, done, ctx);
}
