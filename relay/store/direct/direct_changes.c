/* direct_changes.c: queues redrives and drops of dead letters, and reads their replies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "store/admin/redrive.h"
#include "store/connection/reply.h"
#include "store/direct/direct_private.h"
#include "store/scripts/scripts.h"

#define ATTEMPTS_MAX 3 /* attempts of a redrive, because each server must load the script */

struct direct_change {
    struct direct_change *next;
    unsigned shard;
    bool is_redrive;
    bool needs_repeat; /* the command was not sent, or the server could not execute it */
    struct node_command command;
};

void
direct_free_queue(struct direct *direct)
{
    while (direct->queue != NULL) {
        struct direct_change *change = direct->queue;

        direct->queue = change->next;
        node_command_free(&change->command);
        free(change);
    }
    direct->queue_end = &direct->queue;
}

static enum rc
count_change(struct direct *direct, const struct direct_change *change,
             const struct redisReply *reply)
{
    struct direct_changes *changes = &direct->changes;

    if (!reply_is_integer(reply))
        return direct_fail(direct, "invalid reply to an error log change");
    changes->is_redrive = change->is_redrive;
    if (reply_integer(reply) < 0)
        return RC_OK;
    changes->entries += reply_integer(reply) > 0 || change->is_redrive;
    changes->users += change->is_redrive ? reply_integer(reply) : 0;
    return RC_OK;
}

static enum rc
read_change(struct direct *direct, struct direct_change *change)
{
    struct direct_connection *connection = direct_connection(direct, change->shard);
    const struct redisReply *reply = node_read(connection->node);

    if (reply != NULL)
        return count_change(direct, change, reply);
    if (node_lacks_script(connection->node))
        connection->has_redrive = false;
    else if (!direct_may_retry(direct, connection->node))
        return direct_fail(direct, node_error(connection->node));
    change->needs_repeat = true;
    return RC_OK;
}

/* If the reply to a change was lost, it is not counted: its dead letter no longer exists. */
static enum rc
repeat_change(struct direct *direct, const struct direct_change *change)
{
    struct direct_connection *connection = direct_connection(direct, change->shard);

    for (int i = 0; i < ATTEMPTS_MAX; i++) {
        const struct redisReply *reply;

        if (change->is_redrive && direct_load_redrive(direct, change->shard) != RC_OK)
            return RC_IO;
        reply = direct_run(direct, change->shard, &change->command);
        if (reply != NULL)
            return count_change(direct, change, reply);
        if (connection->node == NULL || !node_lacks_script(connection->node))
            return RC_IO;
        connection->has_redrive = false;
    }
    return RC_IO;
}

/*
 * All replies are read before a change is repeated, because a repeat may close a connection.
 * Reading continues after an error reply, so that replies stay in step with commands.
 */
enum rc
direct_read_changes(struct direct *direct)
{
    char error[DIRECT_ERROR_MAX];
    enum rc rc = RC_OK;

    for (struct direct_change *change = direct->queue; change != NULL; change = change->next) {
        if (change->needs_repeat || read_change(direct, change) == RC_OK)
            continue;
        if (rc == RC_OK)
            memcpy(error, direct->error, sizeof(error));
        rc = RC_IO;
    }
    if (rc != RC_OK)
        memcpy(direct->error, error, sizeof(error));
    for (struct direct_change *change = direct->queue; change != NULL && rc == RC_OK;
         change = change->next)
        if (change->needs_repeat)
            rc = repeat_change(direct, change);
    direct_free_queue(direct);
    return rc;
}

void
direct_queue_change(struct direct *direct, unsigned shard, bool is_redrive,
                    struct node_command command)
{
    struct direct_change *change = memory_new(sizeof(*change));

    change->shard = shard;
    change->is_redrive = is_redrive;
    change->command = command;
    if (direct_connect(direct, shard) == RC_OK)
        node_send(direct_connection(direct, shard)->node, &change->command);
    else
        change->needs_repeat = true;
    *direct->queue_end = change;
    direct->queue_end = &change->next;
}

enum rc
direct_load_redrive(struct direct *direct, unsigned shard)
{
    const char *argv[] = {"SCRIPT", "LOAD", store_script_redrive};
    struct node_command command;
    struct bytes hash;

    if (direct_connection(direct, shard)->has_redrive)
        return RC_OK;
    command = node_command_new(3, argv, NULL);
    hash = reply_bytes(direct_run(direct, shard, &command));
    node_command_free(&command);
    if (hash.len != SCRIPT_HASH_TEXT)
        return hash.at != NULL ? direct_fail(direct, "invalid reply to SCRIPT LOAD") : RC_IO;
    memcpy(direct->redrive_hash, hash.at, SCRIPT_HASH_TEXT);
    direct_connection(direct, shard)->has_redrive = true;
    return RC_OK;
}

/* Replies in flight must be read before the script is loaded. */
static enum rc
prepare_redrive(struct direct *direct, unsigned shard)
{
    if (direct_connection(direct, shard)->has_redrive)
        return RC_OK;
    return direct_read_changes(direct) == RC_OK ? direct_load_redrive(direct, shard) : RC_IO;
}

bool
direct_can_redrive(const struct error_entry *entry)
{
    struct redrive redrive;

    if (redrive_prepare(entry, clock_wall_us(), &redrive) != RC_OK)
        return false;
    redrive_free(&redrive);
    return true;
}

enum rc
direct_redrive(struct direct *direct, unsigned shard, const struct error_entry *entry,
               const char *const *users, size_t count)
{
    const struct direct_shard *keys = &direct->shards[shard];
    struct arguments arguments = {.argc = 0};
    struct redrive redrive;

    if (prepare_redrive(direct, shard) != RC_OK)
        return RC_IO;
    if (redrive_prepare(entry, clock_wall_us(), &redrive) != RC_OK)
        return RC_BAD;
    argument(&arguments, "EVALSHA");
    argument(&arguments, direct->redrive_hash);
    argument(&arguments, "2");
    argument(&arguments, keys->stream);
    argument(&arguments, keys->none);
    redrive_arguments(&arguments, keys->prefix, direct->delivery.retention, entry, &redrive);
    for (size_t i = 0; i < count; i++)
        argument(&arguments, users[i]);
    direct_queue_change(direct, shard, true,
                        node_command_new((int)arguments.argc, arguments.argv, arguments.lens));
    arguments_free(&arguments);
    redrive_free(&redrive);
    return RC_OK;
}

void
direct_drop(struct direct *direct, unsigned shard, struct entry_id entry)
{
    const struct direct_shard *keys = &direct->shards[shard];
    char entry_text[ENTRY_ID_TEXT_MAX];
    const char *argv[] = {
        "EVAL", store_script_error_entry, "2", keys->stream, keys->none, keys->prefix, entry_text,
        "drop"};

    entry_id_text(entry, entry_text);
    direct_queue_change(direct, shard, false, node_command_new(8, argv, NULL));
}

const struct direct_changes *
direct_changed(const struct direct *direct)
{
    return &direct->changes;
}
