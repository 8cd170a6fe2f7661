/* outbound.h: the outbound queue: the notifications queued for a session's socket. */
#ifndef CLAIRON_HUB_OUTBOUND_H
#define CLAIRON_HUB_OUTBOUND_H

#include "hub/batch.h"

#define OUTBOUND_MAX 1024 /* maximum notifications; a split batch may exceed it */

/*
 * Contains one batch, or single notifications in a ring, or nothing. Initially zeroed; allocates
 * nothing while it is empty, because most sessions are idle. Functions update `queued_bytes`, a
 * total over all sessions in which a notification in several queues counts once.
 *
 * The fields that a fan-out reads are last, so that they share a cache line with the session's
 * fields that it reads.
 */
struct outbound {
    struct notification **notifications; /* ring of references */
    size_t bytes;                        /* total size of their frames */
    int64_t since_us;                    /* time at which the queue was last empty; monotonic */
    struct fanout_batch *batch;          /* a reference */
    unsigned count;
    uint16_t room; /* a power of two */
    uint16_t first;
};

static inline bool
outbound_is_empty(const struct outbound *outbound)
{
    return outbound->count == 0 && outbound->batch == NULL;
}

/* Returns the number of notifications, including those of the batch. */
unsigned outbound_count(const struct outbound *outbound);
size_t outbound_bytes(const struct outbound *outbound);

/* Returns the nth single notification, starting from 0; NULL: the queue has fewer notifications. */
struct notification *outbound_nth(const struct outbound *outbound, unsigned nth);

/*
 * Returns the index for a notification of this priority: after all notifications of the same or a
 * higher priority.
 */
unsigned outbound_index_for(const struct outbound *outbound, uint8_t priority);

/*
 * Inserts before the nth notification, and takes ownership of the reference. The queue must not
 * contain a batch.
 */
void outbound_insert(struct outbound *outbound, unsigned nth, struct notification *notification,
                     size_t *queued_bytes);

/* Removes the first notification; the caller owns the reference. */
struct notification *outbound_dequeue(struct outbound *outbound, size_t *queued_bytes);

/* Removes the batch; the caller owns the reference. NULL: no batch. */
struct fanout_batch *outbound_dequeue_batch(struct outbound *outbound);

void outbound_clear(struct outbound *outbound, size_t *queued_bytes);

/*
 * Returns `cursor` or, if it is earlier, the cursor from which a client must resume to receive the
 * batch and all notifications from the nth on. `own` is the user's shard.
 */
struct cursor outbound_before(const struct outbound *outbound, unsigned nth, unsigned own,
                              struct cursor cursor);

#endif
