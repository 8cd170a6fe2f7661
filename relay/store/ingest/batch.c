/* batch.c: frames as arguments of the ingest script. */
#include "store/ingest/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/shards/store_private.h"

#define TEXT_SIZE (FRAME_UUID_TEXT + 1) /* the longest of them */
#define BLOCK_TEXTS 128
#define TURN_FRAMES 32 /* fewer are not worth a batch of their own */
/* A note that needs acks takes the store 30 us and more, all in one step. */
#define SCRIPT_FRAMES 64
/* What a note without acks and a commit take of the arguments. */
#define NOTE_ARGUMENTS 5
#define COMMIT_ARGUMENTS 2

/* A frame that only moves the progress: its kind and position, as an argument would have it. */
#define POSITION_BYTES (1 + FRAME_POSITION_TEXT)

static void
clear_part(struct batch *part)
{
    part->text_count = 0;
    part->argc = BATCH_RESERVED;
    part->count = 0;
    part->notes = 0;
    part->is_simple = true;
    part->position = NULL;
    part->bytes = 0;
}

struct store_batch *
store_batch_new(struct store *store)
{
    struct store_batch *batch =
        memory_new(sizeof(*batch) + store->shard_count * sizeof(*batch->parts));

    batch->store = store;
    batch->part_count = store->shard_count;
    batch_clear(batch);
    return batch;
}

void
batch_clear(struct store_batch *batch)
{
    for (unsigned k = 0; k < batch->part_count; k++)
        clear_part(&batch->parts[k]);
    batch->count = 0;
    batch->bytes = 0;
}

static void
free_part(struct batch *part)
{
    for (size_t i = 0; i < part->block_count; i++)
        free(part->blocks[i]);
    free(part->blocks);
    free(part->argv);
    free(part->lens);
}

void
store_batch_free(struct store_batch *batch)
{
    if (batch == NULL)
        return;
    for (unsigned k = 0; k < batch->part_count; k++)
        free_part(&batch->parts[k]);
    free(batch);
}

size_t
store_batch_bytes(const struct store_batch *batch)
{
    return batch->bytes;
}

size_t
store_batch_count(const struct store_batch *batch)
{
    return batch->count;
}

void
batch_reserve(struct batch *batch)
{
    if (batch->argc + 1 <= batch->room)
        return;
    batch->room = batch->room == 0 ? 256 : batch->room * 2;
    batch->argv = memory_grow(batch->argv, batch->room * sizeof(*batch->argv));
    batch->lens = memory_grow(batch->lens, batch->room * sizeof(*batch->lens));
}

static void
add_bytes(struct batch *batch, struct bytes bytes)
{
    batch_reserve(batch);
    batch->argv[batch->argc] = bytes.len > 0 ? (const char *)bytes.at : "";
    batch->lens[batch->argc++] = bytes.len;
    batch->bytes += bytes.len;
}

/* Room for a text of at most TEXT_SIZE that lives as long as the batch is not cleared. */
static char *
new_text(struct batch *batch)
{
    size_t block = batch->text_count / BLOCK_TEXTS;

    if (block == batch->block_count) {
        batch->blocks = memory_grow(batch->blocks, (block + 1) * sizeof(*batch->blocks));
        batch->blocks[batch->block_count++] = memory_new(BLOCK_TEXTS * TEXT_SIZE);
    }
    return batch->blocks[block] + batch->text_count++ % BLOCK_TEXTS * TEXT_SIZE;
}

static void
add_text(struct batch *batch, const char *text)
{
    add_bytes(batch, (struct bytes){(const unsigned char *)text, strlen(text)});
}

static void
add_start(struct batch *batch, const char *kind, const struct frame *frame)
{
    char *position = new_text(batch);

    frame_position_text(frame->commit_lsn, frame->ordinal, position);
    add_text(batch, kind);
    add_text(batch, position);
    batch->position = position;
}

/* `kind` as ingest.lua has it. */
static void
add_note(struct batch *batch, const struct frame *frame, const char *kind)
{
    const struct frame_notification *note = &frame->as.notification;
    struct bytes targets = note->targets;
    struct bytes target;
    char *text = new_text(batch);

    batch->notes++;
    add_start(batch, kind, frame);
    frame_id_text(note->id, text);
    add_text(batch, text);
    add_bytes(batch, note->head);
    if (kind[0] != 'R')
        add_bytes(batch, note->data);
    if (kind[0] == 'N')
        return;
    add_bytes(batch, note->audience);
    text = new_text(batch);
    snprintf(text, TEXT_SIZE, "%u", note->target_count);
    add_text(batch, text);
    while (frame_next_target(&targets, &target) == RC_OK)
        add_bytes(batch, target);
}

static bool
is_simple(const struct frame *frame)
{
    return frame->kind == FRAME_KIND_COMMIT ||
           (frame->kind == FRAME_KIND_NOTIFICATION &&
            (frame->flags & (FRAME_ACK_REQUIRED | FRAME_UNDECODABLE)) == 0);
}

/* Memberships, and what goes by them, are of shard 0. */
static unsigned
shard_of(const struct store_batch *batch, const struct frame *frame)
{
    const struct frame_notification *note = &frame->as.notification;
    struct bytes targets, target;

    if (batch->store->shard_count == 1 || frame->kind != FRAME_KIND_NOTIFICATION ||
        note->target_count != 1 || note->audience.len != 4 ||
        memcmp(note->audience.at, "USER", 4) != 0)
        return 0;
    targets = note->targets;
    if (frame_next_target(&targets, &target) != RC_OK)
        return 0;
    return shard_of_user(batch->store->shard_count, (const char *)target.at, target.len);
}

bool
store_batch_is_full(const struct store_batch *batch, const struct frame *frame)
{
    const struct batch *part = &batch->parts[shard_of(batch, frame)];
    bool turns = frame->kind != FRAME_KIND_COMMIT && part->is_simple != is_simple(frame);
    size_t most = STORE_BATCH_FRAMES_MAX;

    /*
     * Of several streams that a relay blocks on, it is given the one alone that gets something
     * first: that of memberships, where notes by them come with them.
     */
    if (frame->kind == FRAME_KIND_MEMBER && part->notes > 0)
        return true;
    if (!part->is_simple)
        most = SCRIPT_FRAMES;
    return part->count >= (turns ? TURN_FRAMES : most);
}

static void
add_frame(struct batch *batch, const struct frame *frame, bool is_rejected)
{
    const struct frame_member *member = &frame->as.member;

    batch->count++;
    if (is_rejected || !is_simple(frame))
        batch->is_simple = false;
    switch (frame->kind) {
    case FRAME_KIND_NOTIFICATION:
        add_note(batch, frame,
                 is_rejected                                ? "R"
                 : (frame->flags & FRAME_ACK_REQUIRED) != 0 ? "A"
                                                            : "N");
        return;
    case FRAME_KIND_MEMBER:
        add_start(batch, member->added ? "+" : "-", frame);
        add_bytes(batch, member->audience);
        add_bytes(batch, member->target);
        add_bytes(batch, member->user);
        return;
    default:
        add_start(batch, "C", frame);
    }
}

/* Of several shards one may hold what another lacks: then all of it comes again. */
static bool
is_stored(const struct shard *shard, const struct frame *frame)
{
    return frame->commit_lsn < shard->claimed_lsn ||
           (frame->commit_lsn == shard->claimed_lsn && frame->ordinal <= shard->claimed_ordinal);
}

/* Whoever reads what comes later in another shard has to know of it. */
static void
note_position(struct shard *shard, const struct frame *frame)
{
    if (frame->kind == FRAME_KIND_NOTIFICATION)
        position_raise(&shard->noted, (struct position){frame->commit_lsn, frame->ordinal});
}

static void
add(struct store_batch *batch, const struct frame *frame, bool is_rejected)
{
    struct store *store = batch->store;
    unsigned k = shard_of(batch, frame);
    struct batch *part = &batch->parts[k];
    size_t before = part->bytes;
    bool is_again = store->shard_count > 1 && is_stored(&store->shards[k], frame);

    batch->count++;
    if (store->shard_count > 1 && !is_rejected)
        note_position(&store->shards[k], frame);
    if (is_again && frame->kind != FRAME_KIND_COMMIT)
        stats_add(store->stats, STAT_STORE_REPLAYED, 1);
    /* With several shards the progress is moved in all of them, in any case. */
    if (is_again || (store->shard_count > 1 && frame->kind == FRAME_KIND_COMMIT)) {
        batch->bytes += POSITION_BYTES;
        return;
    }
    add_frame(part, frame, is_rejected);
    batch->bytes += part->bytes - before;
}

void
store_batch_add(struct store_batch *batch, const struct frame *frame)
{
    add(batch, frame, false);
}

void
store_batch_reject(struct store_batch *batch, const struct frame *frame)
{
    add(batch, frame, true);
}

void
batch_add_position(struct batch *batch, const char *position)
{
    add_text(batch, "C");
    add_text(batch, position);
}

static struct bytes
argument_at(const struct batch *batch, size_t at)
{
    return (struct bytes){(const unsigned char *)batch->argv[at], batch->lens[at]};
}

enum rc
batch_next_note(const struct batch *batch, size_t *at, struct batch_note *ret_note)
{
    size_t place = *at != 0 ? *at : BATCH_RESERVED;

    while (place < batch->argc && batch->argv[place][0] != 'N')
        place += COMMIT_ARGUMENTS;
    if (place >= batch->argc)
        return RC_CLOSED;
    *ret_note = (struct batch_note){argument_at(batch, place + 2), argument_at(batch, place + 3),
                                    argument_at(batch, place + 4)};
    *at = place + NOTE_ARGUMENTS;
    return RC_OK;
}
