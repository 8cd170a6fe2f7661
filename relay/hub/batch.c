/* batch.c: consecutive notifications for the same recipients, as one block of bytes. */
#include "hub/batch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

static unsigned files; /* number of open files of all batches */

static bool
is_plain(const struct notification *notification)
{
    return !notification->needs_ack && !notification->is_retry &&
           !notification_is_expired(notification);
}

static bool
have_same_recipients(const struct notification *a, const struct notification *b)
{
    const struct frame_notification *x = &a->frame.as.notification, *y = &b->frame.as.notification;

    return a->shard == b->shard && x->priority == y->priority &&
           bytes_equal(x->audience, y->audience) && bytes_equal(x->topic, y->topic) &&
           bytes_equal(x->targets, y->targets);
}

unsigned
fanout_batch_span(struct notification *const *notifications, unsigned count)
{
    unsigned span = 1;
    size_t bytes;

    if (count == 0 || !is_plain(notifications[0]))
        return 0;
    bytes = notifications[0]->ws_len;
    while (span < count && span < BATCH_COUNT_MAX && is_plain(notifications[span]) &&
           have_same_recipients(notifications[0], notifications[span]) &&
           bytes + notifications[span]->ws_len <= BATCH_BYTES_MAX) {
        bytes += notifications[span]->ws_len;
        span++;
    }
    return span;
}

static void
free_batch(struct shared *shared)
{
    struct fanout_batch *batch = (struct fanout_batch *)shared;

    if (batch->file >= 0) {
        close(batch->file);
        files--;
    }
    if (batch->count > 1)
        free(batch->bytes);
    for (unsigned i = 0; i < batch->count; i++)
        notification_unref(batch->notifications[i]);
    free(batch);
}

struct fanout_batch *
fanout_batch_new(struct notification *const *notifications, unsigned count)
{
    struct fanout_batch *batch = memory_new(sizeof(*batch) + count * sizeof(struct notification *));
    size_t at = 0;

    batch->shared = (struct shared){.refs = 1, .free = free_batch};
    batch->count = count;
    batch->file = -1;
    for (unsigned i = 0; i < count; i++) {
        batch->notifications[i] = notification_ref(notifications[i]);
        batch->len += notifications[i]->ws_len;
        if (notifications[i]->expires_us != 0 &&
            (batch->expires_us == 0 || notifications[i]->expires_us < batch->expires_us))
            batch->expires_us = notifications[i]->expires_us;
    }
    if (count == 1) {
        batch->bytes = notifications[0]->ws;
        return batch;
    }
    batch->shared.size = batch->len;
    batch->bytes = memory_grow(NULL, batch->len);
    for (unsigned i = 0; i < count; i++) {
        memcpy(batch->bytes + at, notifications[i]->ws, notifications[i]->ws_len);
        at += notifications[i]->ws_len;
    }
    return batch;
}

struct shared *
fanout_batch_owner(struct fanout_batch *batch)
{
    return batch->count == 1 ? &batch->notifications[0]->shared : &batch->shared;
}

/* Sockets keep its pages after the file is closed. */
static int
file_of(const unsigned char *bytes, size_t len)
{
    int file = memfd_create("clairon batch", MFD_CLOEXEC);

    if (file >= 0 && write(file, bytes, len) != (ssize_t)len) {
        close(file);
        return -1;
    }
    return file;
}

int
fanout_batch_file(struct fanout_batch *batch)
{
    if (batch->len < BATCH_FILE_BYTES_MIN || ++batch->sends != BATCH_FILE_SENDS ||
        files == BATCH_FILES_MAX)
        return batch->file;
    batch->file = file_of(batch->bytes, batch->len);
    files += batch->file >= 0;
    return batch->file;
}

static uint8_t
priority_of(const struct fanout_batch *batch)
{
    return batch->notifications[0]->frame.as.notification.priority;
}

static struct fanout_batch *
join(const struct fanout_batch *waiting, const struct fanout_batch *next)
{
    struct notification *notifications[BATCH_COUNT_MAX];

    memcpy(notifications, waiting->notifications, waiting->count * sizeof(*notifications));
    memcpy(notifications + waiting->count, next->notifications,
           next->count * sizeof(*notifications));
    return fanout_batch_new(notifications, waiting->count + next->count);
}

struct fanout_batch *
merged_batch_of(struct merged_batch *merged, struct fanout_batch *waiting,
                const struct fanout_batch *next)
{
    if (merged->waiting == waiting)
        return merged->whole;
    if (waiting->shared.refs < MERGED_BATCH_SHARES || merged->made == MERGED_BATCHES_MAX ||
        priority_of(waiting) != priority_of(next) ||
        waiting->count + next->count > BATCH_COUNT_MAX ||
        waiting->len + next->len > BATCH_BYTES_MAX ||
        fanout_batch_is_stale(waiting, clock_wall_us()))
        return NULL;
    fanout_batch_unref(merged->waiting);
    fanout_batch_unref(merged->whole);
    merged->waiting = fanout_batch_ref(waiting);
    merged->whole = join(waiting, next);
    merged->made++;
    return merged->whole;
}

void
merged_batch_end(struct merged_batch *merged)
{
    fanout_batch_unref(merged->waiting);
    fanout_batch_unref(merged->whole);
    *merged = (struct merged_batch){0};
}
