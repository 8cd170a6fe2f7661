/*
 * command_errors.c: reads the error logs of all shards in one order, and redrives and drops their
 * entries.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "store/admin/admin_private.h"
#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"

/*
 * The page is small, because a dead letter may have a megabyte and a page of each shard is in
 * memory.
 */
#define PAGE_OF_ALL 50
#define PAGE_MIN 8
#define PAGE_LARGE_BYTES (1024u * 1024)
#define CHANGES_BYTES (8u * 1024 * 1024) /* kept until their replies arrive */
#define ATTEMPTS_MAX 3 /* attempts of a change, because each server must load the script */

/* A page of one shard's log. */
struct log_page {
    struct redisReply *rows;  /* NULL: end of the log */
    size_t at;                /* index of the current row */
    unsigned count;           /* number of rows to request */
    struct error_entry entry; /* the current row */
    char key[STORE_KEY_MAX];
    char to[ENTRY_ID_TEXT_MAX];
};

struct log_merge {
    struct command *command;
    unsigned max; /* number of rows in a page */
    struct log_page pages[STORE_SHARDS_MAX];
};

/* A redrive or a drop. */
struct command_change {
    struct command_change *next;
    struct command *command;
    unsigned shard;
    bool is_drop;
    bool needs_repeat; /* it was not sent, or the server could not execute it */
    struct kept_arguments *arguments;
};

static void
write_errors_key(const struct command *command, unsigned shard, char ret_key[STORE_KEY_MAX])
{
    key_write(ret_key, command->store->shards[shard].prefix, KEY_ERRORS);
}

long long
command_error_count(struct command *command)
{
    long long count = 0;

    for (unsigned k = 0; k < command->store->shard_count; k++) {
        char key[STORE_KEY_MAX];
        const char *argv[] = {"XLEN", key};
        struct redisReply *reply;
        bool is_known;

        if (command->is_missing[k])
            continue;
        write_errors_key(command, k, key);
        reply = command_request(command, k, 2, argv);
        is_known = reply_is_integer(reply);
        count += reply_integer(reply);
        free(reply);
        if (!is_known)
            return -1;
    }
    return count;
}

enum rc
command_complete(struct command *command, unsigned number, struct error_entry *entry)
{
    const struct shard *shard = &command->store->shards[number];
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX];
    struct redisReply *reply;
    struct error_entry completed;

    if (!error_entry_lacks_data(entry))
        return RC_OK;
    error_parts_arguments(&arguments, shard->prefix, entry->id, key);
    reply = command_request(command, number, (int)arguments.argc, arguments.argv);
    arguments_free(&arguments);
    free(command->completed);
    command->completed = reply;
    if (reply == NULL)
        return RC_IO;
    error_entry_add_parts(entry, reply);
    if (entry->data.len > 0)
        return RC_OK;
    error_entry_arguments(&arguments, shard, entry->entry, "read");
    reply = command_call(command, number,
                         &(struct command_call){STORE_SCRIPT_error_entry, (int)arguments.argc,
                                                arguments.argv, false});
    arguments_free(&arguments);
    free(command->completed);
    command->completed = reply;
    if (reply == NULL)
        return RC_IO;
    if (!reply_is_array(reply, 0))
        return command_fail(command, "invalid reply to error_entry.lua");
    if (reply_count(reply) > 0 && error_entry_read(reply_at(reply, 0), &completed) == RC_OK)
        *entry = completed;
    return RC_OK;
}

/* If the reply was lost, a repeated change is not counted: its dead letter no longer exists. */
static void
on_changed(void *ctx, enum rc rc, enum store_error_change outcome, long long users)
{
    struct command_change *change = ctx;
    struct command *command = change->command;

    command->changes_in_flight--;
    change->needs_repeat = rc == RC_AGAIN;
    if (rc == RC_OK && outcome == STORE_ERROR_CHANGED) {
        command->changed.entries++;
        command->changed.users += users;
    } else if ((rc == RC_BAD || rc == RC_IO) && command->change_error[0] == '\0') {
        snprintf(command->change_error, sizeof(command->change_error), "%s",
                 rc == RC_IO ? command->error : "invalid reply to an error log change");
    }
}

static void
send_change(struct command_change *change)
{
    struct command *command = change->command;

    command->changes_in_flight++;
    if (error_change_send(&command->store->shards[change->shard], change->arguments,
                          change->is_drop, on_changed, change) != RC_OK)
        on_changed(change, RC_AGAIN, STORE_ERROR_CHANGED, 0);
}

static void
wait_for_changes(struct command *command)
{
    while (command->changes_in_flight > 0)
        command_run(command);
}

static enum rc
repeat_change(struct command_change *change)
{
    struct command *command = change->command;
    const int64_t end_us = clock_monotonic_us() + COMMAND_RETRY_US;

    for (int i = 0; change->needs_repeat && i < ATTEMPTS_MAX; i++) {
        if (command_wait(command, change->shard, false, end_us) != RC_OK)
            return RC_IO;
        send_change(change);
        wait_for_changes(command);
    }
    return change->needs_repeat ? RC_IO : RC_OK;
}

static void
free_changes(struct command *command)
{
    while (command->changes != NULL) {
        struct command_change *change = command->changes;

        command->changes = change->next;
        free(change->arguments);
        free(change);
    }
    command->changes_bytes = 0;
    command->changes_end = &command->changes;
}

/* All replies are read before a change is repeated. */
static enum rc
finish_changes(struct command *command)
{
    enum rc rc = RC_OK;

    wait_for_changes(command);
    for (struct command_change *change = command->changes;
         change != NULL && rc == RC_OK && command->change_error[0] == '\0'; change = change->next)
        rc = repeat_change(change);
    if (command->change_error[0] != '\0')
        rc = command_fail(command, "%s", command->change_error);
    free_changes(command);
    return rc;
}

/* Owns the arguments. */
static void
add_change(struct command *command, unsigned shard, bool is_drop, struct kept_arguments *arguments)
{
    struct command_change *change = memory_new(sizeof(*change));

    *change = (struct command_change){
        .command = command, .shard = shard, .is_drop = is_drop, .arguments = arguments};
    command->changes_bytes += kept_bytes(arguments);
    *command->changes_end = change;
    command->changes_end = &change->next;
    send_change(change);
}

bool
command_can_redrive(const struct error_entry *entry)
{
    struct redrive redrive;

    if (redrive_prepare(entry, clock_wall_us(), &redrive) != RC_OK)
        return false;
    redrive_free(&redrive);
    return true;
}

enum rc
command_redrive(struct command *command, unsigned shard, const struct error_entry *entry,
                const char *const *users, size_t count)
{
    struct redrive redrive;

    if (command->changes_bytes > CHANGES_BYTES && finish_changes(command) != RC_OK)
        return RC_IO;
    if (redrive_prepare(entry, clock_wall_us(), &redrive) != RC_OK)
        return RC_BAD;
    add_change(command, shard, false,
               redrive_arguments(&command->store->shards[shard], entry, &redrive, users, count));
    redrive_free(&redrive);
    return RC_OK;
}

void
command_drop(struct command *command, unsigned number, struct entry_id entry)
{
    struct arguments arguments = {.argc = 0};

    error_entry_arguments(&arguments, &command->store->shards[number], entry, "drop");
    add_change(command, number, true,
               arguments_keep(arguments.argc, arguments.argv, arguments.lens));
    arguments_free(&arguments);
}

const struct command_changes *
command_changed(const struct command *command)
{
    return &command->changed;
}

/* A redriven notification may return to the log, so the initially newest entry is the end. */
static enum rc
find_newest(struct log_merge *merge, unsigned shard)
{
    struct log_page *page = &merge->pages[shard];
    const char *argv[] = {"XREVRANGE", page->key, "+", "-", "COUNT", "1"};
    struct redisReply *reply = command_request(merge->command, shard, 6, argv);
    struct error_entry newest = {.entry = {0, 0}};
    enum rc rc = RC_OK;

    if (reply == NULL)
        return RC_IO;
    if (!reply_is_array(reply, 0) ||
        (reply_count(reply) > 0 && error_entry_read(reply_at(reply, 0), &newest) != RC_OK))
        rc = command_fail(merge->command, "invalid entry of the error log");
    entry_id_text(newest.entry, page->to);
    free(reply);
    return rc;
}

/* Large entries are read one by one, small ones in growing pages: sizes are unknown before. */
static unsigned
next_count(struct log_page *page, unsigned max)
{
    size_t bytes = 0;

    for (size_t i = 0; i < reply_count(page->rows); i++) {
        struct error_entry entry;

        if (error_entry_read(reply_at(page->rows, i), &entry) == RC_OK)
            bytes += entry.data.len + entry.users.len;
    }
    page->count = bytes > PAGE_LARGE_BYTES ? 1 : 2 * page->count;
    if (page->count == 0 || page->count > max)
        page->count = page->count == 0 ? 1 : max;
    return page->count;
}

/* Sets the current row. */
static enum rc
read_row(struct log_merge *merge, struct log_page *page)
{
    if (error_entry_read(reply_at(page->rows, page->at), &page->entry) == RC_OK)
        return RC_OK;
    return command_fail(merge->command, "invalid entry of the error log");
}

static enum rc
read_page(struct log_merge *merge, unsigned shard, const char *from)
{
    struct log_page *page = &merge->pages[shard];
    char count[16];
    const char *argv[] = {"XRANGE", page->key, from, page->to, "COUNT", count};
    struct redisReply *rows;

    snprintf(count, sizeof(count), "%u", next_count(page, merge->max));
    rows = finish_changes(merge->command) == RC_OK ? command_request(merge->command, shard, 6, argv)
                                                   : NULL;
    free(page->rows);
    page->rows = rows;
    page->at = 0;
    if (rows == NULL)
        return RC_IO;
    if (reply_count(rows) > 0)
        return read_row(merge, page);
    free(page->rows);
    page->rows = NULL;
    return RC_OK;
}

static enum rc
advance(struct log_merge *merge, unsigned shard)
{
    struct log_page *page = &merge->pages[shard];
    char from[ENTRY_ID_TEXT_MAX + 1] = "("; /* excludes the last entry */

    if (++page->at < reply_count(page->rows))
        return read_row(merge, page);
    entry_id_text(page->entry.entry, from + 1);
    return read_page(merge, shard, from);
}

/* Returns the shard of the oldest dead letter, or the number of shards if none is left. */
static unsigned
find_oldest(const struct log_merge *merge)
{
    const unsigned count = merge->command->store->shard_count;
    unsigned oldest = count;

    for (unsigned k = 0; k < count; k++)
        if (merge->pages[k].rows != NULL &&
            (oldest == count ||
             entry_id_less(merge->pages[k].entry.entry, merge->pages[oldest].entry.entry)))
            oldest = k;
    return oldest;
}

static enum rc
walk(struct log_merge *merge, struct entry_id since, command_visit *visit, void *ctx)
{
    const unsigned count = merge->command->store->shard_count;
    char from[ENTRY_ID_TEXT_MAX];
    enum rc rc = command_reach(merge->command, true);

    entry_id_text(since, from);
    for (unsigned k = 0; k < count && rc == RC_OK; k++) {
        write_errors_key(merge->command, k, merge->pages[k].key);
        if (!merge->command->is_missing[k])
            rc = find_newest(merge, k) == RC_OK ? read_page(merge, k, from) : RC_IO;
    }
    for (unsigned k = find_oldest(merge); k < count && rc == RC_OK; k = find_oldest(merge)) {
        if (!visit(ctx, k, &merge->pages[k].entry))
            break;
        rc = advance(merge, k);
    }
    return rc == RC_OK ? finish_changes(merge->command) : RC_IO;
}

enum rc
command_errors(struct command *command, struct entry_id since, command_visit *visit, void *ctx)
{
    struct log_merge *merge = memory_new(sizeof(*merge));
    const unsigned share = PAGE_OF_ALL / command->store->shard_count;
    enum rc rc;

    merge->command = command;
    merge->max = share > PAGE_MIN ? share : PAGE_MIN;
    rc = walk(merge, since, visit, ctx);
    wait_for_changes(command); /* after an error */
    free_changes(command);
    for (unsigned k = 0; k < command->store->shard_count; k++)
        free(merge->pages[k].rows);
    free(merge);
    return rc;
}
