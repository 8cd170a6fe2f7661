/* ingest.c: stores the feed's batches with the slot's progress; acquires and rewinds progress. */
#include "store/write/batch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"
#include "store/shards/multi.h"

#define EXTRA_REPLIES 2 /* replies to EVAL and HMSET in EXEC's reply, after the XADD replies */
#define COUNT_TEXT 24
#define INGEST_LSN_TEXT 16                  /* length in hex digits */
#define COVERED_TEXT (INGEST_LSN_TEXT + 12) /* with a timeline */
#define POSITION_OF_COPY                                                                           \
    "0000000000000000ffffffffffffffff" /* end of the copied memberships (feed.c) */

/* Writes an LSN of fixed width, so that the strings sort like LSNs; "" for 0. */
static void
ingest_lsn_text(uint64_t lsn, char ret_text[INGEST_LSN_TEXT + 1])
{
    char position[FRAME_POSITION_TEXT + 1];

    frame_position_text(lsn, 0, position); /* begins with the LSN */
    text_join(ret_text, lsn != 0 ? INGEST_LSN_TEXT + 1 : 1, position, "", "");
}

static void
ingest_progress_key(const struct shard *shard, const char *slot, char ret_key[STORE_KEY_MAX])
{
    key_write_of(ret_key, STORE_KEY_MAX, shard->prefix, KEY_PROGRESS, slot);
}

bool
store_accepts(const struct store *store, const struct frame *frame)
{
    if (frame->kind != FRAME_KIND_NOTIFICATION)
        return true;
    for (unsigned k = 0; k < store->shard_count; k++) {
        if (frame->as.notification.data.len > store->shards[k].notification_max)
            return false;
    }
    return true;
}

/*
 * A shard with frames of a batch receives these, and the new progress. Other shards record the
 * progress less often: they have nothing to store, so what they have recorded is right. Shard 0
 * records how far the WAL is processed, and the newest notification of each shard. Of a shard whose
 * notifications a reader has read up to that one, the reader has everything of this WAL.
 *
 * PostgreSQL may remove WAL that every shard has recorded. Until then it sends it again: each shard
 * skips what it contains.
 */
struct ingest_part {
    bool is_transaction;
    bool is_advance; /* the next reply is that of advance.lua */
    bool is_staging; /* a step of `staging` is in flight */
    bool was_counted;
    struct ingest *ingest;
    struct ingest_part *prev, *next; /* in shard->ingests.waiting */
    /*
     * The script's arguments, if the batch may have to be sent again: its audiences may be large,
     * or it follows such a batch. Otherwise NULL.
     */
    struct kept_arguments *kept;
    bool is_large;               /* the transaction of the script adds the first notification */
    char open_ended[COUNT_TEXT]; /* the end of its open-ended audience in ms, or "" */
    struct staging staging;
    size_t notifications;
    /* newest notification that was sent to the shard, up to this batch */
    struct position newest_sent;
};

struct ingest {
    struct shard_request request;
    store_ingested *done;
    void *ctx;
    struct ingest_part parts[]; /* by shard */
};

/* Arguments of one shard. */
struct ingest_fields {
    const char *key;
    const char *read;
    const char *after; /* dependencies on other shards, for the first notification; "": none */
};

static void
record_entry(const struct ingest_part *part, struct shard *shard, const struct redisReply *reply)
{
    struct bytes text = reply_bytes(reply);
    struct entry_id entry;

    if (text.at == NULL || entry_id_read((const char *)text.at, text.len, &entry) != RC_OK)
        return;
    store_record_position(shard->store, shard->number, history_label(&shard->history, entry),
                          part->newest_sent);
}

/* The script receives only the start of the large data of its first record. */
static void
send_large(struct ingest_part *part, struct shard *shard)
{
    const struct kept_arguments *kept = part->kept;
    const size_t at = BATCH_RESERVED;
    const struct prepared_entry entry = {
        .id = kept_argument(kept, at + BATCH_ID),
        .route = kept_argument(kept, at + BATCH_ROUTE),
        .data = kept_argument(kept, at + BATCH_DATA),
        .after = kept_argument(kept, BATCH_AFTER),
        .open_ended = {(const unsigned char *)part->open_ended, strlen(part->open_ended)}};
    const struct bytes start = multi_data_start(entry.data);
    struct arguments script = {.argc = 0};
    struct multi multi;
    struct frame frame;
    char bytes[COUNT_TEXT];

    snprintf(bytes, sizeof(bytes), "%zu", entry.route.len + entry.data.len);
    for (size_t i = 0; i < kept->argc; i++) {
        if (i == at) {
            argument(&script, "E");
            argument(&script, bytes);
            argument(&script, part->open_ended);
        }
        if (i == at + BATCH_DATA)
            argument_bytes(&script, start.at, start.len);
        else
            argument_bytes(&script, kept->argv[i], kept->lens[i]);
    }
    multi_begin(&multi, kept_bytes(kept) + strlen(store_script_ingest));
    multi_prepare_entry(&multi, shard, &entry);
    if (frame_parse_header(entry.route, &frame) == RC_OK && (frame.flags & FRAME_UNDECODABLE) != 0)
        multi_prepare_parts(&multi, shard, entry.id, entry.route, entry.data);
    multi_script(&multi, shard, STORE_SCRIPT_ingest, 2, script.argc, script.argv, script.lens);
    arguments_free(&script);
    shard_request_send_multi(&part->ingest->request, shard, STORE_SCRIPT_ingest, &multi);
}

static void
send_kept(struct ingest_part *part, struct shard *shard)
{
    if (part->is_large) {
        send_large(part, shard);
        return;
    }
    shard_request_send_script_argv(&part->ingest->request, shard, STORE_SCRIPT_ingest, 2,
                                   part->kept->argc, part->kept->argv, part->kept->lens);
}

/* The batch waits until the batches before it are complete. */
static void
wait_for_holder(struct ingest_part *part, struct shard *shard)
{
    shard_request_hold(&part->ingest->request);
    DL_APPEND(shard->ingests.waiting, part);
}

/* The batch is complete, or it failed: then later batches fail too, because they follow it. */
static void
end_part(struct ingest_part *part, struct shard *shard)
{
    struct ingest_queue *queue = &shard->ingests;
    struct ingest_part *waiting = queue->waiting;

    if (part->kept == NULL)
        return;
    free(part->kept);
    part->kept = NULL;
    queue->kept--;
    if (queue->holder != part)
        return;
    queue->holder = NULL;
    queue->waiting = NULL;
    while (waiting != NULL) {
        struct ingest_part *next = waiting->next;

        send_kept(waiting, shard);
        shard_request_release(&waiting->ingest->request);
        waiting = next;
    }
}

/* What the users of a notification are staged for. */
static const char *
staging_purpose(const struct shard *shard, bool needs_ack, struct bytes route)
{
    struct frame frame;

    if (!needs_ack)
        return "P";
    return shard->store->script_settings.web_push_delay[0] != '\0' &&
                   frame_parse_header(route, &frame) == RC_OK &&
                   frame_has_web_push(&frame.as.notification)
               ? "AP"
               : "A";
}

/*
 * Sends the next step of a batch that is not complete. `index`: its next record; must_stage: the
 * record's audience is large.
 */
static bool
continue_part(struct ingest_part *part, struct shard *shard, size_t index, bool must_stage)
{
    struct kept_arguments *kept = part->kept;
    const size_t at = BATCH_RESERVED + index;
    bool needs_ack;

    if (kept == NULL)
        return false;
    shard->ingests.holder = part;
    if (!must_stage) {
        send_kept(part, shard);
        return true;
    }
    if (at + BATCH_ACK_TARGETS > kept->argc)
        return false;
    needs_ack = kept->argv[at][0] == 'A' || kept->argv[at][0] == BATCH_STAGED[0];
    kept->argv[at] = needs_ack ? BATCH_STAGED : BATCH_STAGED_PUSH;
    part->staging = (struct staging){
        .progress = kept->argv[1],
        .owner = kept->argv[4],
        .id = kept->argv[at + 2],
        .purpose =
            staging_purpose(shard, needs_ack,
                            (struct bytes){(const unsigned char *)kept->argv[at + BATCH_ROUTE],
                                           kept->lens[at + BATCH_ROUTE]}),
        .audience = kept->argv[at + 5],
        .targets = kept->argv + at + BATCH_ACK_TARGETS,
        .target_lens = kept->lens + at + BATCH_ACK_TARGETS,
        .target_count = strtoul(kept->argv[at + BATCH_ACK_TARGETS - 1], NULL, 10),
        .target = 1,
    };
    if (part->staging.target_count > kept->argc - at - BATCH_ACK_TARGETS)
        return false;
    part->is_staging = true;
    staging_send(&part->staging, &part->ingest->request, shard);
    return true;
}

/*
 * The newest notification of each shard, for readers of shard 0; none, if the shards have none.
 * What an unavailable shard has is not known.
 */
static void
sent_text(const struct store *store, char ret_text[SHARD_DEPENDENCY_MAX])
{
    struct position sent[STORE_SHARDS_MAX];

    for (unsigned k = 0; k < store->shard_count; k++) {
        const struct shard *shard = &store->shards[k];

        sent[k] = shard->newest_sent;
        position_raise(&sent[k], shard->newest_acquired);
        if (shard->is_left_out)
            sent[k] = (struct position){UINT64_MAX, UINT64_MAX};
    }
    shard_dependency_text(0, sent, store->shard_count, ret_text);
    if (ret_text[0] == '\0')
        snprintf(ret_text, SHARD_DEPENDENCY_MAX, "0:0.0"); /* "" would report nothing */
}

/* Advances the progress of a shard whose frames, if any, were sent before. */
static void
send_advance(struct ingest *ingest, struct shard *shard, const char *key, const char *after,
             const char *to, const char *read)
{
    struct arguments arguments = {.argc = 0};
    char sent[SHARD_DEPENDENCY_MAX] = "";

    if (shard->number == 0 && shard->store->shard_count > 1)
        sent_text(shard->store, sent);
    argument(&arguments, key);
    argument(&arguments, shard->prefix);
    argument(&arguments, shard->store->feed_token);
    argument(&arguments, after);
    argument(&arguments, to);
    argument(&arguments, read);
    argument(&arguments, sent);
    shard_request_send_script(&ingest->request, shard, STORE_SCRIPT_advance, 1, &arguments);
}

/* A script stores batches that change more than the stream and the progress. */
static bool
read_script_reply(struct ingest_part *part, struct shard *shard, const struct redisReply *reply)
{
    struct stats *stats = shard->store->stats;
    long long added = reply_integer(reply_at(reply, 1));
    const bool is_partial = reply_is_array(reply, 6);

    if (part->is_staging) {
        const enum rc rc = staging_read(&part->staging, reply);

        part->is_staging = rc == RC_AGAIN;
        if (rc == RC_AGAIN)
            staging_send(&part->staging, &part->ingest->request, shard);
        else if (rc == RC_OK)
            send_kept(part, shard);
        return rc != RC_BAD;
    }
    if (part->kept != NULL && shard->ingests.holder != NULL &&
        bytes_equal_text(reply_bytes(reply), "WAIT")) {
        wait_for_holder(part, shard);
        return true;
    }
    if (!reply_is_array(reply, 4))
        return false;
    if (added > 0)
        shard->has_first_entry = true;
    stats_add(stats, STAT_STORE_NOTIFICATIONS, (uint64_t)added);
    if (!part->was_counted) /* later calls skip what the first has added */
        stats_add(stats, STAT_STORE_REPLAYED, (uint64_t)reply_integer(reply_at(reply, 2)));
    part->was_counted = true;
    if (is_partial)
        snprintf(part->open_ended, sizeof(part->open_ended), "%s",
                 reply_bytes(reply_at(reply, 6)).len > 0 ? reply_text(reply_at(reply, 6)) : "");
    if (is_partial)
        return continue_part(part, shard, (size_t)reply_integer(reply_at(reply, 4)),
                             reply_integer(reply_at(reply, 5)) != 0);
    record_entry(part, shard, reply_at(reply, 3));
    /* A batch that was stored in steps is reported at its end. */
    if (part->kept != NULL && shard->number == 0 && shard->store->shard_count > 1) {
        const char *position = reply_text(reply_at(reply, 0));

        part->is_advance = true;
        send_advance(part->ingest, shard, part->kept->argv[1], position, position,
                     part->kept->argv[6]);
    }
    end_part(part, shard);
    return true;
}

/* The script may have to be called again, or waits for such a batch. */
static bool
needs_steps(const struct shard *shard, const struct batch *batch)
{
    return batch_is_prepared(batch) || batch->has_groups || batch->users > STORE_PAIRS_MAX ||
           shard->ingests.kept > 0;
}

static void
ingest_by_script(struct ingest *ingest, struct shard *shard, const struct store_ingest_order *order,
                 const struct ingest_fields *fields, struct batch *batch)
{
    struct ingest_part *part = &ingest->parts[shard->number];
    const char *fixed[BATCH_RESERVED] = {shard->stream_key,
                                         fields->key,
                                         shard->prefix,
                                         shard->epoch,
                                         shard->store->feed_token,
                                         shard->sent_position,
                                         fields->read,
                                         fields->after,
                                         shard->store->script_settings.owner_pairs,
                                         shard->store->script_settings.web_push_delay};

    /* Other shards' frames also advance this shard's progress, unless the last frame does. */
    if (shard->store->shard_count > 1 && strcmp(shard->sent_position, order->position) < 0 &&
        (batch->position == NULL || strcmp(batch->position, order->position) != 0))
        batch_add_position(batch, order->position);
    batch_reserve(batch);
    for (size_t i = 0; i < BATCH_RESERVED; i++) {
        batch->argv[i] = fixed[i];
        batch->lens[i] = strlen(fixed[i]);
    }
    part->is_large = batch_is_prepared(batch);
    if (!needs_steps(shard, batch)) {
        /* One call of the script adds all notifications of the batch, and now. */
        shard_request_send_script_argv(&ingest->request, shard, STORE_SCRIPT_ingest, 2, batch->argc,
                                       batch->argv, batch->lens);
        return;
    }
    part->kept = arguments_keep(batch->argc, batch->argv, batch->lens);
    shard->ingests.kept++;
    if (shard->ingests.holder != NULL)
        wait_for_holder(part, shard);
    else
        send_kept(part, shard);
}

/*
 * A transaction stores simple batches without ingest.lua, which would double the cost in the
 * store, because it copies each argument into a Lua string. A single small notification is cheaper
 * in ingest.lua: it is one command with one reply. After the notifications, fence.lua does
 * the checks of ingest.lua, and removes the notifications again if a check fails. The names of the
 * progress fields contain the owner's token, so a fenced feed cannot change the progress of the
 * current owner.
 */

static void
put_notification(struct multi *multi, const char *stream,
                 const struct batch_notification *notification, const char *after,
                 const char *covered)
{
    static const char before_id[] = "$10\r\nNOMKSTREAM\r\n$1\r\n*\r\n$2\r\nid\r\n";
    static const char before_route[] = "$5\r\nroute\r\n";
    static const char before_data[] = "$4\r\ndata\r\n";

    multi_words(multi, 10u + (after[0] != '\0' ? 2 : 0) + (covered[0] != '\0' ? 2 : 0));
    multi_word(multi, "XADD", 4);
    multi_word(multi, stream, strlen(stream));
    multi_put(multi, before_id, sizeof(before_id) - 1);
    multi_word(multi, notification->id.at, notification->id.len);
    multi_put(multi, before_route, sizeof(before_route) - 1);
    multi_word(multi, notification->route.at, notification->route.len);
    multi_put(multi, before_data, sizeof(before_data) - 1);
    multi_word(multi, notification->data.at, notification->data.len);
    if (after[0] != '\0') {
        multi_word(multi, "after", 5);
        multi_word(multi, after, strlen(after));
    }
    if (covered[0] != '\0') {
        multi_word(multi, "covered", 7);
        multi_word(multi, covered, strlen(covered));
    }
}

/* `last`: the last notification of the batch. */
static void
put_end(struct multi *multi, const struct shard *shard, const struct store_ingest_order *order,
        const struct ingest_fields *fields, const struct batch *batch,
        const struct batch_notification *last)
{
    char position_field[STORE_TOKEN_TEXT + 16], read_field[STORE_TOKEN_TEXT + 16];
    char count[COUNT_TEXT], large[COUNT_TEXT];
    struct arguments fence = {.argc = 0}, move = {.argc = 0};

    *bytes_decimal(batch->notifications, count) = '\0';
    *bytes_decimal(batch->large, large) = '\0';
    argument(&fence, shard->stream_key);
    argument(&fence, fields->key);
    argument(&fence, shard->prefix);
    argument(&fence, shard->epoch);
    argument(&fence, shard->store->feed_token);
    argument(&fence, count);
    argument(&fence, shard->sent_position);
    if (batch->large > 0) {
        argument(&fence, large);
        argument_bytes(&fence, last->id.at, last->id.len);
        argument_bytes(&fence, last->route.at, last->route.len);
        argument(&fence, batch->notifications == 1 ? fields->after : "");
    }
    multi_script(multi, shard, batch->large > 0 ? STORE_SCRIPT_fence_large : STORE_SCRIPT_fence, 2,
                 fence.argc, fence.argv, fence.lens);
    arguments_free(&fence);
    text_join(position_field, sizeof(position_field), "position:", shard->store->feed_token, "");
    text_join(read_field, sizeof(read_field), "read:", shard->store->feed_token, "");
    argument(&move, "HMSET");
    argument(&move, fields->key);
    argument(&move, position_field);
    argument(&move, order->position);
    if (fields->read[0] != '\0') {
        argument(&move, read_field);
        argument(&move, fields->read);
    }
    multi_command(multi, &move);
    arguments_free(&move);
    multi_end(multi);
}

/* Reads EXEC's reply. */
static bool
read_transaction_reply(const struct ingest *ingest, struct shard *shard,
                       const struct redisReply *reply)
{
    const struct ingest_part *part = &ingest->parts[shard->number];
    const size_t notifications = part->notifications;

    if (!reply_is_array(reply, notifications + EXTRA_REPLIES))
        return false;
    for (size_t i = 0; i < notifications + EXTRA_REPLIES; i++)
        if (!shard_check_reply(shard, reply_at(reply, i), ingest->request.kind->failure))
            return false;
    record_entry(part, shard, reply_at(reply, notifications - 1));
    stats_add(shard->store->stats, STAT_STORE_NOTIFICATIONS, notifications);
    return true;
}

static bool
on_ingest_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct ingest *ingest = (struct ingest *)request;
    struct ingest_part *part = &ingest->parts[shard->number];

    if (part->is_advance)
        return reply_integer(reply) == 1;
    part->is_advance = part->kept == NULL; /* a further reply is that of advance.lua */
    return part->is_transaction ? read_transaction_reply(ingest, shard, reply)
                                : read_script_reply(part, shard, reply);
}

static void
finish_ingest(struct shard_request *request, enum rc rc)
{
    struct ingest *ingest = (struct ingest *)request;

    ingest->done(ingest->ctx, request->is_disconnected ? RC_CLOSED : rc);
    for (unsigned k = 0; k < request->store->shard_count; k++)
        end_part(&ingest->parts[k], &request->store->shards[k]);
}

static const struct shard_request_kind ingest_kind = {
    .failure = "could not store a batch", .on_reply = on_ingest_reply, .finish = finish_ingest};

static void
ingest_by_transaction(struct ingest *ingest, struct shard *shard,
                      const struct store_ingest_order *order, const struct ingest_fields *fields,
                      const struct batch *batch)
{
    struct multi multi;
    const char *after = fields->after;
    struct batch_notification found, last = {.id = {NULL, 0}};
    char covered[COVERED_TEXT] = "", timeline[BYTES_DECIMAL_MAX + 1] = "";
    size_t at = 0, left = batch->notifications;

    if (fields->read[0] != '\0') {
        *bytes_decimal(shard->acquired_timeline, timeline) = '\0';
        text_join(covered, sizeof(covered), fields->read, ".", timeline);
    }
    multi_begin(&multi, batch->bytes + batch->notifications * 128);
    while (batch_next_notification(batch, &at, &found) == RC_OK) {
        put_notification(&multi, shard->stream_key, &found, after, --left == 0 ? covered : "");
        after = "";
        last = found;
    }
    put_end(&multi, shard, order, fields, batch, &last);
    shard_request_send_commands(&ingest->request, shard, TIME_SCRIPT_INGEST, multi.bytes, multi.len,
                                multi.count);
}

static void
raise_sent(struct shard *shard, const struct store_ingest_order *order)
{
    if (strcmp(shard->sent_position, order->position) < 0)
        text_join(shard->sent_position, sizeof(shard->sent_position), order->position, "", "");
}

static void
send_frames(struct ingest *ingest, struct shard *shard, const struct store_ingest_order *order,
            struct batch *batch, const char *key, const char *read)
{
    const struct store *store = shard->store;
    struct ingest_part *part = &ingest->parts[shard->number];
    struct position newest_sent[STORE_SHARDS_MAX];
    char after[SHARD_DEPENDENCY_MAX] = "";
    const struct ingest_fields fields = {key, read, after};

    if (store->shard_count > 1 && batch->notifications > 0) {
        /* The batch is complete at this point, so the string covers frames of all shards. */
        for (unsigned k = 0; k < store->shard_count; k++)
            newest_sent[k] = store->shards[k].newest_sent;
        shard_dependency_text(shard->number, newest_sent, store->shard_count, after);
    }
    if (part->is_transaction)
        ingest_by_transaction(ingest, shard, order, &fields, batch);
    else
        ingest_by_script(ingest, shard, order, &fields, batch);
}

/* `records`: the shard records order->read_lsn, even if it has no frames. */
static void
send_part(struct ingest *ingest, struct shard *shard, const struct store_ingest_order *order,
          struct batch *batch, bool records)
{
    struct ingest_part *part = &ingest->parts[shard->number];
    const bool advances = records && order->read_lsn > shard->read_lsn;
    /*
     * While the memberships are copied, and behind a batch that is stored in steps, ingest.lua
     * advances the progress.
     */
    const bool is_copying = strcmp(shard->sent_position, POSITION_OF_COPY) < 0;
    const bool has_frames = batch->count > 0 || shard->ingests.kept > 0 || is_copying;
    const unsigned before = ingest->request.left;
    char key[STORE_KEY_MAX], read[INGEST_LSN_TEXT + 1];
    bool is_whole; /* with the frames, the shard records all */

    if (batch->count > STORE_BATCH_FRAMES_MAX)
        abort(); /* the caller has checked the limit */
    *part = (struct ingest_part){.is_advance = !has_frames,
                                 .ingest = ingest,
                                 .notifications = batch->notifications,
                                 .newest_sent = shard->newest_sent};
    part->is_transaction = batch->is_simple && (batch->notifications > 1 || batch->large > 0) &&
                           shard->has_first_entry && shard->ingests.kept == 0;
    is_whole = has_frames && (shard->store->shard_count == 1 || !records || is_copying ||
                              (!part->is_transaction && needs_steps(shard, batch)));
    ingest_progress_key(shard, order->slot, key);
    ingest_lsn_text(advances ? order->read_lsn : 0, read);
    if (has_frames) {
        send_frames(ingest, shard, order, batch, key, is_whole ? read : "");
        raise_sent(shard, order);
    }
    if (!is_whole) {
        send_advance(ingest, shard, key, shard->sent_position, order->position, read);
        raise_sent(shard, order);
    }
    if (ingest->request.left > before && advances)
        shard->read_lsn = order->read_lsn;
}

/* The first available shard; usually shard 0. */
static unsigned
first_shard(const struct store *store)
{
    unsigned first = 0;

    while (first + 1 < store->shard_count && store->shards[first].is_left_out)
        first++;
    return first;
}

enum rc
store_ingest(struct store *store, const struct store_ingest_order *order, struct store_batch *batch,
             store_ingested *done, void *ctx)
{
    struct ingest *ingest;

    if (!store->is_up)
        return RC_AGAIN;
    ingest = shard_request_new(sizeof(*ingest) + store->shard_count * sizeof(*ingest->parts), store,
                               &ingest_kind);
    ingest->done = done;
    ingest->ctx = ctx;
    for (unsigned k = 0; k < store->shard_count; k++) {
        struct shard *shard = &store->shards[k];
        const bool records = order->is_record || k == first_shard(store);

        /*
         * PostgreSQL sends these frames again when the shard returns: feed/stream.c retains the
         * WAL.
         */
        if (!shard->is_left_out && (records || batch->parts[k].count > 0))
            send_part(ingest, shard, order, &batch->parts[k], records);
    }
    batch_clear(batch);
    return shard_request_sent(&ingest->request);
}

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

/* Keeps the lowest progress. An emptied shard has no read LSN (0) and is ignored. */
static void
merge_progress(struct acquire *acquire, struct shard *shard, const struct redisReply *reply)
{
    const char *position = reply_text(reply_at(reply, 0));
    uint32_t timeline = (uint32_t)strtoul(reply_text(reply_at(reply, 1)), NULL, 10);

    shard->read_lsn = strtoull(reply_text(reply_at(reply, 2)), NULL, 16);
    shard->acquired_timeline = timeline;
    shard->acquired = position_from(reply_bytes(reply_at(reply, 0)));
    shard->stored = position_from(reply_bytes(reply_at(reply, 5)));
    position_raise(&shard->stored, shard->acquired);
    /* The newest notification, unless it is beyond the progress. For several shards. */
    shard->newest_sent = position_from(reply_bytes(reply_at(reply, 3)));
    if (shard->newest_sent.lsn > shard->acquired.lsn)
        shard->newest_sent = (struct position){0, 0};
    shard->newest_acquired = bytes_equal_text(reply_bytes(reply_at(reply, 3)), "-")
                                 ? shard->acquired
                                 : shard->newest_sent;
    snprintf(shard->sent_position, sizeof(shard->sent_position), "%s", position);
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

static void
on_acquire_error(struct shard_request *request, const struct redisReply *reply)
{
    static const char *const words[] = {"OTHERSYSTEM ", "OTHERDATABASE ", "OTHERSLOT "};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strncmp(reply_text(reply), words[i], strlen(words[i])) == 0)
            ((struct acquire *)request)->is_rejected = true;
}

/*
 * Users may have received newer notifications of another shard before the notifications that this
 * shard lacks: readers wait at most READER_ORDER_WAIT_S.
 */
static void
set_late_before(struct store *store)
{
    struct shard *shared = &store->shards[0];

    shared->late_before = (struct position){0, 0};
    for (unsigned k = 1; k < store->shard_count; k++) {
        struct shard *shard = &store->shards[k];

        shard->late_before = shared->is_left_out ? shared->seen_position : shared->newest_acquired;
        position_raise(&shared->late_before,
                       shard->is_left_out ? shard->seen_position : shard->newest_acquired);
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

/* Deletes a part of the shard's memberships. A loss of the connection ends the deletion. */
static void
send_deletion(struct acquire *acquire, struct shard *shard, const char *cursor)
{
    struct arguments arguments = {.argc = 0};

    shard_arguments(shard, &arguments);
    argument(&arguments, cursor);
    shard_request_send_script(&acquire->request, shard, STORE_SCRIPT_delete_members, 1, &arguments);
}

static bool
on_deletion_reply(struct acquire *acquire, struct shard *shard, const char *cursor)
{
    if (cursor == NULL)
        return false;
    if (strcmp(cursor, "0") != 0)
        send_deletion(acquire, shard, cursor);
    return true;
}

/*
 * Shard 0 is acquired first, if it is available. So if two databases acquire an empty store
 * simultaneously, one of the two acquires all shards.
 */
static bool
on_acquire_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct acquire *acquire = (struct acquire *)request;

    if (!reply_is_array(reply, 0))
        return on_deletion_reply(acquire, shard, reply_text(reply));
    if (!reply_is_array(reply, 3) || reply_text(reply_at(reply, 0)) == NULL ||
        reply_text(reply_at(reply, 1)) == NULL || reply_text(reply_at(reply, 2)) == NULL ||
        strlen(reply_text(reply_at(reply, 0))) > FRAME_POSITION_TEXT)
        return false;
    merge_progress(acquire, shard, reply);
    if (bytes_equal_text(reply_bytes(reply_at(reply, 4)), "1"))
        send_deletion(acquire, shard, "0");
    for (unsigned k = acquire->first + 1;
         shard->number == acquire->first && k < request->store->shard_count; k++) {
        if (!request->store->shards[k].is_left_out)
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
    random_hex(store->feed_token, STORE_TOKEN_TEXT);
    while (acquire->first + 1 < store->shard_count && store->shards[acquire->first].is_left_out)
        acquire->first++;
    send_acquire(acquire, &store->shards[acquire->first]);
    return shard_request_sent(&acquire->request);
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

static const struct shard_request_kind rewind_kind = {
    .failure = "could not rewind the slot's progress", .finish = finish_rewind};

static void
send_rewind(struct shard_request *request, struct shard *shard, const char *slot,
            const struct store_rewind *rewind, const char *fresh_epoch)
{
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX], timeline_text[16], undone[INGEST_LSN_TEXT + 1] = "";
    char read[INGEST_LSN_TEXT + 1], own[FRAME_POSITION_TEXT + 1] = "";
    char stored[FRAME_POSITION_TEXT + 1] = "";

    ingest_progress_key(shard, slot, key);
    ingest_lsn_text(rewind->read_lsn, read);
    if (rewind->is_undone)
        snprintf(undone, sizeof(undone), "%016" PRIx64, rewind->undone_lsn);
    snprintf(timeline_text, sizeof(timeline_text), "%" PRIu32, rewind->timeline);
    if (shard->acquired.lsn != 0 || shard->acquired.ordinal != 0)
        frame_position_text(shard->acquired.lsn, shard->acquired.ordinal, own);
    if (shard->stored.lsn != 0)
        frame_position_text(shard->stored.lsn, shard->stored.ordinal, stored);
    argument(&arguments, key);
    argument(&arguments, shard->prefix);
    argument(&arguments, request->store->feed_token);
    argument(&arguments, timeline_text);
    if (rewind->resets_members && shard->number == 0)
        own[0] = '\0';
    /* the lower of the shard's position and the new position */
    argument(&arguments, strcmp(own, rewind->position) < 0 ? own : rewind->position);
    argument(&arguments, fresh_epoch);
    argument(&arguments, read);
    argument(&arguments, undone);
    argument(&arguments, strcmp(stored, rewind->position) < 0 ? stored : rewind->position);
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
        random_hex(fresh_epoch, STORE_EPOCH_TEXT);
    for (unsigned k = 0; k < store->shard_count; k++) {
        const struct shard *shard = &store->shards[k];

        if ((rewind->of_timeline == 0 || shard->acquired_timeline == rewind->of_timeline) &&
            (rewind->read_lsn_below == 0 || shard->read_lsn < rewind->read_lsn_below))
            send_rewind(request, &store->shards[k], slot, rewind, fresh_epoch);
    }
    return shard_request_sent(request);
}
