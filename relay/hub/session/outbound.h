/* outbound.h: the notifications that wait for one session's socket. */
#ifndef CLAIRON_HUB_SESSION_OUTBOUND_H
#define CLAIRON_HUB_SESSION_OUTBOUND_H

#include "hub/fanout/batch.h"

#define OUTBOUND_MAX 1024 /* notifications; a batch that is broken up may exceed it */

/*
 * Either one batch, which is sent as a whole, or single notifications in a ring, or neither. It
 * begins zeroed and has no memory of its own while it is empty, as most sessions are idle. All that
 * enters or leaves is counted in `queued_bytes`, a total over all sessions in which a notification
 * that is in many queues counts once.
 *
 * The fields that a fan-out reads come last, so that a session can keep them in one cache line with
 * its own.
 */
struct outbound {
    struct notification **notifications; /* ring of references */
    size_t bytes;                        /* of their lines */
    int64_t since_us;           /* when the first of them entered an empty queue; monotonic */
    struct fanout_batch *batch; /* a reference */
    unsigned count;
    uint16_t room; /* a power of two */
    uint16_t first;
};

static inline bool
outbound_is_empty(const struct outbound *outbound)
{
    return outbound->count == 0 && outbound->batch == NULL;
}

/* Those of the batch included. */
unsigned outbound_count(const struct outbound *outbound);
size_t outbound_bytes(const struct outbound *outbound);

/* The nth single notification, the first one is 0; NULL: there are not as many. */
struct notification *outbound_nth(const struct outbound *outbound, unsigned nth);

/* Where a notification of this priority enters: behind all of the same and of higher ones. */
unsigned outbound_position(const struct outbound *outbound, uint8_t priority);

/* Inserts before the nth one; takes over a reference. Not while there is a batch. */
void outbound_insert(struct outbound *outbound, unsigned nth, struct notification *notification,
                     size_t *queued_bytes);

/* Removes the first one; the caller owns the reference. */
struct notification *outbound_take(struct outbound *outbound, size_t *queued_bytes);

/* Removes the batch; the caller owns the reference. NULL: there was none. */
struct fanout_batch *outbound_take_batch(struct outbound *outbound);

void outbound_clear(struct outbound *outbound, size_t *queued_bytes);

/*
 * `cursor`, or where a client has to resume from to receive all of the batch and of the single
 * notifications from the nth on, if that is earlier. `own` is its user's shard.
 */
struct cursor outbound_before(const struct outbound *outbound, unsigned nth, unsigned own,
                              struct cursor cursor);

#endif
