/* batch.c: frames as arguments of the ingest script. */
#include "store/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define TEXT_SIZE (FRAME_UUID_TEXT + 1) /* the longest of them */

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
    for (size_t i = 0; i < batch->text_count; i++)
        free(batch->texts[i]);
    batch->text_count = 0;
    batch->argc = BATCH_RESERVED;
    batch->count = 0;
    batch->bytes = 0;
}

void
store_batch_free(struct store_batch *batch)
{
    if (batch == NULL)
        return;
    batch_clear(batch);
    free(batch->texts);
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

/* A text of at most TEXT_SIZE that the batch owns. */
static char *
new_text(struct store_batch *batch)
{
    if (batch->text_count == batch->text_room) {
        batch->text_room = batch->text_room == 0 ? 256 : batch->text_room * 2;
        batch->texts = memory_grow(batch->texts, batch->text_room * sizeof(*batch->texts));
    }
    return batch->texts[batch->text_count++] = memory_new(TEXT_SIZE);
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

static void
add_note(struct store_batch *batch, const struct frame *frame)
{
    const struct frame_note *note = &frame->as.note;
    struct bytes targets = note->targets;
    struct bytes target;
    bool needs_ack = (frame->flags & FRAME_ACK_REQUIRED) != 0;
    char *text = new_text(batch);

    add_start(batch, needs_ack ? "A" : "N", frame);
    frame_id_text(note->id, text);
    add_text(batch, text);
    add_bytes(batch, note->head);
    add_bytes(batch, note->data);
    if (!needs_ack)
        return;
    add_bytes(batch, note->audience);
    text = new_text(batch);
    snprintf(text, TEXT_SIZE, "%u", note->target_count);
    add_text(batch, text);
    while (frame_next_target(&targets, &target) == RC_OK)
        add_bytes(batch, target);
}

void
store_batch_add(struct store_batch *batch, const struct frame *frame)
{
    const struct frame_member *member = &frame->as.member;

    batch->count++;
    switch (frame->kind) {
    case FRAME_KIND_NOTE:
        add_note(batch, frame);
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
