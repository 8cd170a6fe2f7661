/* batch.h: notifications in a row for the same readers, as one block of bytes. */
#ifndef CLAIRON_HUB_FANOUT_BATCH_H
#define CLAIRON_HUB_FANOUT_BATCH_H

#include "hub/fanout/notification.h"

#define BATCH_COUNT_MAX 64
#define BATCH_BYTES_MAX (256u * 1024)

/* From so many bytes and sockets on a file of them pays; of so many batches at a time. */
#define BATCH_FILE_BYTES_MIN (8u * 1024)
#define BATCH_FILE_SENDS 16
#define BATCH_FILES_MAX 16
/* Two batches are merged if this many sessions wait with the first; so often for one batch. */
#define MERGED_BATCH_SHARES 16
#define MERGED_BATCHES_MAX 4

/*
 * Consecutive notifications for the same recipients, as one block of bytes. A session whose queue is
 * empty sends it with one call, without work per notification. Reference-counted; notifications and
 * bytes are immutable.
 */
struct fanout_batch {
    unsigned refs;
    unsigned count;
    unsigned sends;  /* so far, as fanout_batch_file was told */
    int file;        /* -1: none */
    int64_t ends_us; /* the first of its notifications expires then; 0: none does */
    size_t len;
    unsigned char *bytes;                 /* whole WebSocket frames, one for each notification */
    struct notification *notifications[]; /* references */
};

/*
 * How many of the notifications, from the first on, can form a batch. 0: not even the first, because
 * each session decides about it on its own.
 */
unsigned fanout_batch_span(struct notification *const *notifications, unsigned count);

/* The caller owns one reference. `count` is at most what fanout_batch_span said. */
struct fanout_batch *fanout_batch_new(struct notification *const *notifications, unsigned count);
struct fanout_batch *fanout_batch_ref(struct fanout_batch *batch);
void fanout_batch_unref(struct fanout_batch *batch); /* accepts NULL */

/*
 * Of one batch that is offered to many: what a session that still waits with another gets in its
 * place, both in one. The same for all that wait with that one, so made once; begins zeroed.
 */
struct merged_batch {
    struct fanout_batch *waiting; /* references */
    struct fanout_batch *whole;
    unsigned made;
};

/* NULL: these two are not to go as one. The answer is the merged's own. */
struct fanout_batch *merged_batch_of(struct merged_batch *merged, struct fanout_batch *waiting,
                                     const struct fanout_batch *next);
void merged_batch_end(struct merged_batch *merged);

/*
 * To be asked once a socket: a file that holds the batch's bytes, for sendfile(2), which shares its
 * pages among all sockets where send(2) copies the bytes for each. -1 while that does not pay, or
 * when there is none to be had. It is the batch's own.
 */
int fanout_batch_file(struct fanout_batch *batch);

/* True when one of its notifications has expired. */
bool fanout_batch_is_stale(const struct fanout_batch *batch);

#endif
