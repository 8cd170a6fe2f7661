/* progress.c: takes a slot's progress at all shards, and sets it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/ingest/ingest.h"
#include "store/shards/ask.h"
#include "store/shards/store_private.h"

/* A shard may have got further than another before the feed died: all frames between come again. */
struct claim {
    struct ask ask;
    store_acquired *done;
    void *ctx;
    const char *slot; /* the caller's, who outlives the store */
    struct origin origin;
    uint32_t our_timeline;
    bool is_refused; /* the store belongs to another database or slot */
    bool has_answer;
    char position[FRAME_POSITION_TEXT + 1];
    char furthest[FRAME_POSITION_TEXT + 1];
    uint64_t read_lsn;
    uint32_t timeline;
};

/* Of several shards the position of its newest note, unless that is of other WAL. */
static struct position
note_of(const struct shard *shard, const struct redisReply *reply)
{
    struct bytes route = {NULL, 0};
    struct frame frame;

    if (reply_is_array(reply, 4))
        route = reply_bytes(reply_at(reply, 3));
    if (route.len == 0 || frame_parse_header(route, &frame) != RC_OK ||
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
    if (position[0] == '\0' || frame_position_parse(position, strlen(position), &shard->claimed_lsn,
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

static bool
is_refusal(const struct redisReply *reply)
{
    return strncmp(reply_text(reply), "OTHERSYSTEM ", 12) == 0 ||
           strncmp(reply_text(reply), "OTHERDATABASE ", 14) == 0 ||
           strncmp(reply_text(reply), "OTHERSLOT ", 10) == 0;
}

static void
on_claim_error(struct ask *ask, const struct redisReply *reply)
{
    ((struct claim *)ask)->is_refused |= is_refusal(reply);
}

static void
finish_claim(struct ask *ask, enum rc rc)
{
    const struct claim *claim = (struct claim *)ask;
    const struct store_progress progress = {claim->position, claim->furthest, claim->read_lsn,
                                            claim->timeline};

    claim->done(claim->ctx, claim->is_refused ? RC_BAD : rc, rc == RC_OK ? &progress : NULL);
}

static void
ask_claim(struct claim *claim, struct shard *shard)
{
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX], timeline_text[16];

    ingest_progress_key(shard, claim->slot, key);
    snprintf(timeline_text, sizeof(timeline_text), "%" PRIu32, claim->our_timeline);
    argument(&arguments, key);
    argument(&arguments, shard->store->claim);
    argument(&arguments, claim->origin.system);
    argument(&arguments, timeline_text);
    argument(&arguments, shard->store->shard_count > 1 ? "1" : "");
    argument(&arguments, claim->origin.database);
    argument(&arguments, claim->origin.name);
    ask_script(&claim->ask, shard, STORE_SCRIPT_acquire, 1, &arguments);
}

/*
 * Shard 0 is asked first: of two databases that claim an empty store at the same time, one has it
 * whole.
 */
static bool
take_claim(struct ask *ask, struct shard *shard, const struct redisReply *reply)
{
    struct claim *claim = (struct claim *)ask;

    if (!is_progress(reply))
        return false;
    take_claimed(claim, shard, reply);
    for (unsigned k = 1; shard->number == 0 && k < ask->store->shard_count; k++)
        ask_claim(claim, &ask->store->shards[k]);
    return true;
}

static const struct ask_kind claim_kind = {.what = "acquire the slot's progress",
                                           .take = take_claim,
                                           .on_error = on_claim_error,
                                           .finish = finish_claim};

enum rc
store_acquire(struct store *store, const char *slot, const struct origin *origin, uint32_t timeline,
              store_acquired *done, void *ctx)
{
    struct claim *claim;

    if (!store->is_up)
        return RC_AGAIN;
    claim = ask_new(sizeof(*claim), store, &claim_kind);
    claim->done = done;
    claim->ctx = ctx;
    claim->slot = slot;
    claim->origin = *origin;
    claim->our_timeline = timeline;
    /* A new one each time: what an earlier claim still has under way comes too late. */
    shard_random_hex(store->claim, STORE_TOKEN_TEXT);
    ask_claim(claim, &store->shards[0]);
    return ask_sent(&claim->ask);
}

/* Reset: each shard as far as it is, but no further than told. */

/* All are greeted again, once all have replied: some of them are of another epoch. */
static void
finish_reset(struct ask *ask, enum rc rc)
{
    if (rc == RC_OK)
        log_info("store", "rewound the slot's progress, reconnecting");
    for (unsigned k = 0; k < ask->store->shard_count; k++)
        link_restart(ask->store->shards[k].link,
                     rc == RC_OK ? NULL : "could not rewind the slot's progress");
}

static bool
take_reset(struct ask *ask, struct shard *shard, const struct redisReply *reply)
{
    (void)ask;
    (void)shard;
    (void)reply;
    return true;
}

static const struct ask_kind reset_kind = {
    .what = "rewind the slot's progress", .take = take_reset, .finish = finish_reset};

static bool
is_about(const struct store_rewind *setback, const struct shard *shard)
{
    return (setback->of_timeline == 0 || shard->claimed_timeline == setback->of_timeline) &&
           (setback->knows_less_than == 0 || shard->read_lsn < setback->knows_less_than);
}

/* Each as far as it was, but no further than told; `own` is where it was. */
static const char *
position_after(const struct store_rewind *setback, const struct shard *shard, const char *own)
{
    if (setback->members_too && shard->number == 0)
        return "";
    return strcmp(own, setback->position) < 0 ? own : setback->position;
}

static void
ask_reset(struct ask *reset, struct shard *shard, const char *slot,
          const struct store_rewind *setback, const char *fresh_epoch)
{
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX], timeline_text[16];
    char read[INGEST_LSN_TEXT + 1], own[FRAME_POSITION_TEXT + 1] = "";

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
    ask_script(reset, shard, STORE_SCRIPT_rewind, 1, &arguments);
}

enum rc
store_rewind(struct store *store, const char *slot, const struct store_rewind *setback)
{
    struct ask *reset = ask_new(sizeof(*reset), store, &reset_kind);
    char fresh_epoch[STORE_EPOCH_TEXT + 1] = "";

    if (setback->is_gap)
        shard_random_hex(fresh_epoch, STORE_EPOCH_TEXT);
    for (unsigned k = 0; k < store->shard_count; k++) {
        if (is_about(setback, &store->shards[k]))
            ask_reset(reset, &store->shards[k], slot, setback, fresh_epoch);
    }
    return ask_sent(reset);
}
