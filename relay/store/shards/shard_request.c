/* shard_request.c: sends a request to one or more shards, and finishes when all have replied. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/log.h"
#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"
#include "store/shards/multi.h"

/* One shard's part of the request. */
struct shard_request_part {
    struct shard_request_part *next; /* in a shard_entry_read */
    struct shard_request *request;
    struct shard *shard;
    size_t left; /* outstanding replies */
    bool has_failed;
};

struct shard_request_copy {
    struct shard_request_copy *next;
    struct redisReply *reply;
};

/* A command in flight that reads a stream entry. */
struct shard_entry_read {
    struct shard_entry_read *prev, *next; /* in shard->entry_reads */
    struct shard *shard;
    struct shard_request_part *parts; /* of the requests that wait for it */
    char entry[ENTRY_ID_TEXT_MAX];
};

enum rc
shard_send(struct shard *shard, link_reply *reply, void *ctx, int argc, const char **argv,
           const size_t *lens)
{
    return shard->is_up ? link_send(shard->link, reply, ctx, argc, argv, lens) : RC_AGAIN;
}

enum rc
shard_call(struct shard *shard, enum store_script script, int key_count, link_reply *reply,
           void *ctx, int argc, const char **argv, const size_t *lens)
{
    return shard->is_up ? link_call(shard->link, script, key_count, reply, ctx, argc, argv, lens)
                        : RC_AGAIN;
}

void
shard_arguments(const struct shard *shard, struct arguments *arguments)
{
    argument(arguments, shard->stream_key);
    argument(arguments, shard->prefix);
}

void *
shard_request_new(size_t size, struct store *store, const struct shard_request_kind *kind)
{
    struct shard_request *request = memory_new(size);

    request->kind = kind;
    request->store = store;
    return request;
}

static void
shard_request_free(struct shard_request *request)
{
    while (request->copies != NULL) {
        struct shard_request_copy *copy = request->copies;

        request->copies = copy->next;
        free(copy->reply);
        free(copy);
    }
    if (request->kind->release != NULL)
        request->kind->release(request);
    free(request);
}

static struct shard_request_part *
part_new(struct shard_request *request, struct shard *shard, size_t commands)
{
    struct shard_request_part *part = memory_new(sizeof(*part));

    *part = (struct shard_request_part){.request = request, .shard = shard, .left = commands};
    return part;
}

static void
part_sent(struct shard_request_part *part, enum rc rc)
{
    if (rc == RC_OK) {
        part->request->left++;
        return;
    }
    part->request->has_failed = true;
    free(part);
}

static bool
handle_reply(const struct shard_request_part *part, const struct redisReply *reply)
{
    struct shard_request *request = part->request;

    if (part->has_failed)
        return false;
    if (shard_check_reply(part->shard, reply, request->kind->failure)) {
        if (request->kind->on_reply != NULL)
            return request->kind->on_reply(request, part->shard, reply);
        request->reply = request->left == 1 ? reply : NULL;
        return request->kind->is_valid == NULL || request->kind->is_valid(reply);
    }
    if (reply == NULL)
        request->is_disconnected = true;
    else if (request->kind->on_error != NULL)
        request->kind->on_error(request, reply);
    return false;
}

void
shard_request_hold(struct shard_request *request)
{
    request->left++;
}

void
shard_request_release(struct shard_request *request)
{
    const enum rc rc = request->has_failed ? RC_IO : RC_OK;

    if (--request->left > 0)
        return;
    if (request->kind->finish != NULL)
        request->kind->finish(request, rc);
    else if (request->acked != NULL)
        request->acked(request->ctx, rc);
    else if (request->read != NULL)
        request->read(request->ctx, rc, reply_bytes(request->reply));
    shard_request_free(request);
}

static void
on_reply(void *ctx, const struct redisReply *reply)
{
    struct shard_request_part *part = ctx;
    struct shard_request *request = part->request;

    if (!handle_reply(part, reply))
        request->has_failed = true;
    free(part);
    shard_request_release(request);
}

/* Only the first error is logged: later replies fail because of it. */
static void
on_one_of_several(void *ctx, const struct redisReply *reply)
{
    struct shard_request_part *part = ctx;

    if (--part->left == 0) {
        on_reply(part, reply);
    } else if (!part->has_failed && (reply == NULL || reply_is_error(reply))) {
        part->has_failed = true;
        (void)shard_check_reply(part->shard, reply, part->request->kind->failure);
    }
}

void
shard_request_send_script_argv(struct shard_request *request, struct shard *shard,
                               enum store_script script, int keys, size_t argc, const char **argv,
                               const size_t *lens)
{
    struct shard_request_part *part = part_new(request, shard, 1);

    part_sent(part, shard_call(shard, script, keys, on_reply, part, (int)argc, argv, lens));
}

void
shard_request_send_script(struct shard_request *request, struct shard *shard,
                          enum store_script script, int keys, struct arguments *arguments)
{
    shard_request_send_script_argv(request, shard, script, keys, arguments->argc, arguments->argv,
                                   arguments->lens);
    arguments_free(arguments);
}

void
shard_request_send_command(struct shard_request *request, struct shard *shard,
                           struct arguments *arguments)
{
    struct shard_request_part *part = part_new(request, shard, 1);

    part_sent(part, shard_send(shard, on_reply, part, (int)arguments->argc, arguments->argv,
                               arguments->lens));
    arguments_free(arguments);
}

void
shard_request_send_commands(struct shard_request *request, struct shard *shard, enum time_of time,
                            char *bytes, size_t len, size_t count)
{
    struct shard_request_part *part = part_new(request, shard, count);
    enum rc rc = RC_AGAIN;

    if (shard->is_up)
        rc = link_send_ready(shard->link, time, on_one_of_several, part, bytes, len, count);
    else
        free(bytes);
    part_sent(part, rc);
}

void
shard_request_send_multi(struct shard_request *request, struct shard *shard,
                         enum store_script script, struct multi *multi)
{
    struct shard_request_part *part = part_new(request, shard, 1);

    part_sent(part, multi_send(multi, shard, script, on_reply, part));
}

/* A request that reads the entry again sends a new command. */
static void
on_entry(void *ctx, const struct redisReply *reply)
{
    struct shard_entry_read *read = ctx;
    struct shard_request_part *part;

    DL_DELETE(read->shard->entry_reads, read);
    while ((part = read->parts) != NULL) {
        LL_DELETE(read->parts, part);
        on_reply(part, reply);
    }
    free(read);
}

void
shard_request_read_entry(struct shard_request *request, struct shard *shard, const char *entry)
{
    struct shard_request_part *part = part_new(request, shard, 1);
    struct shard_entry_read *read;
    enum rc rc = RC_OK;

    DL_FOREACH (shard->entry_reads, read)
        if (strcmp(read->entry, entry) == 0)
            break;
    if (read == NULL) {
        const char *argv[] = {"XRANGE", shard->stream_key, entry, entry};

        read = memory_new(sizeof(*read));
        read->shard = shard;
        snprintf(read->entry, sizeof(read->entry), "%s", entry);
        rc = shard_send(shard, on_entry, read, 4, argv, NULL);
        if (rc == RC_OK)
            DL_APPEND(shard->entry_reads, read);
        else
            free(read);
    }
    if (rc == RC_OK)
        LL_APPEND(read->parts, part);
    part_sent(part, rc);
}

enum rc
shard_request_sent(struct shard_request *request)
{
    if (request->left > 0)
        return RC_OK;
    shard_request_free(request);
    return RC_AGAIN;
}

enum rc
shard_request_set(const struct shard_request_kind *kind, struct shard *shard, const char *key,
                  struct bytes value, int64_t lifetime_ms, store_acked *done, void *ctx)
{
    struct shard_request *request = shard_request_new(sizeof(*request), shard->store, kind);
    struct arguments arguments = {.argc = 0};

    request->acked = done;
    request->ctx = ctx;
    argument(&arguments, "SET");
    argument(&arguments, key);
    argument_bytes(&arguments, value.at, value.len);
    argument(&arguments, "PX");
    argument_number(&arguments, lifetime_ms);
    shard_request_send_command(request, shard, &arguments);
    return shard_request_sent(request);
}

const struct redisReply *
shard_request_keep_reply(struct shard_request *request, const struct redisReply *reply)
{
    struct shard_request_copy *copy;

    if (request->left == 1)
        return reply;
    copy = memory_new(sizeof(*copy));
    *copy = (struct shard_request_copy){request->copies, reply_keep(reply)};
    request->copies = copy;
    return copy->reply;
}

void
shard_renew_epochs(struct shard *shard)
{
    const struct store *store = shard->store;
    const struct topology *topology = &store->topology;

    for (unsigned k = topology_connection_of(topology, shard->number); k < store->shard_count;
         k = topology_next_shard(topology, k)) {
        struct shard *other = &store->shards[k];

        other->is_check_due = true;
        if (other->is_up || other == shard)
            link_restart(other->link, "store epoch changed");
    }
}

bool
shard_check_reply(struct shard *shard, const struct redisReply *reply, const char *failure)
{
    struct store *store = shard->store;
    const struct fault *fault;

    if (!reply_is_error(reply))
        return reply != NULL;
    if (link_is_redirected(shard->link, reply_text(reply))) {
        link_restart(shard->link, reply_text(reply));
        return false;
    }
    if (strncmp(reply_text(reply), "FENCED", 6) == 0) {
        /* Such a rejection is expected after another relay has acquired the slot. */
        log_warn(shard->name, failure, LOG_TEXT("error", reply_text(reply)));
        return false;
    }
    if (store->command != NULL) {
        if (strncmp(reply_text(reply), "NOSCRIPT", 8) == 0)
            link_restart(shard->link, NULL); /* loads the scripts; the command is repeated */
        else
            shard->events->on_failed(shard, "the store rejected the command", reply_text(reply));
        return false;
    }
    stats_add(store->stats, STAT_STORE_ERRORS, 1);
    fault = fault_report(&store->faults, failure, reply_text(reply));
    if (fault != NULL && fault->is_of_server)
        link_restart(shard->link, reply_text(reply));
    else if (strncmp(reply_text(reply), "NOSCRIPT", 8) == 0)
        link_restart(shard->link, "scripts were flushed");
    else if (strncmp(reply_text(reply), "EPOCH", 5) == 0 ||
             /* KeyDB writes the error code after the script's name */
             strstr(reply_text(reply), "NOGROUP ") != NULL)
        shard_renew_epochs(shard); /* hello.lua repairs the store, or reports why it cannot */
    return false;
}

void
staging_send(const struct staging *staging, struct shard_request *request, struct shard *shard)
{
    struct arguments arguments = {.argc = 0};

    shard_arguments(shard, &arguments);
    argument(&arguments, shard->epoch);
    argument(&arguments, staging->progress);
    argument(&arguments, staging->owner);
    argument(&arguments, staging->id);
    argument_number(&arguments, staging->target);
    argument(&arguments, staging->cursor);
    argument(&arguments, staging->purpose);
    argument(&arguments, staging->audience);
    for (size_t i = 0; i < staging->target_count; i++)
        argument_bytes(&arguments, staging->targets[i], staging->target_lens[i]);
    shard_request_send_script(request, shard, STORE_SCRIPT_stage, 1, &arguments);
}

enum rc
staging_read(struct staging *staging, const struct redisReply *reply)
{
    const struct bytes cursor = reply_bytes(reply_at(reply, 1));

    if (!reply_is_array(reply, 2) || cursor.at == NULL || cursor.len >= STAGING_CURSOR_MAX)
        return RC_BAD;
    staging->target = reply_integer(reply_at(reply, 0));
    snprintf(staging->cursor, sizeof(staging->cursor), "%.*s", (int)cursor.len,
             (const char *)cursor.at);
    return staging->target == 0 ? RC_OK : RC_AGAIN;
}
