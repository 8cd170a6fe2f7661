/* ingest.c: a feed's batches into the store: as one transaction, or by the ingest script. */
#include "store/ingest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/batch.h"
#include "store/reply.h"

/* Commands of a transaction beside its notes. */
#define COMMANDS_MORE 4 /* MULTI, EVAL, HMSET, EXEC */
#define COMMANDS_MAX (STORE_BATCH_FRAMES_MAX + COMMANDS_MORE)
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
ingest_progress_key(const struct store *store, const char *slot, char ret_key[STORE_KEY_MAX])
{
    snprintf(ret_key, STORE_KEY_MAX, "%s:progress:%s", store->prefix, slot);
}

static void
saw_entry(struct store *store, const redisReply *reply)
{
    struct bytes text = reply_bytes(reply);
    struct entry_id entry;

    if (text.at != NULL && entry_id_read((const char *)text.at, text.len, &entry) == RC_OK)
        store_saw(store, 0, entry);
}

bool
store_takes(const struct store *store, const struct frame *frame)
{
    return frame->kind != FRAME_KIND_NOTE || frame->as.note.data.len <= store->note_max;
}

/* By the script: for all that changes more than the stream and the progress. */

static void
on_ingested(void *ctx, const redisReply *reply)
{
    struct call *call = ctx;
    struct store *store = call->store;
    enum rc rc = RC_IO;

    if (call_succeeded(store, reply, "store a batch") && reply_is_array(reply, 4)) {
        saw_entry(store, reply->element[3]);
        if (reply->element[1]->integer > 0)
            store->knows_first = true;
        stats_add(store->stats, STAT_STORE_NOTES, (uint64_t)reply->element[1]->integer);
        stats_add(store->stats, STAT_STORE_REPLAYED, (uint64_t)reply->element[2]->integer);
        rc = RC_OK;
    }
    call->done.ingested(call->ctx, rc);
    free(call);
}

static enum rc
ingest_by_script(struct call *call, const char *key, const char *after, const char *read,
                 struct store_batch *batch)
{
    struct store *store = call->store;
    const char *fixed[BATCH_RESERVED] = {store->stream_key, key,   store->prefix, store->epoch,
                                         store->claim,      after, read};

    batch_reserve(batch);
    for (size_t i = 0; i < BATCH_RESERVED; i++) {
        batch->argv[i] = fixed[i];
        batch->lens[i] = strlen(fixed[i]);
    }
    return link_call(store->link, STORE_SCRIPT_ingest, 2, on_ingested, call, (int)batch->argc,
                     batch->argv, batch->lens);
}

/*
 * As a transaction: a script costs the store as much again as adding the notes does, for each of
 * their texts is made one of Lua's first. Behind the notes, fence.lua looks at what ingest.lua looks
 * at before it adds any, and takes them back if it has to. The progress is a field of this claim
 * alone: a feed that lost the slot, or whose batch was refused, moves nobody's.
 */

/* Commands in the store's protocol, one after the other. */
struct commands {
    char *bytes;
    size_t len;
    size_t room;
    size_t lens[COMMANDS_MAX];
    size_t count;
};

/* Answers that are still to come: one for each command, the last one of EXEC. */
struct transaction {
    struct call *call;
    size_t left;
    size_t notes;
    bool has_failed;
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
    size_t start = commands->len;

    put_number(commands, '*', count);
    for (size_t i = 0; i < count; i++)
        put_argument(commands, words[i], strlen(words[i]));
    commands->lens[commands->count++] = commands->len - start;
}

static void
put_note(struct commands *commands, const char *stream, const struct batch_note *note)
{
    static const char before_id[] = "$10\r\nNOMKSTREAM\r\n$1\r\n*\r\n$2\r\nid\r\n";
    static const char before_route[] = "$5\r\nroute\r\n";
    static const char before_data[] = "$4\r\ndata\r\n";
    size_t start = commands->len;

    put_number(commands, '*', 10);
    put_argument(commands, "XADD", 4);
    put_argument(commands, stream, strlen(stream));
    put(commands, before_id, sizeof(before_id) - 1);
    put_argument(commands, note->id.at, note->id.len);
    put(commands, before_route, sizeof(before_route) - 1);
    put_argument(commands, note->route.at, note->route.len);
    put(commands, before_data, sizeof(before_data) - 1);
    put_argument(commands, note->data.at, note->data.len);
    commands->lens[commands->count++] = commands->len - start;
}

static void
put_end(struct commands *commands, const struct store *store, const char *key, const char *after,
        const char *position, const char *read, size_t notes)
{
    char position_field[STORE_TOKEN_TEXT + 16], read_field[STORE_TOKEN_TEXT + 16];
    char count[COUNT_TEXT];
    const char *const move[] = {"HMSET", key, position_field, position, read_field, read};
    /* Not by its hash: a store that has forgotten its scripts would leave it out. */
    const char *const fence[] = {"EVAL",       store_script_fence,
                                 "2",          store->stream_key,
                                 key,          store->prefix,
                                 store->epoch, store->claim,
                                 count,        after};
    const char *const exec[] = {"EXEC"};

    snprintf(position_field, sizeof(position_field), "position:%s", store->claim);
    snprintf(read_field, sizeof(read_field), "read:%s", store->claim);
    snprintf(count, sizeof(count), "%zu", notes);
    put_command(commands, fence, 10);
    put_command(commands, move, read[0] != '\0' ? 6 : 4);
    put_command(commands, exec, 1);
}

/* EXEC's answer; any other that is an error made it fail. */
static enum rc
take_end(struct transaction *transaction, const redisReply *reply)
{
    struct store *store = transaction->call->store;
    size_t notes = transaction->notes;

    if (transaction->has_failed || !call_succeeded(store, reply, "store a batch") ||
        !reply_is_array(reply, notes + ANSWERS_MORE))
        return RC_IO;
    for (size_t i = 0; i < notes + ANSWERS_MORE; i++)
        if (!call_succeeded(store, reply->element[i], "store a batch"))
            return RC_IO;
    saw_entry(store, reply->element[notes - 1]);
    stats_add(store->stats, STAT_STORE_NOTES, notes);
    return RC_OK;
}

static void
on_transaction(void *ctx, const redisReply *reply)
{
    struct transaction *transaction = ctx;
    struct call *call = transaction->call;
    bool is_error = reply == NULL || reply->type == REDIS_REPLY_ERROR;

    if (--transaction->left > 0) {
        /* The first one says why; those after it, and EXEC, only that there was one. */
        if (is_error && !transaction->has_failed) {
            transaction->has_failed = true;
            (void)call_succeeded(call->store, reply, "store a batch");
        }
        return;
    }
    call->done.ingested(call->ctx, take_end(transaction, reply));
    free(call);
    free(transaction);
}

static enum rc
ingest_at_once(struct call *call, const char *key, const char *after, const char *position,
               const char *read, const struct store_batch *batch)
{
    struct store *store = call->store;
    const char *const multi[] = {"MULTI"};
    struct commands commands = {.count = 0};
    struct transaction *transaction;
    struct batch_note note;
    size_t at = 0;
    enum rc rc;

    commands.room = batch->bytes + batch->notes * 128 + strlen(store_script_fence) + 1024;
    commands.bytes = memory_grow(NULL, commands.room);
    put_command(&commands, multi, 1);
    while (batch_next_note(batch, &at, &note) == RC_OK)
        put_note(&commands, store->stream_key, &note);
    put_end(&commands, store, key, after, position, read, batch->notes);
    transaction = memory_new(sizeof(*transaction));
    *transaction =
        (struct transaction){.call = call, .left = commands.count, .notes = batch->notes};
    rc = link_send_ready(store->link, TIME_SCRIPT_INGEST, on_transaction, transaction,
                         commands.bytes, commands.lens, commands.count);
    free(commands.bytes);
    if (rc != RC_OK)
        free(transaction);
    return rc;
}

enum rc
store_ingest(struct store *store, const char *slot, const char *after, const char *position,
             uint64_t read_lsn, struct store_batch *batch, store_ingested *done, void *ctx)
{
    char key[STORE_KEY_MAX], read[INGEST_LSN_TEXT + 1];
    struct call *call;
    enum rc rc;

    if (!store->is_up)
        return RC_AGAIN;
    if (batch->count > STORE_BATCH_FRAMES_MAX)
        abort(); /* the caller counts */
    ingest_progress_key(store, slot, key);
    ingest_lsn_text(read_lsn > store->read_lsn ? read_lsn : 0, read);
    call = call_new(store, ctx);
    call->done.ingested = done;
    rc = batch->is_simple && batch->notes > 0 && store->knows_first
             ? ingest_at_once(call, key, after, position, read, batch)
             : ingest_by_script(call, key, after, read, batch);
    batch_clear(batch);
    if (rc != RC_OK)
        free(call);
    else if (read_lsn > store->read_lsn)
        store->read_lsn = read_lsn;
    return rc;
}
