/* ingest.c: a feed's batches into the store: as one transaction, or by the ingest script. */
#include "store/ingest/ingest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/shards/shard_dependency.h"
#include "store/ingest/batch.h"
#include "store/connection/reply.h"

#define ANSWERS_MORE 2 /* of EXEC's answer: EVAL, HMSET */
#define COUNT_TEXT 24

void
ingest_lsn_text(uint64_t lsn, char ret_text[INGEST_LSN_TEXT + 1])
{
    ret_text[0] = '\0';
    if (lsn != 0)
        snprintf(ret_text, INGEST_LSN_TEXT + 1, "%016" PRIx64, lsn);
}

void
ingest_progress_key(const struct shard *shard, const char *slot, char ret_key[STORE_KEY_MAX])
{
    key_write_of(ret_key, STORE_KEY_MAX, shard->prefix, KEY_PROGRESS, slot);
}

bool
store_takes(const struct store *store, const struct frame *frame)
{
    if (frame->kind != FRAME_KIND_NOTE)
        return true;
    for (unsigned k = 0; k < store->shard_count; k++) {
        if (frame->as.note.data.len > store->shards[k].note_max)
            return false;
    }
    return true;
}

/*
 * A batch goes to all shards: what is theirs, and to each how far the progress is with it. So each
 * answers in the order of the batches, and the last answer to a batch comes before that to the
 * next.
 */
struct ingest;

struct ingest_part {
    struct ingest *ingest;
    struct shard *shard;
    size_t left; /* of a transaction, answers that are still to come: one for each command */
    size_t notes;
    struct position noted; /* the newest note of this shard, with the batch */
    bool has_failed;
};

struct ingest {
    store_ingested *done;
    void *ctx;
    unsigned left; /* parts under way */
    bool has_failed;
    struct ingest_part parts[];
};

/* What all parts of a batch share, and the claim. */
struct ingest_order {
    const char *slot;
    const char *after;
    const char *position;
    uint64_t read_lsn;
};

/* What is told to one shard. */
struct ingest_told {
    const char *key;
    const char *read;
    const char *after; /* with the first note that is added, "": nothing */
};

static void
saw_entry(const struct ingest_part *part, const struct redisReply *reply)
{
    struct shard *shard = part->shard;
    struct bytes text = reply_bytes(reply);
    struct entry_id entry;

    if (text.at == NULL || entry_id_read((const char *)text.at, text.len, &entry) != RC_OK)
        return;
    store_saw_to(shard->store, shard->number, entry, part->noted);
}

static void
finish_part(struct ingest_part *part, enum rc rc)
{
    struct ingest *ingest = part->ingest;

    if (rc != RC_OK)
        ingest->has_failed = true;
    if (--ingest->left > 0)
        return;
    ingest->done(ingest->ctx, ingest->has_failed ? RC_IO : RC_OK);
    free(ingest);
}

/* By the script: for all that changes more than the stream and the progress. */

static void
on_ingested(void *ctx, const struct redisReply *reply)
{
    struct ingest_part *part = ctx;
    struct shard *shard = part->shard;
    struct stats *stats = shard->store->stats;
    enum rc rc = RC_IO;

    if (call_succeeded(shard, reply, "store a batch") && reply_is_array(reply, 4)) {
        saw_entry(part, reply_at(reply, 3));
        if (reply_integer(reply_at(reply, 1)) > 0)
            shard->knows_first = true;
        stats_add(stats, STAT_STORE_NOTES, (uint64_t)reply_integer(reply_at(reply, 1)));
        stats_add(stats, STAT_STORE_REPLAYED, (uint64_t)reply_integer(reply_at(reply, 2)));
        rc = RC_OK;
    }
    finish_part(part, rc);
}

static enum rc
ingest_by_script(struct ingest_part *part, const struct ingest_order *order,
                 const struct ingest_told *told, struct batch *batch)
{
    struct shard *shard = part->shard;
    const char *fixed[BATCH_RESERVED] = {shard->stream_key, told->key,           shard->prefix,
                                         shard->epoch,      shard->store->claim, order->after,
                                         told->read,        told->after};

    /* What others got moves the progress here too; frames that end the batch have done so. */
    if (shard->store->shard_count > 1 && strcmp(order->after, order->position) != 0 &&
        (batch->position == NULL || strcmp(batch->position, order->position) != 0))
        batch_add_position(batch, order->position);
    batch_reserve(batch);
    for (size_t i = 0; i < BATCH_RESERVED; i++) {
        batch->argv[i] = fixed[i];
        batch->lens[i] = strlen(fixed[i]);
    }
    return link_call(shard->link, STORE_SCRIPT_ingest, 2, on_ingested, part, (int)batch->argc,
                     batch->argv, batch->lens);
}

/*
 * As a transaction: a script costs the store as much again as adding the notes does, for each of
 * their texts is made one of Lua's first. Behind the notes, fence.lua looks at what ingest.lua
 * looks at before it adds any, and takes them back if it has to. The progress is a field of this
 * claim alone: a feed that lost the slot, or whose batch was refused, moves nobody's.
 */

/* Commands in the store's protocol, one after the other. */
struct commands {
    char *bytes;
    size_t len;
    size_t room;
    size_t count;
};

static void
put(struct commands *commands, const void *bytes, size_t len)
{
    if (commands->room - commands->len < len) {
        commands->room = 2 * (commands->room + len);
        commands->bytes = memory_grow(commands->bytes, commands->room);
    }
    memcpy(commands->bytes + commands->len, bytes, len);
    commands->len += len;
}

static void
put_number(struct commands *commands, char kind, size_t number)
{
    char text[COUNT_TEXT];
    char *at = text + sizeof(text);

    *--at = '\n';
    *--at = '\r';
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    *--at = kind;
    put(commands, at, (size_t)(text + sizeof(text) - at));
}

static void
put_argument(struct commands *commands, const void *bytes, size_t len)
{
    put_number(commands, '$', len);
    put(commands, bytes, len);
    put(commands, "\r\n", 2);
}

static void
put_command(struct commands *commands, const char *const *words, size_t count)
{
    put_number(commands, '*', count);
    for (size_t i = 0; i < count; i++)
        put_argument(commands, words[i], strlen(words[i]));
    commands->count++;
}

static void
put_note(struct commands *commands, const char *stream, const struct batch_note *note,
         const char *after)
{
    static const char before_id[] = "$10\r\nNOMKSTREAM\r\n$1\r\n*\r\n$2\r\nid\r\n";
    static const char before_route[] = "$5\r\nroute\r\n";
    static const char before_data[] = "$4\r\ndata\r\n";

    put_number(commands, '*', after[0] != '\0' ? 12 : 10);
    put_argument(commands, "XADD", 4);
    put_argument(commands, stream, strlen(stream));
    put(commands, before_id, sizeof(before_id) - 1);
    put_argument(commands, note->id.at, note->id.len);
    put(commands, before_route, sizeof(before_route) - 1);
    put_argument(commands, note->route.at, note->route.len);
    put(commands, before_data, sizeof(before_data) - 1);
    put_argument(commands, note->data.at, note->data.len);
    if (after[0] != '\0') {
        put_argument(commands, "after", 5);
        put_argument(commands, after, strlen(after));
    }
    commands->count++;
}

static void
put_end(struct commands *commands, const struct shard *shard, const struct ingest_order *order,
        const struct ingest_told *told, size_t notes)
{
    char position_field[STORE_TOKEN_TEXT + 16], read_field[STORE_TOKEN_TEXT + 16];
    char count[COUNT_TEXT];
    const char *const move[] = {"HMSET",         told->key,  position_field,
                                order->position, read_field, told->read};
    /* Not by its hash: a store that has forgotten its scripts would leave it out. */
    const char *const fence[] = {"EVAL",    store_script_fence, "2",          shard->stream_key,
                                 told->key, shard->prefix,      shard->epoch, shard->store->claim,
                                 count,     order->after};
    const char *const exec[] = {"EXEC"};

    snprintf(position_field, sizeof(position_field), "position:%s", shard->store->claim);
    snprintf(read_field, sizeof(read_field), "read:%s", shard->store->claim);
    snprintf(count, sizeof(count), "%zu", notes);
    put_command(commands, fence, 10);
    put_command(commands, move, told->read[0] != '\0' ? 6 : 4);
    put_command(commands, exec, 1);
}

/* EXEC's answer; any other that is an error made it fail. */
static enum rc
take_end(const struct ingest_part *part, const struct redisReply *reply)
{
    struct shard *shard = part->shard;
    size_t notes = part->notes;

    if (part->has_failed || !call_succeeded(shard, reply, "store a batch") ||
        !reply_is_array(reply, notes + ANSWERS_MORE))
        return RC_IO;
    for (size_t i = 0; i < notes + ANSWERS_MORE; i++)
        if (!call_succeeded(shard, reply_at(reply, i), "store a batch"))
            return RC_IO;
    saw_entry(part, reply_at(reply, notes - 1));
    stats_add(shard->store->stats, STAT_STORE_NOTES, notes);
    return RC_OK;
}

static void
on_transaction(void *ctx, const struct redisReply *reply)
{
    struct ingest_part *part = ctx;
    bool is_error = reply == NULL || reply_is_error(reply);

    if (--part->left == 0) {
        finish_part(part, take_end(part, reply));
        return;
    }
    /* The first one says why; those after it, and EXEC, only that there was one. */
    if (is_error && !part->has_failed) {
        part->has_failed = true;
        (void)call_succeeded(part->shard, reply, "store a batch");
    }
}

static enum rc
ingest_at_once(struct ingest_part *part, const struct ingest_order *order,
               const struct ingest_told *told, const struct batch *batch)
{
    struct shard *shard = part->shard;
    const char *const multi[] = {"MULTI"};
    struct commands commands = {.count = 0};
    const char *after = told->after;
    struct batch_note note;
    size_t at = 0;

    commands.room = batch->bytes + batch->notes * 128 + strlen(store_script_fence) + 1024;
    commands.bytes = memory_grow(NULL, commands.room);
    put_command(&commands, multi, 1);
    while (batch_next_note(batch, &at, &note) == RC_OK) {
        put_note(&commands, shard->stream_key, &note, after);
        after = "";
    }
    put_end(&commands, shard, order, told, batch->notes);
    part->left = commands.count;
    part->notes = batch->notes;
    return link_send_ready(shard->link, TIME_SCRIPT_INGEST, on_transaction, part, commands.bytes,
                           commands.len, commands.count);
}

/* All of the batch's notes are noted: what is behind this part in another shard is so too. */
static void
tell_after(const struct shard *shard, char ret_text[SHARD_DEPENDENCY_MAX])
{
    struct position noted[STORE_SHARDS_MAX];
    const struct store *store = shard->store;

    for (unsigned k = 0; k < store->shard_count; k++)
        noted[k] = store->shards[k].noted;
    shard_dependency_text(shard->number, noted, store->shard_count, ret_text);
}

static enum rc
send_part(struct ingest_part *part, const struct ingest_order *order, struct batch *batch)
{
    struct shard *shard = part->shard;
    bool is_news = order->read_lsn > shard->read_lsn;
    char key[STORE_KEY_MAX], read[INGEST_LSN_TEXT + 1], after[SHARD_DEPENDENCY_MAX] = "";
    const struct ingest_told told = {key, read, after};
    enum rc rc;

    if (batch->count > STORE_BATCH_FRAMES_MAX)
        abort(); /* the caller counts */
    ingest_progress_key(shard, order->slot, key);
    ingest_lsn_text(is_news ? order->read_lsn : 0, read);
    if (shard->store->shard_count > 1 && batch->notes > 0)
        tell_after(shard, after);
    part->noted = shard->noted;
    rc = batch->is_simple && batch->notes > 0 && shard->knows_first
             ? ingest_at_once(part, order, &told, batch)
             : ingest_by_script(part, order, &told, batch);
    if (rc == RC_OK && is_news)
        shard->read_lsn = order->read_lsn;
    return rc;
}

enum rc
store_ingest(struct store *store, const char *slot, const char *after, const char *position,
             uint64_t read_lsn, struct store_batch *batch, store_ingested *done, void *ctx)
{
    const struct ingest_order order = {slot, after, position, read_lsn};
    struct ingest *ingest;

    if (!store->is_up)
        return RC_AGAIN;
    ingest = memory_new(sizeof(*ingest) + store->shard_count * sizeof(*ingest->parts));
    ingest->done = done;
    ingest->ctx = ctx;
    for (unsigned k = 0; k < store->shard_count; k++) {
        ingest->parts[k] = (struct ingest_part){.ingest = ingest, .shard = &store->shards[k]};
        if (send_part(&ingest->parts[k], &order, &batch->parts[k]) == RC_OK)
            ingest->left++;
        else
            ingest->has_failed = true;
    }
    batch_clear(batch);
    if (ingest->left > 0)
        return RC_OK;
    free(ingest);
    return RC_AGAIN;
}
