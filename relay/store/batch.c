/* batch.c: frames as arguments of the ingest script. */
#include "store/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define TEXT_SIZE (FRAME_UUID_TEXT + 1) /* the longest of them */
#define BLOCK_TEXTS 128
#define TURN_FRAMES 32 /* fewer are not worth a batch of their own */
#define SCRIPT_FRAMES                                                                              \
    64 /* a note that needs acks takes the store 30 us and more, all in one step */
/* What a note without acks and a commit take of the arguments. */
#define NOTE_ARGUMENTS 5
#define COMMIT_ARGUMENTS 2

struct store_batch *
store_batch_new(void)
{
    struct store_batch *batch = memory_new(sizeof(*batch));

    batch_clear(batch);
    return batch;
}

void
batch_clear(struct store_batch *batch)
{
    batch->text_count = 0;
    batch->argc = BATCH_RESERVED;
    batch->count = 0;
    batch->notes = 0;
    batch->is_simple = true;
    batch->bytes = 0;
}

void
store_batch_free(struct store_batch *batch)
{
    if (batch == NULL)
        return;
    for (size_t i = 0; i < batch->block_count; i++)
        free(batch->blocks[i]);
    free(batch->blocks);
    free(batch->argv);
    free(batch->lens);
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
batch_reserve(struct store_batch *batch)
{
    if (batch->argc + 1 <= batch->room)
        return;
    batch->room = batch->room == 0 ? 256 : batch->room * 2;
    batch->argv = memory_grow(batch->argv, batch->room * sizeof(*batch->argv));
    batch->lens = memory_grow(batch->lens, batch->room * sizeof(*batch->lens));
}

static void
add_bytes(struct store_batch *batch, struct bytes bytes)
{
    batch_reserve(batch);
    batch->argv[batch->argc] = bytes.len > 0 ? (const char *)bytes.at : "";
    batch->lens[batch->argc++] = bytes.len;
    batch->bytes += bytes.len;
}

/* Room for a text of at most TEXT_SIZE that lives as long as the batch is not cleared. */
static char *
new_text(struct store_batch *batch)
{
    size_t block = batch->text_count / BLOCK_TEXTS;

    if (block == batch->block_count) {
        batch->blocks = memory_grow(batch->blocks, (block + 1) * sizeof(*batch->blocks));
        batch->blocks[batch->block_count++] = memory_new(BLOCK_TEXTS * TEXT_SIZE);
    }
    return batch->blocks[block] + batch->text_count++ % BLOCK_TEXTS * TEXT_SIZE;
}

static void
add_text(struct store_batch *batch, const char *text)
{
    add_bytes(batch, (struct bytes){(const unsigned char *)text, strlen(text)});
}

static void
add_start(struct store_batch *batch, const char *kind, const struct frame *frame)
{
    char *position = new_text(batch);

    frame_position_text(frame->commit_lsn, frame->ordinal, position);
    add_text(batch, kind);
    add_text(batch, position);
}

/* `kind` as ingest.lua has it. */
static void
add_note(struct store_batch *batch, const struct frame *frame, const char *kind)
{
    const struct frame_note *note = &frame->as.note;
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
           (frame->kind == FRAME_KIND_NOTE &&
            (frame->flags & (FRAME_ACK_REQUIRED | FRAME_UNDECODABLE)) == 0);
}

bool
store_batch_is_full(const struct store_batch *batch, const struct frame *frame)
{
    bool turns = frame->kind != FRAME_KIND_COMMIT && batch->is_simple != is_simple(frame);
    size_t most = STORE_BATCH_FRAMES_MAX;

    if (!batch->is_simple)
        most = SCRIPT_FRAMES;
    return batch->count >= (turns ? TURN_FRAMES : most);
}

void
store_batch_add(struct store_batch *batch, const struct frame *frame)
{
    const struct frame_member *member = &frame->as.member;

    batch->count++;
    if (!is_simple(frame))
        batch->is_simple = false;
    switch (frame->kind) {
    case FRAME_KIND_NOTE:
        add_note(batch, frame, (frame->flags & FRAME_ACK_REQUIRED) != 0 ? "A" : "N");
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

void
store_batch_reject(struct store_batch *batch, const struct frame *frame)
{
    batch->count++;
    batch->is_simple = false;
    add_note(batch, frame, "R");
}

static struct bytes
argument_at(const struct store_batch *batch, size_t at)
{
    return (struct bytes){(const unsigned char *)batch->argv[at], batch->lens[at]};
}

enum rc
batch_next_note(const struct store_batch *batch, size_t *at, struct batch_note *ret_note)
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
