/* progress.c: acquires a slot's progress in all shards, and rewinds it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/ingest/ingest.h"
#include "store/shards/shard.h"
#include "store/shards/store_private.h"

/* After a crash one shard may be ahead of another. The feed sends the missing frames again. */
struct acquire {
    struct shard_request request;
    store_acquired *done;
    void *ctx;
    const char *slot; /* owned by the caller; outlives the store */
    struct origin origin;
    uint32_t our_timeline;
    unsigned first;   /* the shard that is acquired first */
    bool is_rejected; /* the store belongs to another database or slot */
    bool has_reply;
    char position[FRAME_POSITION_TEXT + 1];
    char furthest[FRAME_POSITION_TEXT + 1];
    uint64_t read_lsn;
    uint32_t timeline;
};

static struct bytes
newest_route(const struct redisReply *reply)
{
    return reply_is_array(reply, 4) ? reply_bytes(reply_at(reply, 3)) : (struct bytes){NULL, 0};
}

/*
 * Returns the newest notification's position, or (0, 0) if it is beyond the progress. For several
 * shards.
 */
static struct position
newest_of_reply(const struct shard *shard, const struct redisReply *reply)
{
    const struct bytes route = newest_route(reply);
    struct frame frame;

    if (route.len == 0 || frame_parse_header(route, &frame) != RC_OK ||
        frame.commit_lsn > shard->acquired_lsn)
        return (struct position){0, 0};
    return (struct position){frame.commit_lsn, frame.ordinal};
}

/* Keeps the lowest progress. An emptied shard has no read LSN (0) and is ignored. */
static void
merge_progress(struct acquire *acquire, struct shard *shard, const struct redisReply *reply)
{
    const char *position = reply_text(reply_at(reply, 0));
    uint32_t timeline = (uint32_t)strtoul(reply_text(reply_at(reply, 1)), NULL, 10);

    shard->read_lsn = strtoull(reply_text(reply_at(reply, 2)), NULL, 16);
    shard->acquired_timeline = timeline;
    if (position[0] == '\0' ||
        frame_position_parse(position, strlen(position), &shard->acquired_lsn,
                             &shard->acquired_ordinal) != RC_OK)
        shard->acquired_lsn = shard->acquired_ordinal = 0;
    shard->newest_sent = newest_of_reply(shard, reply);
    shard->newest_acquired = bytes_equal_text(newest_route(reply), "-")
                                 ? (struct position){shard->acquired_lsn, shard->acquired_ordinal}
                                 : shard->newest_sent;
    if (!acquire->has_reply || strcmp(position, acquire->position) < 0)
        snprintf(acquire->position, sizeof(acquire->position), "%s", position);
    if (!acquire->has_reply || timeline < acquire->timeline ||
        (timeline == acquire->timeline && strcmp(position, acquire->furthest) > 0))
        snprintf(acquire->furthest, sizeof(acquire->furthest), "%s", position);
    if (shard->read_lsn != 0 && (acquire->read_lsn == 0 || shard->read_lsn < acquire->read_lsn))
        acquire->read_lsn = shard->read_lsn;
    if (!acquire->has_reply || timeline < acquire->timeline)
        acquire->timeline = timeline;
    acquire->has_reply = true;
}

static bool
is_progress(const struct redisReply *reply)
{
    return reply_is_array(reply, 3) && reply_text(reply_at(reply, 0)) != NULL &&
           reply_text(reply_at(reply, 1)) != NULL && reply_text(reply_at(reply, 2)) != NULL &&
           strlen(reply_text(reply_at(reply, 0))) <= FRAME_POSITION_TEXT;
}

static bool
is_rejection(const struct redisReply *reply)
{
    return strncmp(reply_text(reply), "OTHERSYSTEM ", 12) == 0 ||
           strncmp(reply_text(reply), "OTHERDATABASE ", 14) == 0 ||
           strncmp(reply_text(reply), "OTHERSLOT ", 10) == 0;
}

static void
on_acquire_error(struct shard_request *request, const struct redisReply *reply)
{
    ((struct acquire *)request)->is_rejected |= is_rejection(reply);
}

/*
 * Users may have received newer notifications of another shard before the notifications that this
 * shard lacks: readers wait at most three seconds (reader_deliver.c), and not at all for a shard
 * that was unavailable.
 */
static void
set_late_before(struct store *store)
{
    struct shard *shared = &store->shards[0];

    shared->late_before = (struct position){0, 0};
    for (unsigned k = 1; k < store->shard_count; k++) {
        struct shard *shard = &store->shards[k];

        shard->late_before =
            shared->is_unavailable ? shared->seen_position : shared->newest_acquired;
        position_raise(&shared->late_before,
                       shard->is_unavailable ? shard->seen_position : shard->newest_acquired);
    }
}

static void
finish_acquire(struct shard_request *request, enum rc rc)
{
    const struct acquire *acquire = (struct acquire *)request;
    const struct store_progress progress = {acquire->position, acquire->furthest, acquire->read_lsn,
                                            acquire->timeline};

    set_late_before(request->store);
    acquire->done(acquire->ctx, acquire->is_rejected ? RC_BAD : rc, rc == RC_OK ? &progress : NULL);
}

static void
send_acquire(struct acquire *acquire, struct shard *shard)
{
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX], timeline_text[16];

    ingest_progress_key(shard, acquire->slot, key);
    snprintf(timeline_text, sizeof(timeline_text), "%" PRIu32, acquire->our_timeline);
    argument(&arguments, key);
    argument(&arguments, shard->store->feed_token);
    argument(&arguments, acquire->origin.system);
    argument(&arguments, timeline_text);
    argument(&arguments, shard->store->shard_count > 1 ? "1" : "");
    argument(&arguments, acquire->origin.database);
    argument(&arguments, acquire->origin.name);
    shard_request_send_script(&acquire->request, shard, STORE_SCRIPT_acquire, 1, &arguments);
}

static unsigned
first_available(const struct store *store)
{
    unsigned k = 0;

    while (k + 1 < store->shard_count && store->shards[k].is_unavailable)
        k++;
    return k;
}

/*
 * Shard 0 is acquired first, if it is available. So if two databases acquire an empty store
 * simultaneously, one of the two acquires all shards.
 */
static bool
on_acquire_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct acquire *acquire = (struct acquire *)request;

    if (!is_progress(reply))
        return false;
    merge_progress(acquire, shard, reply);
    for (unsigned k = acquire->first + 1;
         shard->number == acquire->first && k < request->store->shard_count; k++) {
        if (!request->store->shards[k].is_unavailable)
            send_acquire(acquire, &request->store->shards[k]);
    }
    return true;
}

static const struct shard_request_kind acquire_kind = {.failure =
                                                           "could not acquire the slot's progress",
                                                       .on_reply = on_acquire_reply,
                                                       .on_error = on_acquire_error,
                                                       .finish = finish_acquire};

enum rc
store_acquire(struct store *store, const char *slot, const struct origin *origin, uint32_t timeline,
              store_acquired *done, void *ctx)
{
    struct acquire *acquire;

    if (!store->is_up)
        return RC_AGAIN;
    acquire = shard_request_new(sizeof(*acquire), store, &acquire_kind);
    acquire->done = done;
    acquire->ctx = ctx;
    acquire->slot = slot;
    acquire->origin = *origin;
    acquire->our_timeline = timeline;
    /*
     * A new token for each acquisition fences batches of earlier acquisitions that are still in
     * flight.
     */
    shard_random_hex(store->feed_token, STORE_TOKEN_TEXT);
    acquire->first = first_available(store);
    send_acquire(acquire, &store->shards[acquire->first]);
    return shard_request_await(&acquire->request);
}

/* Reconnects all shards after their replies, because some epochs may have changed. */
static void
finish_rewind(struct shard_request *request, enum rc rc)
{
    if (rc == RC_OK)
        log_info("store", "rewound the slot's progress, reconnecting");
    for (unsigned k = 0; k < request->store->shard_count; k++)
        link_restart(request->store->shards[k].link,
                     rc == RC_OK ? NULL : "could not rewind the slot's progress");
}

static bool
on_rewind_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    (void)request;
    (void)shard;
    (void)reply;
    return true;
}

static const struct shard_request_kind rewind_kind = {.failure =
                                                          "could not rewind the slot's progress",
                                                      .on_reply = on_rewind_reply,
                                                      .finish = finish_rewind};

static bool
affects(const struct store_rewind *rewind, const struct shard *shard)
{
    return (rewind->of_timeline == 0 || shard->acquired_timeline == rewind->of_timeline) &&
           (rewind->read_lsn_below == 0 || shard->read_lsn < rewind->read_lsn_below);
}

/* Returns the lower of the shard's position `own` and the new position. */
static const char *
position_after(const struct store_rewind *rewind, const struct shard *shard, const char *own)
{
    if (rewind->resets_members && shard->number == 0)
        return "";
    return strcmp(own, rewind->position) < 0 ? own : rewind->position;
}

static void
send_rewind(struct shard_request *request, struct shard *shard, const char *slot,
            const struct store_rewind *rewind, const char *fresh_epoch)
{
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX], timeline_text[16], undone[INGEST_LSN_TEXT + 1] = "";
    char read[INGEST_LSN_TEXT + 1], own[FRAME_POSITION_TEXT + 1] = "";

    ingest_progress_key(shard, slot, key);
    ingest_lsn_text(rewind->read_lsn, read);
    if (rewind->is_undone)
        snprintf(undone, sizeof(undone), "%016" PRIx64, rewind->undone_lsn);
    snprintf(timeline_text, sizeof(timeline_text), "%" PRIu32, rewind->timeline);
    if (shard->acquired_lsn != 0 || shard->acquired_ordinal != 0)
        frame_position_text(shard->acquired_lsn, shard->acquired_ordinal, own);
    argument(&arguments, key);
    argument(&arguments, shard->prefix);
    argument(&arguments, request->store->feed_token);
    argument(&arguments, timeline_text);
    argument(&arguments, position_after(rewind, shard, own));
    argument(&arguments, fresh_epoch);
    argument(&arguments, read);
    argument(&arguments, undone);
    shard_request_send_script(request, shard, STORE_SCRIPT_rewind, 1, &arguments);
}

enum rc
store_rewind(struct store *store, const char *slot, const struct store_rewind *rewind)
{
    struct shard_request *request;
    char fresh_epoch[STORE_EPOCH_TEXT + 1] = "";

    if (!store_is_complete(store))
        return RC_AGAIN; /* an unavailable shard would not be rewound when it returns */
    request = shard_request_new(sizeof(*request), store, &rewind_kind);
    if (rewind->is_gap)
        shard_random_hex(fresh_epoch, STORE_EPOCH_TEXT);
    for (unsigned k = 0; k < store->shard_count; k++) {
        if (affects(rewind, &store->shards[k]))
            send_rewind(request, &store->shards[k], slot, rewind, fresh_epoch);
    }
    return shard_request_await(request);
}
