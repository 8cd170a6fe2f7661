/* pages.c: what the store holds of the stream, of a user's inbox and memberships. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/call.h"
#include "store/reply.h"

#define STORE_PAGE_MAX 1024

/* An entry that is not ours still moves the reader on. */
static void
see_id(const redisReply *element, struct store_page *page)
{
    struct bytes id = {NULL, 0};
    struct entry_id read;

    if (reply_is_array(element, 1))
        id = reply_bytes(element->element[0]);
    if (id.at != NULL && entry_id_read((const char *)id.at, id.len, &read) == RC_OK)
        page->last.shared = read;
    if (page->first.shared.ms == 0)
        page->first = page->last;
}

static void
give_page(struct call *call, const redisReply *reply, enum store_range_state state,
          const char *next)
{
    struct store_page page = {.state = state, .next = next, .seen = reply->elements};
    struct entry *entries = memory_new((reply->elements + 1) * sizeof(*entries));

    for (size_t i = 0; i < reply->elements; i++) {
        see_id(reply->element[i], &page);
        if (reply_entry(reply->element[i], &entries[page.count]) == RC_OK)
            page.count++;
        else
            stats_add(call->store->stats, STAT_STORE_ERRORS, 1);
    }
    page.entries = entries;
    call->done.paged(call->ctx, RC_OK, &page);
    free(entries);
}

static void
on_range(void *ctx, const redisReply *reply)
{
    struct call *call = ctx;

    if (call_succeeded(call->shard, reply, "read the stream") && reply_is_array(reply, 2) &&
        reply_is_array(reply->element[1], 0))
        give_page(call, reply->element[1], (enum store_range_state)reply->element[0]->integer, "");
    else
        call->done.paged(call->ctx, RC_IO, NULL);
    free(call);
}

static void
on_inbox(void *ctx, const redisReply *reply)
{
    struct call *call = ctx;

    if (call_succeeded(call->shard, reply, "read what waits for a user") &&
        reply_is_array(reply, 2) && reply->element[0]->str != NULL &&
        reply_is_array(reply->element[1], 0))
        give_page(call, reply->element[1], STORE_RANGE_WHOLE, reply->element[0]->str);
    else
        call->done.paged(call->ctx, RC_IO, NULL);
    free(call);
}

static enum rc
ask_page(struct store *store, enum store_script script, link_reply *reply, const char *user,
         const char *after, size_t max, const char *which, store_paged *done, void *ctx)
{
    struct shard *shard = &store->shards[0];
    struct call *call;
    struct arguments arguments = {.argc = 0};
    char count[24];

    if (!store->is_up)
        return RC_AGAIN;
    call = call_new(shard, ctx);
    call->done.paged = done;
    snprintf(count, sizeof(count), "%zu", max < STORE_PAGE_MAX ? max : STORE_PAGE_MAX);
    argument(&arguments, shard->stream_key);
    argument(&arguments, shard->prefix);
    if (user != NULL)
        argument(&arguments, user);
    argument(&arguments, after);
    argument(&arguments, count);
    if (which != NULL)
        argument(&arguments, which);
    return call_send(call, script, 1, reply, &arguments);
}

enum rc
store_range(struct store *store, unsigned own_shard, struct place after, size_t max,
            store_paged *done, void *ctx)
{
    char text[ENTRY_ID_TEXT_MAX];

    (void)own_shard;
    entry_id_text(after.shared, text);
    return ask_page(store, STORE_SCRIPT_range, on_range, NULL, text, max, NULL, done, ctx);
}

enum rc
store_inbox(struct store *store, const char *user, const char *after, size_t max, bool only_unshown,
            store_paged *done, void *ctx)
{
    return ask_page(store, STORE_SCRIPT_inbox, on_inbox, user, after, max,
                    only_unshown ? "unshown" : "all", done, ctx);
}

static void
on_groups(void *ctx, const redisReply *reply)
{
    struct call *call = ctx;
    struct bytes *groups;

    if (!call_succeeded(call->shard, reply, "read a user's memberships") ||
        !reply_is_array(reply, 0)) {
        call->done.grouped(call->ctx, RC_IO, NULL, 0);
        free(call);
        return;
    }
    groups = memory_new((reply->elements + 1) * sizeof(*groups));
    for (size_t i = 0; i < reply->elements; i++)
        groups[i] = reply_bytes(reply->element[i]);
    call->done.grouped(call->ctx, RC_OK, groups, reply->elements);
    free(groups);
    free(call);
}

enum rc
store_groups(struct store *store, const char *user, store_grouped *done, void *ctx)
{
    struct shard *shard = &store->shards[0];
    struct call *call;
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX + 256];
    enum rc rc;

    if (!store->is_up)
        return RC_AGAIN;
    call = call_new(shard, ctx);
    call->done.grouped = done;
    snprintf(key, sizeof(key), "%s:groups:%s", shard->prefix, user);
    argument(&arguments, "SMEMBERS");
    argument(&arguments, key);
    rc = link_send(shard->link, on_groups, call, arguments.argc, arguments.argv, arguments.lens);
    if (rc != RC_OK)
        free(call);
    return rc;
}
