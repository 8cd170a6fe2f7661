/* delivery.c: tells the shards what was shown, acknowledged and put off, and who is here. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/shards/call.h"
#include "store/connection/reply.h"

void
delivery_settings(const struct config *config, struct delivery *ret_delivery)
{
    struct delivery *d = ret_delivery;

    snprintf(d->ack_timeout, sizeof(d->ack_timeout), "%" PRId64, config->delivery.ack_timeout_ms);
    snprintf(d->backoff_base, sizeof(d->backoff_base), "%" PRId64,
             config->delivery.backoff_base_ms);
    snprintf(d->backoff_cap, sizeof(d->backoff_cap), "%" PRId64, config->delivery.backoff_cap_ms);
    snprintf(d->retention, sizeof(d->retention), "%" PRId64, config->store.retention_ms);
}

/* One call of ours may be one of each shard: it is answered for when all of them have answered. */
struct spread {
    union {
        store_acked *acked;
        store_reported *reported;
        store_told *told;
    } done;
    void *ctx;
    void (*finish)(const struct spread *spread, enum rc rc);
    unsigned left; /* shards that have still to answer */
    bool has_failed;
    bool was_known;
    size_t *unowed; /* places among what was shown */
    size_t unowed_count;
};

struct spread_part {
    struct spread *spread;
    struct shard *shard;
    struct long_arguments arguments;
    size_t *places; /* of what this shard is told, among all; NULL: not needed */
    size_t count;
};

static struct spread *
spread_new(void *ctx, void (*finish)(const struct spread *spread, enum rc rc))
{
    struct spread *spread = memory_new(sizeof(*spread));

    spread->ctx = ctx;
    spread->finish = finish;
    spread->was_known = true;
    return spread;
}

static struct spread_part *
part_new(struct spread *spread, struct shard *shard, size_t arguments)
{
    struct spread_part *part = memory_new(sizeof(*part));

    part->spread = spread;
    part->shard = shard;
    long_arguments_init(&part->arguments, 2 + arguments);
    long_argument(&part->arguments, shard->stream_key);
    long_argument(&part->arguments, shard->prefix);
    return part;
}

static void
part_free(struct spread_part *part)
{
    free(part->places);
    free(part);
}

/* Nothing is for this shard. */
static void
part_drop(struct spread_part *part)
{
    long_arguments_free(&part->arguments);
    part_free(part);
}

static void
spread_free(struct spread *spread)
{
    free(spread->unowed);
    free(spread);
}

static void
part_send(struct spread_part *part, enum store_script script, link_reply *reply)
{
    struct long_arguments *arguments = &part->arguments;
    enum rc rc = link_call(part->shard->link, script, 1, reply, part, (int)arguments->argc,
                           arguments->argv, arguments->lens);

    long_arguments_free(arguments);
    if (rc == RC_OK) {
        part->spread->left++;
        return;
    }
    part->spread->has_failed = true;
    part_free(part);
}

static void
part_done(struct spread_part *part, bool is_good)
{
    struct spread *spread = part->spread;

    if (!is_good)
        spread->has_failed = true;
    part_free(part);
    if (--spread->left > 0)
        return;
    spread->finish(spread, spread->has_failed ? RC_IO : RC_OK);
    spread_free(spread);
}

/* What could not be told to anybody is not under way. */
static enum rc
spread_begun(struct spread *spread)
{
    if (spread->left > 0)
        return RC_OK;
    spread_free(spread);
    return RC_AGAIN;
}

/* Who is here: all of them to shard 0, and each to his own. */

static void
finish_here(const struct spread *spread, enum rc rc)
{
    spread->done.told(spread->ctx, rc, rc == RC_OK && spread->was_known);
}

static void
on_here(void *ctx, const struct redisReply *reply)
{
    struct spread_part *part = ctx;
    bool is_good =
        call_succeeded(part->shard, reply, "store who is connected") && reply_is_integer(reply);

    if (is_good && reply_integer(reply) == 0)
        part->spread->was_known = false;
    part_done(part, is_good);
}

enum rc
store_here(struct store *store, enum store_here_what what, const char *const *users, size_t count,
           store_told *done, void *ctx)
{
    static const char *const words[] = {"=", "+", "-", "."};
    struct spread *spread;

    if (!store->is_up)
        return RC_AGAIN;
    spread = spread_new(ctx, finish_here);
    spread->done.told = done;
    for (unsigned k = 0; k < store->shard_count; k++) {
        struct spread_part *part = part_new(spread, &store->shards[k], 2 + count);
        size_t fixed;

        long_argument(&part->arguments, store->owner);
        long_argument(&part->arguments, words[what]);
        fixed = part->arguments.argc;
        for (size_t i = 0; i < count; i++) {
            if (k == 0 || store_shard_of(store, users[i]) == k)
                long_argument(&part->arguments, users[i]);
        }
        if (part->arguments.argc > fixed || what == STORE_HERE_ALL || what == STORE_HERE_BEAT)
            part_send(part, STORE_SCRIPT_here, on_here);
        else
            part_drop(part);
    }
    return spread_begun(spread);
}

/* Shown. */

static void
finish_shown(const struct spread *spread, enum rc rc)
{
    spread->done.reported(spread->ctx, rc, spread->unowed, rc == RC_OK ? spread->unowed_count : 0);
}

static void
on_shown(void *ctx, const struct redisReply *reply)
{
    struct spread_part *part = ctx;
    struct spread *spread = part->spread;
    bool is_good = call_succeeded(part->shard, reply, "store what was shown") &&
                   reply_is_array(reply, 0) && reply_count(reply) <= part->count;

    for (size_t i = 0; is_good && i < reply_count(reply); i++) {
        size_t place = (size_t)reply_integer(reply_at(reply, i));

        if (place < part->count)
            spread->unowed[spread->unowed_count++] = part->places[place];
    }
    part_done(part, is_good);
}

#define HOW_TEXT 16 /* three letters, a time, the zero */

/* As shown.lua reads it. */
static void
how_text(const struct store_shown *shown, char ret_text[HOW_TEXT])
{
    static const char *const texts[3][4][2] = {
        {{"SEC", "SEO"}, {"SLC", "SLO"}, {"SFC", "SFO"}, {"S-C", "S-O"}},
        {{"DEC", "DEO"}, {"DLC", "DLO"}, {"DFC", "DFO"}, {"D-C", "D-O"}},
        {{"KEC", "KEO"}, {"KLC", "KLO"}, {"KFC", "KFO"}, {"K-C", "K-O"}},
    };
    unsigned kind = shown->is_kept ? 2 : shown->is_deferred;
    unsigned backoff = shown->backoff <= FRAME_BACKOFF_FIXED ? shown->backoff : 0;

    const char *letters = texts[kind][shown->is_retried ? backoff : 3][shown->is_open];

    if (shown->ack_timeout_ms == 0)
        snprintf(ret_text, HOW_TEXT, "%s", letters);
    else
        snprintf(ret_text, HOW_TEXT, "%s%" PRIu32, letters, shown->ack_timeout_ms);
}

static struct spread_part *
shown_part(struct spread *spread, struct shard *shard, size_t count)
{
    const struct delivery *delivery = &shard->store->delivery;
    struct spread_part *part = part_new(spread, shard, 4 + 3 * count);

    part->places = memory_new((count + 1) * sizeof(*part->places));
    long_argument(&part->arguments, delivery->ack_timeout);
    long_argument(&part->arguments, delivery->backoff_base);
    long_argument(&part->arguments, delivery->backoff_cap);
    long_argument(&part->arguments, delivery->retention);
    return part;
}

enum rc
store_shown(struct store *store, const struct store_shown *shown, size_t count,
            store_reported *done, void *ctx)
{
    struct spread *spread;
    struct {
        char id[FRAME_UUID_TEXT + 1];
        char how[HOW_TEXT];
    } * texts;

    if (!store->is_up)
        return RC_AGAIN;
    spread = spread_new(ctx, finish_shown);
    spread->done.reported = done;
    spread->unowed = memory_new((count + 1) * sizeof(*spread->unowed));
    texts = memory_new((count + 1) * sizeof(*texts));
    for (size_t i = 0; i < count; i++) {
        frame_id_text(shown[i].id, texts[i].id);
        how_text(&shown[i], texts[i].how);
    }
    for (unsigned k = 0; k < store->shard_count; k++) {
        struct spread_part *part = shown_part(spread, &store->shards[k], count);

        for (size_t i = 0; i < count; i++) {
            if (shown[i].shard != k)
                continue;
            part->places[part->count++] = i;
            long_argument(&part->arguments, texts[i].how);
            long_argument(&part->arguments, shown[i].user);
            long_argument(&part->arguments, texts[i].id);
        }
        if (part->count > 0)
            part_send(part, STORE_SCRIPT_shown, on_shown);
        else
            part_drop(part);
    }
    free(texts);
    return spread_begun(spread);
}

/* Acknowledgements: what a shard does not know is not its own. */

static void
finish_acked(const struct spread *spread, enum rc rc)
{
    spread->done.acked(spread->ctx, rc);
}

static void
on_acked(void *ctx, const struct redisReply *reply)
{
    struct spread_part *part = ctx;
    struct stats *stats = part->shard->store->stats;
    bool is_good = call_succeeded(part->shard, reply, "store acks") && reply_is_array(reply, 2);

    if (is_good) {
        stats_add(stats, STAT_STORE_ACKS, (uint64_t)reply_integer(reply_at(reply, 0)));
        stats_add(stats, STAT_STORE_COMPLETED, (uint64_t)reply_integer(reply_at(reply, 1)));
    }
    part_done(part, is_good);
}

static bool
may_be_of(const struct store *store, const struct store_ack *ack, unsigned shard)
{
    if (ack->shard >= 0 && (unsigned)ack->shard < store->shard_count)
        return (unsigned)ack->shard == shard;
    return shard == 0 || store_shard_of(store, ack->user) == shard;
}

/* How many of the first acks are of one user. */
static size_t
acks_in_a_row(const struct store_ack *acks, size_t count)
{
    size_t row = 1;

    while (row < count && strcmp(acks[row].user, acks[0].user) == 0)
        row++;
    return row;
}

static int
compare_users(const void *a, const void *b)
{
    return strcmp(((const struct store_ack *)a)->user, ((const struct store_ack *)b)->user);
}

/*
 * As ack.lua reads them: each user once for all of his acks, then the ids. They are put in order
 * here, as the store's time is what is short.
 */
static void
send_acks(struct spread_part *part, struct store_ack *acks, size_t count)
{
    const struct store *store = part->shard->store;
    char(*rows)[24] = memory_new((count + 1) * sizeof(*rows));
    size_t users = 0;

    qsort(acks, count, sizeof(*acks), compare_users);
    for (size_t at = 0; at < count; at += acks_in_a_row(acks + at, count - at))
        users++;
    snprintf(rows[count], sizeof(rows[count]), "%zu", users);
    long_argument(&part->arguments, store->owner);
    long_argument(&part->arguments, store->delivery.retention);
    long_argument(&part->arguments, rows[count]);
    for (size_t at = 0, row; at < count; at += row) {
        row = acks_in_a_row(acks + at, count - at);
        snprintf(rows[at], sizeof(rows[at]), "%zu", row);
        long_argument(&part->arguments, acks[at].user);
        long_argument(&part->arguments, rows[at]);
    }
    for (size_t i = 0; i < count; i++)
        long_argument(&part->arguments, acks[i].id);
    part->count = count;
    part_send(part, STORE_SCRIPT_ack, on_acked);
    free(rows);
}

enum rc
store_ack(struct store *store, const struct store_ack *acks, size_t count, store_acked *done,
          void *ctx)
{
    struct spread *spread;
    struct store_ack *mine;

    if (!store->is_up)
        return RC_AGAIN;
    spread = spread_new(ctx, finish_acked);
    spread->done.acked = done;
    mine = memory_new((count + 1) * sizeof(*mine));
    for (unsigned k = 0; k < store->shard_count; k++) {
        size_t mine_count = 0;

        for (size_t i = 0; i < count; i++) {
            if (may_be_of(store, &acks[i], k))
                mine[mine_count++] = acks[i];
        }
        if (mine_count > 0)
            send_acks(part_new(spread, &store->shards[k], 3 + 3 * mine_count), mine, mine_count);
    }
    free(mine);
    return spread_begun(spread);
}

static void
on_nacked(void *ctx, const struct redisReply *reply)
{
    struct spread_part *part = ctx;
    bool is_good = call_succeeded(part->shard, reply, "store nacks") && reply_is_integer(reply);

    if (is_good)
        stats_add(part->shard->store->stats, STAT_STORE_NACKS, (uint64_t)reply_integer(reply));
    part_done(part, is_good);
}

enum rc
store_nack(struct store *store, const char *user, const char *const *ids, size_t count,
           int64_t delay_ms, store_acked *done, void *ctx)
{
    const struct delivery *delivery = &store->delivery;
    unsigned own = store_shard_of(store, user);
    struct spread *spread;
    char delay[24];

    if (!store->is_up)
        return RC_AGAIN;
    spread = spread_new(ctx, finish_acked);
    spread->done.acked = done;
    snprintf(delay, sizeof(delay), "%" PRId64, delay_ms > 0 ? delay_ms : 0);
    for (unsigned k = 0; k <= own; k += own > 0 ? own : 1) {
        struct spread_part *part = part_new(spread, &store->shards[k], 5 + count);

        long_argument(&part->arguments, delivery->backoff_base);
        long_argument(&part->arguments, delivery->backoff_cap);
        long_argument(&part->arguments, delay);
        long_argument(&part->arguments, delivery->retention);
        long_argument(&part->arguments, user);
        for (size_t i = 0; i < count; i++)
            long_argument(&part->arguments, ids[i]);
        part_send(part, STORE_SCRIPT_nack, on_nacked);
    }
    return spread_begun(spread);
}
