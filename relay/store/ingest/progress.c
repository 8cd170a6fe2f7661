/* progress.c: takes a slot's progress at all shards, and sets it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "store/shards/call.h"
#include "store/ingest/ingest.h"
#include "store/connection/reply.h"

/* A shard may have got further than another before the feed died: all frames between come again. */
struct claim {
    struct store *store;
    store_claimed *done;
    void *ctx;
    const char *slot; /* the caller's, who outlives the store */
    struct origin origin;
    uint32_t our_timeline;
    unsigned left; /* shards that have still to answer */
    bool has_failed;
    bool is_refused; /* the store belongs to another database or slot */
    bool has_answer;
    char position[FRAME_POSITION_TEXT + 1];
    char furthest[FRAME_POSITION_TEXT + 1];
    uint64_t read_lsn;
    uint32_t timeline;
};

struct claim_part {
    struct claim *claim;
    struct shard *shard;
};

/* Of several shards the position of its newest note, unless that is of other WAL. */
static struct position
note_of(const struct shard *shard, const struct redisReply *reply)
{
    struct bytes route = {NULL, 0};
    struct frame frame;

    if (reply_is_array(reply, 4))
        route = reply_bytes(reply_at(reply, 3));
    if (route.len == 0 || frame_parse_head(route, &frame) != RC_OK ||
        frame.commit_lsn > shard->claimed_lsn)
        return (struct position){0, 0};
    return (struct position){frame.commit_lsn, frame.ordinal};
}

/*
 * The least of what the shards say; one that was emptied knows nothing of WAL, nor of its absence.
 */
static void
take_claimed(struct claim *claim, struct shard *shard, const struct redisReply *reply)
{
    const char *position = reply_text(reply_at(reply, 0));
    uint32_t timeline = (uint32_t)strtoul(reply_text(reply_at(reply, 1)), NULL, 10);

    shard->read_lsn = strtoull(reply_text(reply_at(reply, 2)), NULL, 16);
    shard->claimed_timeline = timeline;
    if (position[0] == '\0' || frame_position_read(position, strlen(position), &shard->claimed_lsn,
                                                   &shard->claimed_ordinal) != RC_OK)
        shard->claimed_lsn = shard->claimed_ordinal = 0;
    shard->noted = note_of(shard, reply);
    if (!claim->has_answer || strcmp(position, claim->position) < 0)
        snprintf(claim->position, sizeof(claim->position), "%s", position);
    if (!claim->has_answer || timeline < claim->timeline ||
        (timeline == claim->timeline && strcmp(position, claim->furthest) > 0))
        snprintf(claim->furthest, sizeof(claim->furthest), "%s", position);
    if (shard->read_lsn != 0 && (claim->read_lsn == 0 || shard->read_lsn < claim->read_lsn))
        claim->read_lsn = shard->read_lsn;
    if (!claim->has_answer || timeline < claim->timeline)
        claim->timeline = timeline;
    claim->has_answer = true;
}

static bool
is_progress(const struct redisReply *reply)
{
    return reply_is_array(reply, 3) && reply_text(reply_at(reply, 0)) != NULL &&
           reply_text(reply_at(reply, 1)) != NULL && reply_text(reply_at(reply, 2)) != NULL &&
           strlen(reply_text(reply_at(reply, 0))) <= FRAME_POSITION_TEXT;
}

static void
finish_claim(struct claim *claim)
{
    const struct store_progress progress = {claim->position, claim->furthest, claim->read_lsn,
                                            claim->timeline};

    if (claim->is_refused)
        claim->done(claim->ctx, RC_BAD, NULL);
    else if (claim->has_failed)
        claim->done(claim->ctx, RC_IO, NULL);
    else
        claim->done(claim->ctx, RC_OK, &progress);
    free(claim);
}

static bool
is_refusal(const struct redisReply *reply)
{
    return reply_is_error(reply) && (strncmp(reply_text(reply), "OTHERSYSTEM ", 12) == 0 ||
                                     strncmp(reply_text(reply), "OTHERDATABASE ", 14) == 0 ||
                                     strncmp(reply_text(reply), "OTHERSLOT ", 10) == 0);
}

static enum rc send_claim(struct claim *claim, struct shard *shard);

static void
send_to_others(struct claim *claim)
{
    for (unsigned k = 1; k < claim->store->shard_count; k++) {
        if (send_claim(claim, &claim->store->shards[k]) == RC_OK)
            claim->left++;
        else
            claim->has_failed = true;
    }
}

static void
on_claimed(void *ctx, const struct redisReply *reply)
{
    struct claim_part *part = ctx;
    struct claim *claim = part->claim;

    if (call_succeeded(part->shard, reply, "take the slot's progress") && is_progress(reply))
        take_claimed(claim, part->shard, reply);
    else
        claim->has_failed = true;
    claim->is_refused |= is_refusal(reply);
    if (part->shard->number == 0 && !claim->has_failed)
        send_to_others(claim);
    free(part);
    if (--claim->left == 0)
        finish_claim(claim);
}

static enum rc
send_claim(struct claim *claim, struct shard *shard)
{
    struct claim_part *part = memory_new(sizeof(*part));
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX], timeline_text[16];
    enum rc rc;

    *part = (struct claim_part){claim, shard};
    ingest_progress_key(shard, claim->slot, key);
    snprintf(timeline_text, sizeof(timeline_text), "%" PRIu32, claim->our_timeline);
    argument(&arguments, key);
    argument(&arguments, claim->store->claim);
    argument(&arguments, claim->origin.system);
    argument(&arguments, timeline_text);
    argument(&arguments, claim->store->shard_count > 1 ? "1" : "");
    argument(&arguments, claim->origin.database);
    argument(&arguments, claim->origin.name);
    rc = link_call(shard->link, STORE_SCRIPT_claim, 1, on_claimed, part, arguments.argc,
                   arguments.argv, arguments.lens);
    if (rc != RC_OK)
        free(part);
    return rc;
}

/*
 * Shard 0 is asked first: of two databases that claim an empty store at the same time, one has it
 * whole.
 */
enum rc
store_claim(struct store *store, const char *slot, const struct origin *origin, uint32_t timeline,
            store_claimed *done, void *ctx)
{
    struct claim *claim;

    if (!store->is_up)
        return RC_AGAIN;
    claim = memory_new(sizeof(*claim));
    *claim = (struct claim){.store = store,
                            .done = done,
                            .ctx = ctx,
                            .slot = slot,
                            .origin = *origin,
                            .our_timeline = timeline,
                            .left = 1};
    /* A new one each time: what an earlier claim still has under way comes too late. */
    shard_random_hex(store->claim, STORE_TOKEN_TEXT);
    if (send_claim(claim, &store->shards[0]) == RC_OK)
        return RC_OK;
    free(claim);
    return RC_AGAIN;
}

/* Reset: each shard as far as it is, but no further than told. */

struct reset {
    struct store *store;
    unsigned left;
    bool is_done;
};

struct reset_part {
    struct reset *reset;
    struct shard *shard;
};

/* Everyone is greeted anew, once all have answered: some of them are of another epoch. */
static void
finish_reset(struct reset *reset)
{
    if (reset->is_done)
        log_info("store", "the slot's progress was set back, connecting anew to begin there");
    for (unsigned k = 0; k < reset->store->shard_count; k++)
        link_restart(reset->store->shards[k].link,
                     reset->is_done ? NULL : "its progress could not be reset");
    free(reset);
}

static void
on_reset(void *ctx, const struct redisReply *reply)
{
    struct reset_part *part = ctx;
    struct reset *reset = part->reset;

    if (!call_succeeded(part->shard, reply, "reset the slot's progress"))
        reset->is_done = false;
    free(part);
    if (--reset->left == 0)
        finish_reset(reset);
}

static bool
is_about(const struct store_setback *setback, const struct shard *shard)
{
    return (setback->of_timeline == 0 || shard->claimed_timeline == setback->of_timeline) &&
           (setback->knows_less_than == 0 || shard->read_lsn < setback->knows_less_than);
}

/* Each as far as it was, but no further than told; `own` is where it was. */
static const char *
position_after(const struct store_setback *setback, const struct shard *shard, const char *own)
{
    if (setback->members_too && shard->number == 0)
        return "";
    return strcmp(own, setback->position) < 0 ? own : setback->position;
}

static enum rc
send_reset(struct reset *reset, struct shard *shard, const char *slot,
           const struct store_setback *setback, const char *fresh_epoch)
{
    struct reset_part *part = memory_new(sizeof(*part));
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX], timeline_text[16];
    char read[INGEST_LSN_TEXT + 1], own[FRAME_POSITION_TEXT + 1] = "";
    enum rc rc;

    *part = (struct reset_part){reset, shard};
    ingest_progress_key(shard, slot, key);
    ingest_lsn_text(setback->read_lsn, read);
    snprintf(timeline_text, sizeof(timeline_text), "%" PRIu32, setback->timeline);
    if (shard->claimed_lsn != 0 || shard->claimed_ordinal != 0)
        frame_position_text(shard->claimed_lsn, shard->claimed_ordinal, own);
    argument(&arguments, key);
    argument(&arguments, shard->prefix);
    argument(&arguments, reset->store->claim);
    argument(&arguments, timeline_text);
    argument(&arguments, position_after(setback, shard, own));
    argument(&arguments, fresh_epoch);
    argument(&arguments, read);
    rc = link_call(shard->link, STORE_SCRIPT_reset, 1, on_reset, part, arguments.argc,
                   arguments.argv, arguments.lens);
    if (rc != RC_OK)
        free(part);
    return rc;
}

enum rc
store_reset(struct store *store, const char *slot, const struct store_setback *setback)
{
    struct reset *reset = memory_new(sizeof(*reset));
    char fresh_epoch[STORE_EPOCH_TEXT + 1] = "";

    *reset = (struct reset){.store = store, .is_done = true};
    if (setback->is_gap)
        shard_random_hex(fresh_epoch, STORE_EPOCH_TEXT);
    for (unsigned k = 0; k < store->shard_count; k++) {
        if (!is_about(setback, &store->shards[k]))
            continue;
        if (send_reset(reset, &store->shards[k], slot, setback, fresh_epoch) == RC_OK)
            reset->left++;
        else
            reset->is_done = false;
    }
    if (reset->left > 0)
        return RC_OK;
    free(reset);
    return RC_AGAIN;
}
