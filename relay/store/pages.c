/* pages.c: what the store holds of a user's inbox and memberships. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/call.h"
#include "store/merge.h"

#define PAGE_MAX 1024
#define INBOX_PLACE_MAX 40
#define INBOX_START "0"
#define IN_OWN "+" /* before a place in the inbox of the user's own shard */

static void
give_inbox(struct call *call, const redisReply *entries, const char *next)
{
    struct entry *all = memory_new((entries->elements + 1) * sizeof(*all));
    struct store_page page = {.entries = all, .next = next, .seen = entries->elements};
    struct strand strand, *at;

    strand_begin(&strand, call->shard->number, (struct entry_id){0, 0}, STRAND_WHOLE, entries,
                 false);
    while ((at = strands_next(&strand, 1)) != NULL) {
        all[page.count++] = at->entry;
        strand_take(at);
    }
    stats_add(call->store->stats, STAT_STORE_ERRORS, strand.strays);
    call->done.paged(call->ctx, RC_OK, &page);
    free(all);
}

/* After a page that ended at `place`; the user's own inbox comes after the shared one. */
static void
next_page(const struct call *call, const char *place, char ret_next[INBOX_PLACE_MAX])
{
    const bool is_own = call->shard->number > 0;

    if (place[0] != '\0')
        snprintf(ret_next, INBOX_PLACE_MAX, "%s%s", is_own ? IN_OWN : "", place);
    else
        snprintf(ret_next, INBOX_PLACE_MAX, "%s",
                 call->own_shard > 0 && !is_own ? IN_OWN INBOX_START : "");
}

static void
on_inbox(void *ctx, const redisReply *reply)
{
    struct call *call = ctx;
    char next[INBOX_PLACE_MAX];

    if (call_succeeded(call->shard, reply, "read what waits for a user") &&
        reply_is_array(reply, 2) && reply->element[0]->str != NULL &&
        reply_is_array(reply->element[1], 0)) {
        next_page(call, reply->element[0]->str, next);
        give_inbox(call, reply->element[1], next);
    } else {
        call->done.paged(call->ctx, RC_IO, NULL);
    }
    free(call);
}

enum rc
store_inbox(struct store *store, const char *user, const char *after, size_t max, bool only_unshown,
            store_paged *done, void *ctx)
{
    const bool is_own = strncmp(after, IN_OWN, 1) == 0;
    const unsigned own_shard = store_shard_of(store, user);
    struct shard *shard = &store->shards[is_own ? own_shard : 0];
    struct call *call;
    struct arguments arguments = {.argc = 0};
    char count[24];

    if (!store->is_up)
        return RC_AGAIN;
    call = call_new(shard, ctx);
    call->own_shard = own_shard;
    call->done.paged = done;
    snprintf(count, sizeof(count), "%zu", max < PAGE_MAX ? max : PAGE_MAX);
    argument(&arguments, shard->stream_key);
    argument(&arguments, shard->prefix);
    argument(&arguments, user);
    argument(&arguments, is_own ? after + 1 : after);
    argument(&arguments, count);
    argument(&arguments, only_unshown ? "unshown" : "all");
    return call_send(call, STORE_SCRIPT_inbox, 1, on_inbox, &arguments);
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
