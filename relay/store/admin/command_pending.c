/* command_pending.c: selects pending notifications in all shards, and drops their pairs. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "decoder/protocol/envelope.h"
#include "store/admin/admin_private.h"
#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"

#define GROUP_MAX 16 /* its stream entries are in memory, and may have megabytes */
#define SCAN_COUNT "200"
#define READS_MAX 3 /* attempts to read a stream entry: a retry may replace it */

/* A pending notification. */
struct candidate {
    char id[FRAME_UUID_TEXT + 1];
    char entry[ENTRY_ID_TEXT_MAX];
    long long users; /* pairs */
    bool is_read;
    struct redisReply *reply; /* of the read of its stream entry; NULL: none */
};

struct pending_walk {
    struct command *command;
    const struct command_selection *selection;
    command_visit_pending *visit;
    void *ctx;
    unsigned shard;
    char key[STORE_KEY_MAX]; /* of the shard's pending notifications */
    bool is_stopped;
    size_t count;
    struct candidate group[GROUP_MAX];
};

/* "1795230000000-0 1 bE": the stream entry and the number of pairs. */
static bool
read_value(struct candidate *candidate, const char *value)
{
    const size_t len = value != NULL ? strcspn(value, " ") : 0;

    if (len == 0 || len >= sizeof(candidate->entry))
        return false;
    memcpy(candidate->entry, value, len);
    candidate->entry[len] = '\0';
    candidate->users = strtoll(value + len, NULL, 10);
    return true;
}

/* ---- the filter */

/* Returns NULL if the document is invalid. */
static json_t *
read_metadata(struct bytes data)
{
    static const char END[] = ENVELOPE_PAYLOAD_TEXT;
    const unsigned char *start = data.len > 1 ? memchr(data.at + 1, '{', data.len - 1) : NULL;
    const unsigned char *end = data.len > 0 ? memmem(data.at, data.len, END, strlen(END)) : NULL;

    if (start == NULL || end == NULL || end < start)
        return NULL;
    return json_loadb((const char *)start, (size_t)(end - start) + 1, 0, NULL);
}

static bool
entry_matches(const struct command_selection *selection, const struct redisReply *row)
{
    json_t *metadata;
    const char *source;
    struct entry entry;
    bool matches;

    if (entry_read(row, &entry) != RC_OK ||
        (selection->rule != NULL &&
         !bytes_equal_text(entry.frame.as.notification.rule, selection->rule)))
        return false;
    metadata = read_metadata(entry.data);
    source = json_string_value(json_object_get(metadata, "source"));
    matches = source != NULL && strcmp(source, selection->source) == 0;
    json_decref(metadata);
    return matches;
}

static void
on_entry_read(void *ctx, const struct redisReply *reply)
{
    struct candidate *candidate = ctx;

    candidate->is_read = true;
    candidate->reply = reply != NULL ? reply_keep(reply) : NULL;
}

/* Without a script, which would copy the entries. */
static enum rc
read_entries(struct pending_walk *walk)
{
    struct command *command = walk->command;
    const struct shard *shard = &command->store->shards[walk->shard];

    if (command_wait(command, walk->shard, false, clock_monotonic_us() + COMMAND_RETRY_US) != RC_OK)
        return RC_IO;
    for (size_t i = 0; i < walk->count; i++) {
        struct candidate *candidate = &walk->group[i];
        const char *argv[] = {"XRANGE", shard->stream_key, candidate->entry, candidate->entry};

        candidate->reply = NULL;
        candidate->is_read =
            link_send(shard->link, on_entry_read, candidate, 4, argv, NULL) != RC_OK;
    }
    for (size_t i = 0; i < walk->count; i++) {
        while (!walk->group[i].is_read)
            command_run(command);
    }
    return RC_OK;
}

/* Sets *ret_is_pending to false if the notification is complete. */
static enum rc
read_again(struct pending_walk *walk, struct candidate *candidate, bool *ret_is_pending)
{
    struct command *command = walk->command;
    const char *get[] = {"HGET", walk->key, candidate->id};
    const char *range[] = {"XRANGE", command->store->shards[walk->shard].stream_key,
                           candidate->entry, candidate->entry};
    struct redisReply *value = command_request(command, walk->shard, 3, get);

    if (value == NULL)
        return RC_IO;
    *ret_is_pending = read_value(candidate, reply_text(value));
    free(value);
    free(candidate->reply);
    candidate->reply = NULL;
    if (!*ret_is_pending)
        return RC_OK;
    candidate->reply = command_request(command, walk->shard, 4, range);
    return candidate->reply != NULL ? RC_OK : RC_IO;
}

static enum rc
candidate_matches(struct pending_walk *walk, struct candidate *candidate, bool *ret_matches)
{
    bool is_pending = true;
    enum rc rc = RC_OK;

    for (int i = 0; i < READS_MAX && is_pending && rc == RC_OK; i++) {
        if (reply_is_array(candidate->reply, 1))
            break;
        rc = read_again(walk, candidate, &is_pending);
    }
    *ret_matches = reply_is_array(candidate->reply, 1) &&
                   entry_matches(walk->selection, reply_at(candidate->reply, 0));
    return rc;
}

/* Keeps the candidates that match. */
static enum rc
filter_group(struct pending_walk *walk)
{
    enum rc rc = read_entries(walk);
    size_t kept = 0;

    for (size_t i = 0; rc == RC_OK && i < walk->count; i++) {
        bool matches;

        rc = candidate_matches(walk, &walk->group[i], &matches);
        free(walk->group[i].reply);
        walk->group[i].reply = NULL;
        if (rc == RC_OK && matches)
            walk->group[kept++] = walk->group[i];
    }
    for (size_t i = 0; rc != RC_OK && i < walk->count; i++) {
        free(walk->group[i].reply);
        walk->group[i].reply = NULL;
    }
    walk->count = kept;
    return rc;
}

/* ---- the drop */

/* *ret_complete: the number of candidates, from `from` on, that have no pending pairs any more. */
static enum rc
count_results(struct pending_walk *walk, size_t from, const struct redisReply *reply,
              size_t *ret_complete)
{
    struct command_changes *changed = &walk->command->changed;
    const size_t results = reply_is_array(reply, 2) ? reply_count(reply) - 1 : 0;
    const bool has_more = results > 0 && reply_integer(reply_at(reply, 0)) != 0;

    if (results == 0 || results > walk->count - from)
        return command_fail(walk->command, "invalid reply to drop.lua");
    *ret_complete = results - has_more;
    for (size_t i = 0; i < results; i++) {
        const long long pairs = reply_integer(reply_at(reply, i + 1));

        changed->users += pairs > 0 ? pairs : 0;
        changed->entries += pairs >= 0 && i < *ret_complete;
    }
    return RC_OK;
}

/* One call at a time, so that others do not wait for more than one. */
static enum rc
drop_group(struct pending_walk *walk)
{
    const struct shard *shard = &walk->command->store->shards[walk->shard];
    size_t at = 0, complete = 0;
    enum rc rc = RC_OK;

    for (; at < walk->count && rc == RC_OK; at += complete) {
        struct arguments arguments = {.argc = 0};
        struct redisReply *reply;

        drop_arguments(shard, &arguments);
        for (size_t i = at; i < walk->count; i++)
            argument(&arguments, walk->group[i].id);
        reply = command_call(
            walk->command, walk->shard,
            &(struct command_call){STORE_SCRIPT_drop, (int)arguments.argc, arguments.argv, false});
        arguments_free(&arguments);
        rc = reply != NULL ? count_results(walk, at, reply, &complete) : RC_IO;
        free(reply);
    }
    return rc;
}

static enum rc
handle_group(struct pending_walk *walk)
{
    enum rc rc = walk->selection->source != NULL ? filter_group(walk) : RC_OK;

    for (size_t i = 0; rc == RC_OK && i < walk->count && !walk->is_stopped; i++)
        walk->is_stopped = !walk->visit(walk->ctx, walk->group[i].id, walk->group[i].users);
    if (rc == RC_OK && !walk->is_stopped && !walk->selection->dry_run)
        rc = drop_group(walk);
    walk->count = 0;
    return rc;
}

/* ---- candidates */

/* `id` and `value`: a field of the hash of pending notifications. */
static enum rc
add_candidate(struct pending_walk *walk, const char *id, const char *value)
{
    struct candidate *candidate = &walk->group[walk->count];

    *candidate = (struct candidate){.reply = NULL};
    if (id == NULL || !frame_uuid_parse(id, strlen(id), candidate->id) ||
        !read_value(candidate, value))
        return RC_OK;
    return ++walk->count == GROUP_MAX ? handle_group(walk) : RC_OK;
}

static enum rc
find_ids(struct pending_walk *walk)
{
    const struct command_selection *selection = walk->selection;
    enum rc rc = RC_OK;

    for (size_t from = 0; from < selection->id_count && rc == RC_OK; from += GROUP_MAX) {
        const size_t rest = selection->id_count - from;
        const size_t count = rest < GROUP_MAX ? rest : GROUP_MAX;
        const char *argv[GROUP_MAX + 2] = {"HMGET", walk->key};
        struct redisReply *values;

        memcpy(argv + 2, selection->ids + from, count * sizeof(*argv));
        values = command_request(walk->command, walk->shard, (int)count + 2, argv);
        rc = values != NULL ? RC_OK : RC_IO;
        for (size_t i = 0; i < reply_count(values) && i < count && rc == RC_OK; i++)
            rc = add_candidate(walk, argv[i + 2], reply_text(reply_at(values, i)));
        free(values);
    }
    return rc;
}

/* What is pending during the whole walk is returned; what is added meanwhile may be. */
static enum rc
scan(struct pending_walk *walk)
{
    char cursor[24] = "0";
    enum rc rc = RC_OK;

    do {
        const char *argv[] = {"HSCAN", walk->key, cursor, "COUNT", SCAN_COUNT};
        struct redisReply *page = command_request(walk->command, walk->shard, 5, argv);
        const struct redisReply *fields = reply_is_array(page, 2) ? reply_at(page, 1) : NULL;

        if (page == NULL)
            return RC_IO;
        for (size_t i = 0; i + 1 < reply_count(fields) && rc == RC_OK && !walk->is_stopped; i += 2)
            rc = add_candidate(walk, reply_text(reply_at(fields, i)),
                               reply_text(reply_at(fields, i + 1)));
        snprintf(cursor, sizeof(cursor), "%s",
                 fields != NULL ? reply_text(reply_at(page, 0)) : "0");
        free(page);
    } while (rc == RC_OK && !walk->is_stopped && strcmp(cursor, "0") != 0);
    return rc;
}

enum rc
command_drop_pending(struct command *command, const struct command_selection *selection,
                     command_visit_pending *visit, void *ctx)
{
    struct pending_walk walk = {
        .command = command, .selection = selection, .visit = visit, .ctx = ctx};
    enum rc rc = command_reach(command, true);

    for (unsigned k = 0; k < command->store->shard_count && rc == RC_OK; k++) {
        if (command->is_missing[k])
            continue;
        walk.shard = k;
        key_write(walk.key, command->store->shards[k].prefix, KEY_PENDING);
        rc = selection->source != NULL ? scan(&walk) : find_ids(&walk);
        if (rc == RC_OK && walk.count > 0)
            rc = handle_group(&walk);
    }
    return rc;
}
