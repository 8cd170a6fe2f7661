/*
 * error_entry.c: an entry of the error log: reads it, renews it so that it can be sent again, and
 * redrives or drops it.
 */
#include "store/admin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "decoder/protocol/envelope.h"
#include "store/admin/admin_private.h"
#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"
#include "wire/frame.h"

enum rc
error_entry_read(const struct redisReply *row, struct error_entry *ret_entry)
{
    struct error_entry entry;
    struct bytes entry_id;

    if (!reply_is_array(row, 2))
        return RC_BAD;
    entry_id = reply_bytes(reply_at(row, 0));
    if (entry_id.at == NULL ||
        entry_id_read((const char *)entry_id.at, entry_id.len, &entry.entry) != RC_OK)
        return RC_BAD;
    entry.id = reply_field(reply_at(row, 1), "id");
    entry.reason = reply_field(reply_at(row, 1), "reason");
    entry.attempts = reply_field(reply_at(row, 1), "attempts");
    entry.users = reply_field(reply_at(row, 1), "users");
    entry.data = reply_field(reply_at(row, 1), "data");
    entry.route = reply_field(reply_at(row, 1), "route");
    *ret_entry = entry;
    return RC_OK;
}

bool
error_entry_lacks_data(const struct error_entry *entry)
{
    return entry->data.len == 0 && !bytes_equal_text(entry->reason, "rejected");
}

void
error_parts_arguments(struct arguments *arguments, const char *prefix, struct bytes id,
                      char ret_key[STORE_KEY_MAX])
{
    snprintf(ret_key, STORE_KEY_MAX, "%s" KEY_ERROR_PARTS "%.*s", prefix, (int)id.len,
             (const char *)id.at);
    argument(arguments, "HMGET");
    argument(arguments, ret_key);
    argument(arguments, "data");
    argument(arguments, "route");
}

void
error_entry_add_parts(struct error_entry *entry, const struct redisReply *parts)
{
    if (reply_bytes(reply_at(parts, 0)).len == 0)
        return;
    entry->data = reply_bytes(reply_at(parts, 0));
    entry->route = reply_bytes(reply_at(parts, 1));
}

/* Overwrites the expiration in the metadata. Its length is constant until the year 9999. */
static void
patch_expiration(unsigned char *data, size_t len, int64_t expires_us)
{
    struct bytes found = notification_metadata((struct bytes){data, len}, ENVELOPE_EXPIRATION_TEXT);
    char text[CLOCK_TEXT_MAX];

    clock_text_us(expires_us, text);
    if (found.len == strlen(text))
        memcpy(data + (found.at - data), text, found.len);
}

/* The commit time changes too, so that a second redrive computes the same lifetime. */
static void
patch_route(unsigned char *route, int64_t now_us, int64_t expires_us)
{
    bytes_put_u64(route + FRAME_NOTIFICATION_AT_COMMIT_US, (uint64_t)now_us);
    bytes_put_u64(route + FRAME_NOTIFICATION_AT_EXPIRES_US, (uint64_t)expires_us);
}

/* A redrive begins with attempt 0. */
static void
reset_attempts(struct redrive *redrive)
{
    const struct bytes digits =
        notification_attempts((struct bytes){redrive->data, redrive->data_len});
    unsigned char *at;

    redrive->route[FRAME_NOTIFICATION_AT_ATTEMPTS] = 0;
    redrive->route[FRAME_NOTIFICATION_AT_ATTEMPTS + 1] = 0;
    if (digits.len == 0)
        return;
    at = redrive->data + (digits.at - redrive->data);
    *at = '0';
    memmove(at + 1, at + digits.len, redrive->data_len - (size_t)(at - redrive->data) - digits.len);
    redrive->data_len -= digits.len - 1;
}

enum rc
redrive_prepare(const struct error_entry *entry, int64_t now_us, struct redrive *ret_redrive)
{
    struct bytes route = entry->route, data = entry->data;
    struct redrive redrive = {.route_len = route.len, .data_len = data.len};
    struct frame frame;
    int64_t lifetime_us;

    if (route.at == NULL || data.len == 0 || frame_parse_header(route, &frame) != RC_OK)
        return RC_BAD;
    redrive.route = memory_new(route.len);
    redrive.data = memory_new(data.len);
    memcpy(redrive.route, route.at, route.len);
    memcpy(redrive.data, data.at, data.len);
    lifetime_us = frame.as.notification.expires_us - frame.as.notification.commit_us;
    if (frame.as.notification.expires_us != 0 && lifetime_us > 0) {
        redrive.expires_ms = (now_us + lifetime_us) / 1000;
        patch_route(redrive.route, now_us, now_us + lifetime_us);
        patch_expiration(redrive.data, data.len, now_us + lifetime_us);
    } else if (bytes_equal_text(entry->reason, "expired")) {
        redrive.expires_ms = now_us / 1000 + STORE_OPEN_MS;
    }
    reset_attempts(&redrive);
    snprintf(redrive.expires, sizeof(redrive.expires), "%" PRId64, redrive.expires_ms);
    if (data.len > STORE_COPIED_BYTES_MAX)
        snprintf(redrive.large, sizeof(redrive.large), "%zu", redrive.route_len + redrive.data_len);
    entry_id_text(entry->entry, redrive.entry);
    *ret_redrive = redrive;
    return RC_OK;
}

/* Arguments of redrive.lua, after the stream. */
enum {
    REDRIVE_ID = 3,
    REDRIVE_ROUTE,
    REDRIVE_DATA,
    REDRIVE_LARGE = 8,
    REDRIVE_RETRY_USERS,
    REDRIVE_OPEN_ENDED
};

struct kept_arguments *
redrive_arguments(const struct shard *shard, const struct error_entry *entry,
                  const struct redrive *redrive, const char *const *users, size_t count)
{
    struct arguments arguments = {.argc = 0};
    struct kept_arguments *kept;

    shard_arguments(shard, &arguments);
    argument(&arguments, redrive->entry);
    argument_bytes(&arguments, entry->id.at, entry->id.len);
    argument_bytes(&arguments, redrive->route, redrive->route_len);
    argument_bytes(&arguments, redrive->data, redrive->data_len);
    argument(&arguments, redrive->expires);
    argument(&arguments, shard->store->script_settings.retention);
    argument(&arguments, redrive->large);
    argument(&arguments, "");
    argument(&arguments, "");
    for (size_t i = 0; i < count; i++)
        argument(&arguments, users[i]);
    kept = arguments_keep(arguments.argc, arguments.argv, arguments.lens);
    arguments_free(&arguments);
    return kept;
}

void
redrive_free(struct redrive *redrive)
{
    free(redrive->route);
    free(redrive->data);
    *redrive = (struct redrive){.expires_ms = 0};
}

/* `fields`: the reply to the first call if the data are large, or NULL. */
static void
redrive_script(const struct kept_arguments *kept, const struct redisReply *fields,
               struct arguments *ret_arguments)
{
    const bool is_large = kept->lens[REDRIVE_LARGE] > 0;

    for (size_t i = 0; i < kept->argc; i++) {
        struct bytes value = kept_argument(kept, i);

        if (i == REDRIVE_DATA && is_large)
            value = multi_data_start(value);
        else if (fields != NULL && (i == REDRIVE_RETRY_USERS || i == REDRIVE_OPEN_ENDED))
            value = reply_bytes(reply_at(fields, i - REDRIVE_RETRY_USERS));
        argument_bytes(ret_arguments, value.at, value.len);
    }
}

/* ---- the change of an entry */

void
error_entry_arguments(struct arguments *arguments, const struct shard *shard, struct entry_id entry,
                      const char *act)
{
    shard_arguments(shard, arguments);
    argument_entry(arguments, entry);
    argument(arguments, act);
}

/* A redrive or a drop. */
struct change {
    struct shard_request request;
    struct shard *shard;
    store_error_changed *done;
    void *ctx;
    bool is_drop;
    const struct kept_arguments *redrive; /* NULL: the entry is read first */
    struct kept_arguments *owned;         /* the same, if the change reads the entry */
    const struct redisReply *row;         /* an entry whose large data are read; NULL: none */
    enum rc failure;                      /* see error_change_send */
    enum store_error_change outcome;
    long long users;
};

static void
send_redrive(struct change *change)
{
    struct arguments arguments = {.argc = 0};

    redrive_script(change->redrive, NULL, &arguments);
    shard_request_send_script(&change->request, change->shard, STORE_SCRIPT_redrive, 1, &arguments);
}

/* The data are large: a transaction adds the stream entry, and calls the script again. */
static void
send_large_redrive(struct change *change, const struct redisReply *fields)
{
    const struct kept_arguments *kept = change->redrive;
    const struct prepared_entry entry = {.id = kept_argument(kept, REDRIVE_ID),
                                         .route = kept_argument(kept, REDRIVE_ROUTE),
                                         .data = kept_argument(kept, REDRIVE_DATA),
                                         .retry_users = reply_bytes(reply_at(fields, 0)),
                                         .open_ended = reply_bytes(reply_at(fields, 1))};
    struct arguments script = {.argc = 0};
    struct multi multi;

    redrive_script(kept, fields, &script);
    multi_begin(&multi, kept_bytes(kept) + entry.route.len + 2 * entry.retry_users.len +
                            strlen(store_script_redrive));
    multi_prepare_entry(&multi, change->shard, &entry);
    multi_script(&multi, change->shard, STORE_SCRIPT_redrive, 1, script.argc, script.argv,
                 script.lens);
    arguments_free(&script);
    shard_request_send_multi(&change->request, change->shard, STORE_SCRIPT_redrive, &multi);
}

/* Sends the redrive of the entry in `reply`. `parts`: its large data, if they were read. */
static void
redrive_row(struct change *change, const struct redisReply *reply, const struct redisReply *parts)
{
    struct error_entry entry;
    struct redrive redrive;

    if (!reply_is_array(reply, 1)) {
        change->outcome = STORE_ERROR_NOT_FOUND;
        return;
    }
    if (error_entry_read(reply_at(reply, 0), &entry) != RC_OK || entry.id.at == NULL) {
        change->outcome = STORE_ERROR_NO_USERS;
        return;
    }
    error_entry_add_parts(&entry, parts);
    if (parts == NULL && error_entry_lacks_data(&entry)) {
        struct arguments arguments = {.argc = 0};
        char key[STORE_KEY_MAX];

        error_parts_arguments(&arguments, change->shard->prefix, entry.id, key);
        shard_request_send_command(&change->request, change->shard, &arguments);
        change->row = shard_request_keep_reply(&change->request, reply);
    } else if (redrive_prepare(&entry, clock_wall_us(), &redrive) != RC_OK) {
        change->outcome = STORE_ERROR_NO_USERS;
    } else {
        change->owned = redrive_arguments(change->shard, &entry, &redrive, NULL, 0);
        change->redrive = change->owned;
        redrive_free(&redrive);
        send_redrive(change);
    }
}

static bool
on_change_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct change *change = (struct change *)request;

    (void)shard;
    if (!change->is_drop && change->redrive == NULL) {
        if (change->row != NULL)
            redrive_row(change, change->row, reply);
        else
            redrive_row(change, reply, NULL);
        return true;
    }
    if (!change->is_drop && reply_is_array(reply, 2)) {
        send_large_redrive(change, reply);
        return true;
    }
    if (!reply_is_integer(reply)) {
        change->failure = RC_BAD;
        return false;
    }
    if (change->is_drop)
        change->outcome = reply_integer(reply) > 0 ? STORE_ERROR_CHANGED : STORE_ERROR_NOT_FOUND;
    else if (reply_integer(reply) < 0)
        change->outcome = reply_integer(reply) == -1 ? STORE_ERROR_NOT_FOUND : STORE_ERROR_NO_USERS;
    else
        change->users = reply_integer(reply);
    return true;
}

static void
on_change_error(struct shard_request *request, const struct redisReply *reply)
{
    struct change *change = (struct change *)request;
    const char *error = reply_text(reply);

    if (strncmp(error, "NOSCRIPT", 8) != 0 && !link_is_redirected(change->shard->link, error))
        change->failure = RC_IO;
}

static void
finish_change(struct shard_request *request, enum rc rc)
{
    const struct change *change = (struct change *)request;

    change->done(change->ctx, rc == RC_OK ? RC_OK : change->failure, change->outcome,
                 change->users);
}

static void
release_change(struct shard_request *request)
{
    free(((struct change *)request)->owned);
}

static const struct shard_request_kind redrive_kind = {.failure = "could not redrive a dead letter",
                                                       .on_reply = on_change_reply,
                                                       .on_error = on_change_error,
                                                       .finish = finish_change,
                                                       .release = release_change};
static const struct shard_request_kind drop_kind = {.failure = "could not drop a dead letter",
                                                    .on_reply = on_change_reply,
                                                    .on_error = on_change_error,
                                                    .finish = finish_change};

static struct change *
change_new(struct shard *shard, bool is_drop, store_error_changed *done, void *ctx)
{
    struct change *change =
        shard_request_new(sizeof(*change), shard->store, is_drop ? &drop_kind : &redrive_kind);

    change->shard = shard;
    change->done = done;
    change->ctx = ctx;
    change->is_drop = is_drop;
    change->failure = RC_AGAIN;
    return change;
}

enum rc
error_change_send(struct shard *shard, const struct kept_arguments *kept, bool is_drop,
                  store_error_changed *done, void *ctx)
{
    struct change *change = change_new(shard, is_drop, done, ctx);

    if (is_drop) {
        shard_request_send_script_argv(&change->request, shard, STORE_SCRIPT_error_entry, 1,
                                       kept->argc, kept->argv, kept->lens);
    } else {
        change->redrive = kept;
        send_redrive(change);
    }
    return shard_request_sent(&change->request);
}

static enum rc
change_entry(struct store *store, struct entry_id entry, bool is_drop, store_error_changed *done,
             void *ctx)
{
    struct shard *shard = &store->shards[error_entry_shard(entry, store->shard_count)];
    struct arguments arguments = {.argc = 0};
    struct change *change;

    if (!store->is_up)
        return RC_AGAIN;
    change = change_new(shard, is_drop, done, ctx);
    error_entry_arguments(&arguments, shard, entry, is_drop ? "drop" : "read");
    shard_request_send_script(&change->request, shard, STORE_SCRIPT_error_entry, 1, &arguments);
    return shard_request_sent(&change->request);
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
