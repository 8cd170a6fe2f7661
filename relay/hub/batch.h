/* batch.h: consecutive notifications for the same recipients, as one block of bytes. */
#ifndef CLAIRON_HUB_BATCH_H
#define CLAIRON_HUB_BATCH_H

#include "hub/notification.h"

#define BATCH_COUNT_MAX 64
#define BATCH_BYTES_MAX (256u * 1024)

/* Minimum size and number of sockets of a batch for which a file is created (fanout_batch_file). */
#define BATCH_FILE_BYTES_MIN (8u * 1024)
#define BATCH_FILE_SENDS 16
#define BATCH_FILES_MAX 16 /* maximum number of open files */
/* Two batches are merged if the first batch is queued for this many sessions ... */
#define MERGED_BATCH_SHARES 16
#define MERGED_BATCHES_MAX 4 /* ... up to this number of times per batch */

/*
 * Consecutive notifications for the same recipients, as one block of bytes. A session with an empty
 * queue sends the batch in one call, without work per notification. Reference-counted;
 * notifications and bytes are immutable.
 */
struct fanout_batch {
    struct shared shared;
    unsigned count;
    unsigned sends;     /* number of calls of fanout_batch_file */
    int file;           /* -1: no file */
    int64_t expires_us; /* expiration of the first notification that expires; 0: never */
    size_t len;
    unsigned char *bytes;                 /* one whole WebSocket frame per notification */
    struct notification *notifications[]; /* each is a reference */
};

/*
 * Returns how many of the first notifications can form a batch. 0: each session must handle the
 * first notification individually.
 */
unsigned fanout_batch_span(struct notification *const *notifications, unsigned count);

/* The caller owns one reference. `count` is at most the result of fanout_batch_span. */
struct fanout_batch *fanout_batch_new(struct notification *const *notifications, unsigned count);
/* Returns the owner of `bytes`. */
struct shared *fanout_batch_owner(struct fanout_batch *batch);

static inline struct fanout_batch *
fanout_batch_ref(struct fanout_batch *batch)
{
    shared_ref(&batch->shared);
    return batch;
}

/* Accepts NULL. */
static inline void
fanout_batch_unref(struct fanout_batch *batch)
{
    if (batch != NULL)
        shared_unref(&batch->shared);
}

/*
 * A batch merged with the batch that a session has queued. All sessions with the same queued batch
 * share the result, so it is created once. Initially zeroed.
 */
struct merged_batch {
    struct fanout_batch *waiting; /* each is a reference */
    struct fanout_batch *whole;
    unsigned made;
};

/* NULL: these batches cannot be merged. The result belongs to `merged`. */
struct fanout_batch *merged_batch_of(struct merged_batch *merged, struct fanout_batch *waiting,
                                     const struct fanout_batch *next);
void merged_batch_end(struct merged_batch *merged);

/*
 * Call it once per socket. Returns a file with the batch's bytes for sendfile(2), which shares its
 * pages among all sockets, whereas send(2) copies the bytes for each. -1: too few sockets, or no
 * file could be created. The batch owns the file.
 */
int fanout_batch_file(struct fanout_batch *batch);

/* True if a notification of the batch has expired. now_us: wall clock. */
static inline bool
fanout_batch_is_stale(const struct fanout_batch *batch, int64_t now_us)
{
    return batch->expires_us != 0 && batch->expires_us <= now_us;
}

#endif
