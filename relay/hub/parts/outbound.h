/* outbound.h: the outbound queue: notifications that wait for a session's socket. */
#ifndef CLAIRON_HUB_PARTS_OUTBOUND_H
#define CLAIRON_HUB_PARTS_OUTBOUND_H

#include "hub/fanout/batch.h"

#define OUTBOUND_MAX 1024 /* notifications; a split batch may exceed it */

/*
 * Holds one batch, or single notifications in a ring, or nothing. Zeroed at the start; allocates
 * nothing while it is empty, because most sessions are idle. Functions update `queued_bytes`, a
 * total over all sessions in which a notification in many queues counts once.
 *
 * The fields that a fan-out reads come last, so that they share a cache line with those of the
 * session.
 */
struct outbound {
    struct notification **notifications; /* ring of references */
    size_t bytes;                        /* of their frames */
    int64_t since_us;                    /* when the queue was last empty; monotonic */
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

/* Including the batch. */
unsigned outbound_count(const struct outbound *outbound);
size_t outbound_bytes(const struct outbound *outbound);

/* The nth single notification, from 0; NULL: there are fewer. */
struct notification *outbound_nth(const struct outbound *outbound, unsigned nth);

/* The index for a notification of this priority: after all of the same and of higher ones. */
unsigned outbound_index_for(const struct outbound *outbound, uint8_t priority);

/* Inserts before the nth; takes over a reference. There must be no batch. */
void outbound_insert(struct outbound *outbound, unsigned nth, struct notification *notification,
                     size_t *queued_bytes);

/* Removes the first; the caller owns the reference. */
struct notification *outbound_dequeue(struct outbound *outbound, size_t *queued_bytes);

/* Removes the batch; the caller owns the reference. NULL: there is none. */
struct fanout_batch *outbound_dequeue_batch(struct outbound *outbound);

void outbound_clear(struct outbound *outbound, size_t *queued_bytes);

/*
 * `cursor`, or where a client must resume to receive the batch and all notifications from the nth
 * on, if that is earlier. `own` is its user's shard.
 */
struct cursor outbound_before(const struct outbound *outbound, unsigned nth, unsigned own,
                              struct cursor cursor);

#endif
