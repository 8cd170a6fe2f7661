/* batch.c: encodes frames as arguments of the ingest script. */
#include "store/write/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/shards/shard.h"

#define TEXT_SIZE (FRAME_UUID_TEXT + 1) /* an id is the longest string */
#define BLOCK_TEXTS 128
#define SWITCH_FRAMES_MIN 32 /* a smaller batch costs more than it saves */
/* A script blocks the store, and a notification with acks takes at least 30 us. */
#define SCRIPT_FRAMES 64
/* Number of arguments of a notification without acks, and of a commit. */
#define NOTIFICATION_ARGUMENTS 5
#define COMMIT_ARGUMENTS 2

/* Bytes of a frame that only advances the progress: kind and position. */
#define POSITION_BYTES (1 + FRAME_POSITION_TEXT)

static void
clear_part(struct batch *part)
{
    while (part->head_count > 0)
        free(part->heads[--part->head_count]);
    part->text_count = 0;
    part->argc = BATCH_RESERVED;
    part->count = 0;
    part->notifications = 0;
    part->is_simple = true;
    part->large = 0;
    part->users = 0;
    part->has_groups = false;
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

void
store_batch_free(struct store_batch *batch)
{
    if (batch == NULL)
        return;
    for (unsigned k = 0; k < batch->part_count; k++) {
        struct batch *part = &batch->parts[k];

        clear_part(part);
        for (size_t i = 0; i < part->block_count; i++)
            free(part->blocks[i]);
        free(part->blocks);
        free(part->heads);
        free(part->argv);
        free(part->lens);
    }
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

/* Returns TEXT_SIZE bytes, valid until the batch is cleared. */
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

/* `kind`: see ingest.lua. */
static void
add_notification(struct batch *batch, const struct frame *frame, const char *kind)
{
    const struct frame_notification *notification = &frame->as.notification;
    struct bytes targets = notification->targets;
    struct bytes target;
    char *text = new_text(batch);

    batch->notifications++;
    add_start(batch, kind, frame);
    frame_id_text(notification->id, text);
    add_text(batch, text);
    add_bytes(batch, notification->head);
    batch->large = notification->head.len + notification->data.len;
    if (kind[0] == 'R' || batch->large < STORE_LARGE_BYTES)
        batch->large = 0;
    if (kind[0] != 'R')
        add_bytes(batch, notification->data);
    if (kind[0] == 'N')
        return;
    if (bytes_equal_text(notification->audience, "USER"))
        batch->users += notification->target_count;
    else
        batch->has_groups = true;
    add_bytes(batch, notification->audience);
    text = new_text(batch);
    *bytes_decimal(notification->target_count, text) = '\0';
    add_text(batch, text);
    while (frame_next_target(&targets, &target) == RC_OK)
        add_bytes(batch, target);
}

/* Without a VAPID key, Web Pushes are not queued. */
static bool
queues_web_push(const struct store *store, const struct frame *frame)
{
    return frame->kind == FRAME_KIND_NOTIFICATION &&
           store->script_settings.web_push_delay[0] != '\0' &&
           frame_has_web_push(&frame->as.notification);
}

static bool
is_simple(const struct store *store, const struct frame *frame)
{
    return frame->kind == FRAME_KIND_COMMIT ||
           (frame->kind == FRAME_KIND_NOTIFICATION &&
            (frame->flags & (FRAME_ACK_REQUIRED | FRAME_UNDECODABLE)) == 0 &&
            !queues_web_push(store, frame));
}

/* Memberships, and notifications that depend on them, belong to shard 0. */
static unsigned
shard_of(const struct store_batch *batch, const struct frame *frame)
{
    const struct frame_notification *notification = &frame->as.notification;
    struct bytes targets, target;

    if (batch->store->shard_count == 1 || frame->kind != FRAME_KIND_NOTIFICATION ||
        notification->target_count != 1 || notification->audience.len != 4 ||
        memcmp(notification->audience.at, "USER", 4) != 0)
        return 0;
    targets = notification->targets;
    if (frame_next_target(&targets, &target) != RC_OK)
        return 0;
    return shard_of_user(batch->store->shard_count, (const char *)target.at, target.len);
}

static bool
is_for_control_stream(const struct frame *frame)
{
    return frame->kind == FRAME_KIND_MEMBER || frame->kind == FRAME_KIND_RELOAD;
}

bool
store_batch_is_full(const struct store_batch *batch, const struct frame *frame)
{
    const struct batch *part = &batch->parts[shard_of(batch, frame)];
    bool switches =
        frame->kind != FRAME_KIND_COMMIT && part->is_simple != is_simple(batch->store, frame);
    size_t max = STORE_BATCH_FRAMES_MAX;

    /* A transaction records the id of its last notification if it is large. */
    if (part->large > 0 && frame->kind == FRAME_KIND_NOTIFICATION)
        return true;
    /* A transaction adds it before the script, which handles the other frames. */
    if (part->count > 0 && frame->kind == FRAME_KIND_NOTIFICATION &&
        frame->as.notification.data.len > STORE_COPIED_BYTES_MAX)
        return true;
    /*
     * A blocked XREAD returns only one stream: the first that the batch writes. If that is the
     * stream of notifications, a relay reads the notifications after this membership before the
     * membership itself, although they depend on it. The same applies to notifications after a
     * reload: clients would apply them to the rows from before the reload.
     */
    if (is_for_control_stream(frame) && part->notifications > 0)
        return true;
    /* Membership changes are quick, and a transaction may have a hundred thousand of them. */
    if (!part->is_simple && (part->notifications > 0 || !is_for_control_stream(frame)))
        max = SCRIPT_FRAMES;
    return part->count >= (switches ? SWITCH_FRAMES_MIN : max);
}

static void
add_frame(const struct store *store, struct batch *batch, const struct frame *frame,
          bool is_rejected)
{
    const struct frame_member *member = &frame->as.member;
    const struct frame_reload *reload = &frame->as.reload;
    char *xid;

    batch->count++;
    if (is_rejected || !is_simple(store, frame))
        batch->is_simple = false;
    switch (frame->kind) {
    case FRAME_KIND_NOTIFICATION:
        add_notification(batch, frame,
                         is_rejected                                ? "R"
                         : (frame->flags & FRAME_ACK_REQUIRED) != 0 ? "A"
                         : queues_web_push(store, frame)            ? "W"
                                                                    : "N");
        return;
    case FRAME_KIND_MEMBER:
        add_start(batch, member->added ? "+" : "-", frame);
        add_bytes(batch, member->audience);
        add_bytes(batch, member->target);
        add_bytes(batch, member->user);
        break;
    case FRAME_KIND_RELOAD:
        add_start(batch, "L", frame);
        add_bytes(batch, reload->source);
        add_bytes(batch, reload->rule);
        break;
    default:
        add_start(batch, "C", frame);
        return;
    }
    xid = new_text(batch);
    *bytes_decimal(frame->kind == FRAME_KIND_MEMBER ? member->xid : reload->xid, xid) = '\0';
    add_text(batch, xid);
}

/* Sets a flag in a copy of the header, which is valid until the batch is cleared. */
static struct frame
with_late_flag(struct batch *batch, const struct frame *frame)
{
    struct frame late = *frame;
    struct bytes *head = &late.as.notification.head;
    char *copy = memory_text((const char *)head->at, head->len);

    copy[FRAME_AT_FLAGS + 1] = (char)(copy[FRAME_AT_FLAGS + 1] | FRAME_LATE);
    batch->heads = memory_grow(batch->heads, (batch->head_count + 1) * sizeof(*batch->heads));
    batch->heads[batch->head_count++] = copy;
    head->at = (const unsigned char *)copy;
    return late;
}

static void
add(struct store_batch *batch, const struct frame *frame, bool is_rejected)
{
    struct store *store = batch->store;
    unsigned k = shard_of(batch, frame);
    struct shard *shard = &store->shards[k];
    struct batch *part = &batch->parts[k];
    const struct position position = {frame->commit_lsn, frame->ordinal};
    const size_t before = part->bytes;
    /*
     * After a crash one shard may be ahead, and already contain frames that are sent again. Copied
     * memberships have no LSN.
     */
    const bool is_again =
        store->shard_count > 1 && frame->commit_lsn != 0 && !position_less(shard->stored, position);
    struct frame late;

    batch->count++;
    /*
     * Later notifications of other shards depend on this notification (shard_dependency_text), even
     * if its shard is unavailable: readers wait for a shard that returns soon
     * (READER_ORDER_WAIT_S).
     */
    if (store->shard_count > 1 && !is_rejected && frame->kind == FRAME_KIND_NOTIFICATION)
        position_raise(&shard->newest_sent, position);
    if (is_again && frame->kind != FRAME_KIND_COMMIT)
        stats_add(store->stats, STAT_STORE_REPLAYED, 1);
    /* With several shards each batch advances the progress of every shard. */
    if (is_again || (store->shard_count > 1 && frame->kind == FRAME_KIND_COMMIT)) {
        batch->bytes += POSITION_BYTES;
        return;
    }
    if (frame->kind == FRAME_KIND_NOTIFICATION && position_less(position, shard->late_before)) {
        late = with_late_flag(part, frame);
        frame = &late;
    }
    add_frame(store, part, frame, is_rejected);
    batch->bytes += part->bytes - before;
}

void
store_batch_add(struct store_batch *batch, const struct frame *frame)
{
    add(batch, frame, false);
}

void
store_batch_skip(struct store_batch *batch, const struct frame *frame)
{
    struct shard *shard = &batch->store->shards[shard_of(batch, frame)];

    if (shard->is_left_out && frame->kind == FRAME_KIND_NOTIFICATION)
        position_raise(&shard->newest_sent, (struct position){frame->commit_lsn, frame->ordinal});
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

bool
batch_is_prepared(const struct batch *batch)
{
    return batch->notifications == 1 && batch->argc > BATCH_RESERVED + BATCH_DATA &&
           batch->argv[BATCH_RESERVED][0] != 'R' && batch->large > 0 &&
           batch->lens[BATCH_RESERVED + BATCH_DATA] > STORE_COPIED_BYTES_MAX;
}

static struct bytes
argument_at(const struct batch *batch, size_t at)
{
    return (struct bytes){(const unsigned char *)batch->argv[at], batch->lens[at]};
}

enum rc
batch_next_notification(const struct batch *batch, size_t *at,
                        struct batch_notification *ret_notification)
{
    size_t index = *at != 0 ? *at : BATCH_RESERVED;

    while (index < batch->argc && batch->argv[index][0] != 'N')
        index += COMMIT_ARGUMENTS;
    if (index >= batch->argc)
        return RC_CLOSED;
    *ret_notification =
        (struct batch_notification){argument_at(batch, index + 2), argument_at(batch, index + 3),
                                    argument_at(batch, index + 4)};
    *at = index + NOTIFICATION_ARGUMENTS;
    return RC_OK;
}
