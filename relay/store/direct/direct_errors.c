/* direct_errors.c: reads the error log for commands, and redrives and drops its entries. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "store/admin/redrive.h"
#include "store/connection/reply.h"
#include "store/direct/direct_private.h"
#include "store/scripts/scripts.h"

#define DIRECT_PAGE "50" /* entries of up to a megabyte each */

/* Visits may send requests, which would free the reply: the page is detached first. */
static bool
visit_page(struct direct *direct, direct_visit *visit, void *ctx, struct entry_id *last,
           size_t *ret_seen)
{
    struct redisReply *page = direct->reply;
    bool continues = true;

    direct->reply = NULL;
    *ret_seen = reply_count(page);
    for (size_t i = 0; i < reply_count(page) && continues; i++) {
        struct error_entry entry;

        if (error_entry_read(reply_at(page, i), &entry) != RC_OK)
            continue;
        *last = entry.entry;
        if (topology_connection_of(&direct->topology, entry.shard) != direct->at)
            continue; /* left behind when its shard moved to another server */
        continues = visit(ctx, &entry);
    }
    freeReplyObject(page);
    return continues;
}

long long
direct_error_count(struct direct *direct)
{
    const char *argv[] = {"XLEN", direct->errors_key};
    long long count = 0;

    for (direct->at = 0; direct->at < direct->server_count; direct->at++) {
        const struct redisReply *reply = direct_request(direct, 2, argv);

        if (!reply_is_integer(reply))
            return -1;
        count += reply_integer(reply);
    }
    return count;
}

/* A redriven notification may return to the log: stop at the entry that is newest now. */
static enum rc
find_newest_error(struct direct *direct, char ret_to[ENTRY_ID_TEXT_MAX])
{
    const char *argv[] = {"XREVRANGE", direct->errors_key, "+", "-", "COUNT", "1"};
    const struct redisReply *reply = direct_request(direct, 6, argv);
    struct error_entry newest = {.entry = {0, 0}};

    if (!reply_is_array(reply, 0))
        return RC_IO;
    if (reply_count(reply) > 0 && error_entry_read(reply_at(reply, 0), &newest) != RC_OK)
        return RC_IO;
    entry_id_text(newest.entry, ret_to);
    return RC_OK;
}

/* The log of server direct->at. *continues: false once a visit has returned false. */
static enum rc
walk_log(struct direct *direct, struct entry_id since, direct_visit *visit, void *ctx,
         bool *continues)
{
    char from[ENTRY_ID_TEXT_MAX + 1], to[ENTRY_ID_TEXT_MAX];
    const char *argv[] = {"XRANGE", direct->errors_key, from, to, "COUNT", DIRECT_PAGE};
    struct entry_id last = since;
    size_t seen = 1;

    if (find_newest_error(direct, to) != RC_OK)
        return RC_IO;
    entry_id_text(since, from);
    while (seen > 0 && *continues) {
        const struct redisReply *reply = direct_request(direct, 6, argv);

        if (!reply_is_array(reply, 0))
            return RC_IO;
        *continues = visit_page(direct, visit, ctx, &last, &seen);
        if (direct_read_changes(direct) != RC_OK)
            return RC_IO;
        from[0] = '('; /* exclusive: after the last entry */
        entry_id_text(last, from + 1);
    }
    return RC_OK;
}

enum rc
direct_errors(struct direct *direct, struct entry_id since, direct_visit *visit, void *ctx)
{
    bool continues = true;

    for (unsigned i = 0; i < direct->server_count && continues; i++) {
        direct->at = i;
        if (walk_log(direct, since, visit, ctx, &continues) != RC_OK)
            return RC_IO;
    }
    return RC_OK;
}

bool
direct_can_redrive(const struct direct *direct, const struct error_entry *entry)
{
    struct redrive redrive;

    if (entry->shard >= direct->shard_count ||
        redrive_prepare(entry, clock_wall_us(), &redrive) != RC_OK)
        return false;
    redrive_free(&redrive);
    return true;
}

/* NULL: see direct->error. */
static const char *
load_redrive(struct direct *direct)
{
    const char *argv[] = {"SCRIPT", "LOAD", store_script_redrive};
    char *hash = direct->redrive_hash[direct->at];
    const struct redisReply *reply;
    struct bytes sha;

    if (hash[0] != '\0')
        return hash;
    reply = direct_request(direct, 3, argv);
    if (reply == NULL)
        return NULL;
    sha = reply_bytes(reply);
    if (sha.len != SCRIPT_HASH_TEXT) {
        snprintf(direct->error, sizeof(direct->error), "invalid reply to SCRIPT LOAD");
        return NULL;
    }
    memcpy(hash, sha.at, SCRIPT_HASH_TEXT);
    return hash;
}

enum rc
direct_redrive(struct direct *direct, const struct error_entry *entry, const char *const *users,
               size_t count)
{
    struct arguments arguments = {.argc = 0};
    struct redrive redrive;
    char prefix[STORE_PREFIX_MAX], stream[STORE_KEY_MAX];
    const char *hash;
    enum rc rc;

    if (entry->shard >= direct->shard_count)
        return RC_BAD;
    direct_select_shard(direct, entry->shard, prefix, stream);
    hash = load_redrive(direct);
    if (hash == NULL)
        return RC_IO;
    if (redrive_prepare(entry, clock_wall_us(), &redrive) != RC_OK)
        return RC_BAD;
    argument(&arguments, "EVALSHA");
    argument(&arguments, hash);
    argument(&arguments, "1");
    redrive_arguments(&arguments, stream, prefix, direct->delivery.retention, entry, &redrive);
    for (size_t i = 0; i < count; i++)
        argument(&arguments, users[i]);
    rc = direct_queue_change(direct, true, (int)arguments.argc, arguments.argv, arguments.lens);
    arguments_free(&arguments);
    redrive_free(&redrive);
    return rc;
}

enum rc
direct_drop(struct direct *direct, struct entry_id entry)
{
    char entry_text[ENTRY_ID_TEXT_MAX];
    const char *argv[] = {"XDEL", direct->errors_key, entry_text};

    entry_id_text(entry, entry_text);
    return direct_queue_change(direct, false, 3, argv, NULL);
}

const struct direct_changes *
direct_changed(const struct direct *direct)
{
    return &direct->changes;
}
