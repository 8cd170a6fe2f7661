/* stored_cutoffs.c: stores cut-offs in shard 0, and reads all of them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"
#include "store/store.h"

#define PAGE_COUNT "1000" /* fields of a page, about 60 kB */

struct cutoff_call {
    struct shard_request request;
    struct cutoff cutoff;
    bool is_stored;
    char *user; /* whose subscriptions are removed; NULL: nobody's */
    store_cut_off_done *stored;
    store_cutoff_read *page;
    store_acked *read;
    void *ctx;
};

void
cutoff_arguments(const struct shard *shard, const struct cutoff *cutoff,
                 struct arguments *arguments, struct cutoff_texts *texts)
{
    cutoff_write_digest(cutoff, texts->digest);
    snprintf(texts->issued, sizeof(texts->issued), "%lld", (long long)cutoff->issued_s);
    snprintf(texts->ends, sizeof(texts->ends), "%lld", (long long)cutoff->ends_s);
    shard_arguments(shard, arguments);
    argument(arguments, texts->digest);
    argument(arguments, texts->issued);
    argument(arguments, texts->ends);
}

/* The bindings of the endpoints, which other users may have taken over, expire. */
void
cutoff_unsubscribe(const struct shard *shard, const char *user, struct arguments *arguments,
                   char key[CUTOFF_KEY_MAX])
{
    key_write_of(key, CUTOFF_KEY_MAX, shard->prefix, KEY_SUBSCRIPTIONS, user);
    argument(arguments, "DEL");
    argument(arguments, key);
}

static struct cutoff_call *
call_new(struct store *store, const struct shard_request_kind *kind, void *ctx)
{
    struct cutoff_call *call = shard_request_new(sizeof(*call), store, kind);

    call->ctx = ctx;
    return call;
}

/* ---- one cut-off */

static bool
on_stored_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct cutoff_call *call = (struct cutoff_call *)request;
    char digest[CUTOFF_DIGEST_TEXT + 1], key[CUTOFF_KEY_MAX];
    struct arguments arguments = {.argc = 0};

    if (call->is_stored)
        return reply_is_integer(reply);
    cutoff_write_digest(&call->cutoff, digest);
    call->is_stored = cutoff_read((struct bytes){(unsigned char *)digest, CUTOFF_DIGEST_TEXT},
                                  reply_bytes(reply), &call->cutoff);
    if (call->is_stored && call->user != NULL) {
        shard = &request->store->shards[store_shard_of(request->store, call->user)];
        cutoff_unsubscribe(shard, call->user, &arguments, key);
        shard_request_send_command(request, shard, &arguments);
    }
    return call->is_stored;
}

static void
finish_stored(struct shard_request *request, enum rc rc)
{
    const struct cutoff_call *call = (struct cutoff_call *)request;

    call->stored(call->ctx, rc, &call->cutoff);
}

static void
release_stored(struct shard_request *request)
{
    free(((struct cutoff_call *)request)->user);
}

static const struct shard_request_kind store_kind = {.failure = "could not store a cut-off",
                                                     .on_reply = on_stored_reply,
                                                     .finish = finish_stored,
                                                     .release = release_stored};

enum rc
store_cut_off(struct store *store, const struct cutoff *cutoff, const char *user,
              store_cut_off_done *done, void *ctx)
{
    struct arguments arguments = {.argc = 0};
    struct cutoff_texts texts;
    struct cutoff_call *call;

    if (!store->is_up)
        return RC_AGAIN;
    call = call_new(store, &store_kind, ctx);
    call->cutoff = *cutoff;
    call->user = user != NULL ? memory_text(user, strlen(user)) : NULL;
    call->stored = done;
    cutoff_arguments(&store->shards[0], cutoff, &arguments, &texts);
    shard_request_send_script(&call->request, &store->shards[0], STORE_SCRIPT_cutoff, 1,
                              &arguments);
    return shard_request_sent(&call->request);
}

/* ---- all of them, in pages */

static void
send_page(struct cutoff_call *call, const char *cursor)
{
    struct shard *shard = &call->request.store->shards[0];
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX];

    key_write(key, shard->prefix, KEY_CUTOFFS);
    argument(&arguments, "HSCAN");
    argument(&arguments, key);
    argument(&arguments, cursor);
    argument(&arguments, "COUNT");
    argument(&arguments, PAGE_COUNT);
    shard_request_send_command(&call->request, shard, &arguments);
}

static bool
on_page_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct cutoff_call *call = (struct cutoff_call *)request;
    const struct redisReply *fields = reply_at(reply, 1);
    const char *cursor = reply_text(reply_at(reply, 0));
    struct cutoff cutoff;

    (void)shard;
    if (cursor == NULL || !reply_is_array(fields, 0))
        return false;
    for (size_t i = 0; i + 1 < reply_count(fields); i += 2) {
        if (cutoff_read(reply_bytes(reply_at(fields, i)), reply_bytes(reply_at(fields, i + 1)),
                        &cutoff))
            call->page(call->ctx, &cutoff);
    }
    if (strcmp(cursor, "0") != 0)
        send_page(call, cursor);
    return true;
}

static void
finish_read(struct shard_request *request, enum rc rc)
{
    const struct cutoff_call *call = (struct cutoff_call *)request;

    call->read(call->ctx, rc);
}

static const struct shard_request_kind read_kind = {
    .failure = "could not read the cut-offs", .on_reply = on_page_reply, .finish = finish_read};

enum rc
store_read_cutoffs(struct store *store, store_cutoff_read *page, store_acked *done, void *ctx)
{
    struct cutoff_call *call;

    if (!store->is_up)
        return RC_AGAIN;
    call = call_new(store, &read_kind, ctx);
    call->page = page;
    call->read = done;
    send_page(call, "0");
    return shard_request_sent(&call->request);
}
