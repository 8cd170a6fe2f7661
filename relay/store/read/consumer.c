/* consumer.c: reads receipts as a consumer of a sink's group, and acknowledges them. */
#include "store/receipts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/read/packed_receipts.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"

struct receipts_request {
    struct shard_request request;
    store_receipts_paged *done;
    store_receipts_rewound *rewound;
    bool has_entry; /* the stream entry of the notification was requested */
};

static struct receipts_request *
request_new(struct store *store, const struct shard_request_kind *kind, void *ctx)
{
    struct receipts_request *own = shard_request_new(sizeof(*own), store, kind);

    own->request.ctx = ctx;
    return own;
}

/* ---- reading */

static bool
is_page(const struct redisReply *reply)
{
    return reply_is_array(reply, 9) && reply_text(reply_at(reply, 0)) != NULL &&
           reply_text(reply_at(reply, 1)) != NULL && reply_text(reply_at(reply, 4)) != NULL &&
           reply_count(reply_at(reply, 7)) % 2 == 0;
}

static void
finish_read(struct shard_request *request, enum rc rc)
{
    const struct receipts_request *own = (const struct receipts_request *)request;
    const struct redisReply *reply = request->reply;
    const struct redisReply *rows;
    struct store_receipts receipts = {0};
    struct unpacked_receipts unpacked = {0};
    struct store_receipt *items;

    if (rc != RC_OK) {
        own->done(request->ctx, rc, NULL);
        return;
    }
    rows = reply_at(reply, 7);
    receipts.entries = reply_count(rows) / 2;
    for (size_t i = 0; i < receipts.entries; i++)
        unpacked_receipts_add(&unpacked, reply_bytes(reply_at(rows, 2 * i)),
                              reply_at(rows, 2 * i + 1));
    receipts.count = unpacked.count;
    items = memory_new((receipts.count + 1) * sizeof(*items));
    unpacked_receipts_read(&unpacked, items);
    receipts.items = items;
    snprintf(receipts.generation, sizeof(receipts.generation), "%s",
             reply_text(reply_at(reply, 0)));
    snprintf(receipts.more, sizeof(receipts.more), "%s", reply_text(reply_at(reply, 1)));
    receipts.has_claimed = reply_integer(reply_at(reply, 2)) != 0;
    receipts.dropped = (uint64_t)reply_integer(reply_at(reply, 3));
    if (reply_id(reply_at(reply, 4), &receipts.first) != RC_OK)
        receipts.first = (struct entry_id){0, 0};
    receipts.backlog = reply_integer(reply_at(reply, 5));
    receipts.is_off = reply_integer(reply_at(reply, 8)) != 0;
    receipts.oldest_us = reply_integer(reply_at(reply, 6)) * 1000;
    own->done(request->ctx, RC_OK, &receipts);
    free(items);
    unpacked_receipts_free(&unpacked);
}

static const struct shard_request_kind read_kind = {
    .failure = "could not read receipts", .is_valid = is_page, .finish = finish_read};

enum rc
store_receipts_read(struct store *store, const struct store_receipts_wanted *wanted,
                    store_receipts_paged *done, void *ctx)
{
    struct shard *shard = &store->shards[wanted->shard];
    struct receipts_request *own = request_new(store, &read_kind, ctx);
    struct arguments arguments = {.argc = 0};

    own->done = done;
    shard_arguments(shard, &arguments);
    argument(&arguments, wanted->group);
    argument(&arguments, store->relay_id);
    argument_number(&arguments, (int64_t)wanted->max_entries);
    argument(&arguments, wanted->after);
    argument(&arguments, !wanted->is_periodic ? "0" : wanted->is_consumer ? "1" : "2");
    argument(&arguments, wanted->may_count ? "1" : "0");
    shard_request_send_script(&own->request, shard, STORE_SCRIPT_receipts_read, 1, &arguments);
    return shard_request_sent(&own->request);
}

/* ---- acknowledgements, and going back */

static void
finish_acked(struct shard_request *request, enum rc rc)
{
    request->acked(request->ctx,
                   rc == RC_OK && reply_integer(request->reply) == 0 ? RC_CLOSED : rc);
}

static const struct shard_request_kind ack_kind = {.failure = "could not acknowledge receipts",
                                                   .is_valid = reply_is_integer,
                                                   .finish = finish_acked};

enum rc
store_receipts_ack(struct store *store, unsigned number, const char *group, const char *generation,
                   const char *position, const char *const *entries, size_t count,
                   store_acked *done, void *ctx)
{
    struct shard *shard = &store->shards[number];
    struct receipts_request *own = request_new(store, &ack_kind, ctx);
    struct arguments arguments = {.argc = 0};

    own->request.acked = done;
    shard_arguments(shard, &arguments);
    argument(&arguments, group);
    argument(&arguments, generation);
    argument(&arguments, position);
    for (size_t i = 0; i < count; i++)
        argument(&arguments, entries[i]);
    shard_request_send_script(&own->request, shard, STORE_SCRIPT_receipts_ack, 1, &arguments);
    return shard_request_sent(&own->request);
}

static void
finish_rewound(struct shard_request *request, enum rc rc)
{
    const struct receipts_request *own = (const struct receipts_request *)request;

    own->rewound(request->ctx, rc, reply_integer(request->reply) == 1);
}

static const struct shard_request_kind rewind_kind = {
    .failure = "could not compare the position of a sink",
    .is_valid = reply_is_integer,
    .finish = finish_rewound};

enum rc
store_receipts_rewind(struct store *store, unsigned number, const char *group, const char *position,
                      int64_t back_ms, store_receipts_rewound *done, void *ctx)
{
    struct shard *shard = &store->shards[number];
    struct receipts_request *own = request_new(store, &rewind_kind, ctx);
    struct arguments arguments = {.argc = 0};

    own->rewound = done;
    shard_arguments(shard, &arguments);
    argument(&arguments, group);
    argument(&arguments, position);
    argument_number(&arguments, back_ms);
    shard_request_send_script(&own->request, shard, STORE_SCRIPT_receipts_rewind, 1, &arguments);
    return shard_request_sent(&own->request);
}

/* ---- switching a sink on and off */

static const struct shard_request_kind switch_kind = {.failure = "could not switch a sink",
                                                      .is_valid = reply_is_integer};

enum rc
store_receipts_switch(struct store *store, unsigned number, const char *group, bool on,
                      store_acked *done, void *ctx)
{
    struct shard *shard = &store->shards[number];
    struct receipts_request *own = request_new(store, &switch_kind, ctx);
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX], field[64];

    own->request.acked = done;
    key_write(key, shard->prefix, KEY_SINKS);
    snprintf(field, sizeof(field), "off:%s", group);
    argument(&arguments, on ? "HDEL" : "HSET");
    argument(&arguments, key);
    argument(&arguments, field);
    if (!on)
        argument(&arguments, "1");
    shard_request_send_command(&own->request, shard, &arguments);
    return shard_request_sent(&own->request);
}

/* ---- the notification of an escalation */

/* First the value in `pending`, which begins with the stream entry; then that entry. */
static bool
on_notification(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct receipts_request *own = (struct receipts_request *)request;
    char entry[ENTRY_ID_TEXT_MAX];

    if (own->has_entry) {
        request->reply = shard_request_keep_reply(request, reply);
        return true;
    }
    if (reply_text(reply) == NULL)
        return true; /* it has ended meanwhile */
    snprintf(entry, sizeof(entry), "%.*s", (int)strcspn(reply_text(reply), " "), reply_text(reply));
    own->has_entry = true;
    shard_request_read_entry(request, shard, entry);
    return true;
}

static void
finish_notification(struct shard_request *request, enum rc rc)
{
    const struct redisReply *entry = request->reply != NULL ? reply_at(request->reply, 0) : NULL;
    const struct redisReply *fields = entry != NULL ? reply_at(entry, 1) : NULL;
    const struct bytes none = {NULL, 0};

    request->read(request->ctx, rc,
                  rc == RC_OK && fields != NULL ? reply_field(fields, "data") : none);
}

static const struct shard_request_kind notification_kind = {
    .failure = "could not read the notification of a receipt",
    .on_reply = on_notification,
    .finish = finish_notification};

enum rc
store_receipts_read_notification(struct store *store, unsigned number, const char *id,
                                 store_bytes_read *done, void *ctx)
{
    struct shard *shard = &store->shards[number];
    struct receipts_request *own = request_new(store, &notification_kind, ctx);
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX];

    own->request.read = done;
    key_write(key, shard->prefix, KEY_PENDING);
    argument(&arguments, "HGET");
    argument(&arguments, key);
    argument(&arguments, id);
    shard_request_send_command(&own->request, shard, &arguments);
    return shard_request_sent(&own->request);
}
