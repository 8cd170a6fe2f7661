/* inbox.h: the progress of a session in its user's inbox, and the reasons to read it again. */
#ifndef CLAIRON_HUB_PARTS_INBOX_H
#define CLAIRON_HUB_PARTS_INBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "store/store.h"

/*
 * When a session reads the inbox again, from its beginning.
 *
 * NONE: it is read to its end.
 * WHEN_LIVE: a retry was skipped while the session was behind. Becomes NOW when it is LIVE.
 * WHEN_ROOM: notifications wait until half of the in-flight window is free.
 * NOW: it holds a notification that does not need room, such as a retry.
 */
enum inbox_refill {
    INBOX_REFILL_NONE,
    INBOX_REFILL_WHEN_LIVE,
    INBOX_REFILL_WHEN_ROOM,
    INBOX_REFILL_NOW
};

/*
 * Reconciles the in-flight window with the inbox, because acknowledgements may have been missed. It
 * takes one pass over the whole inbox.
 *
 * NONE: not needed. WANTED: in the next pass. RUNNING: in this pass. RUNNING_WANTED: in this pass
 * and in the next, because more was missed meanwhile.
 */
enum inbox_reconcile {
    INBOX_RECONCILE_NONE,
    INBOX_RECONCILE_WANTED,
    INBOX_RECONCILE_RUNNING,
    INBOX_RECONCILE_RUNNING_WANTED
};

struct inbox {
    char at[STORE_INBOX_CURSOR_MAX]; /* the next page */
    enum inbox_refill refill;
    enum inbox_reconcile reconcile;
    bool is_full;    /* in this pass, the in-flight window was full */
    bool has_unread; /* it may hold notifications not sent to this session */
    unsigned acked_count;
    unsigned char (*acked)[16]; /* acknowledged during this pass: pages may be older */
    /* Notifications held back until the store replies whether their ack is pending. */
    unsigned held_count;
    size_t held_bytes;
};

/* The next page is the first. */
void inbox_rewind(struct inbox *inbox);
/* A pass begins. */
void inbox_begin(struct inbox *inbox);
/* The pass ends. */
void inbox_end(struct inbox *inbox);

/* True if it has to be read again: WHEN_ROOM or NOW. */
static inline bool
inbox_is_deferred(const struct inbox *inbox)
{
    return inbox->refill >= INBOX_REFILL_WHEN_ROOM;
}

/* A notification waits there for room. True if none did before. */
bool inbox_defer(struct inbox *inbox);
/* A notification there does not wait for room: a deferred refill is due NOW. */
void inbox_miss(struct inbox *inbox);
static inline bool
inbox_has_missed(const struct inbox *inbox)
{
    return inbox->refill == INBOX_REFILL_WHEN_LIVE || inbox->refill == INBOX_REFILL_NOW;
}

/* The next pass reconciles the in-flight window. */
void inbox_want_reconcile(struct inbox *inbox);
static inline bool
inbox_is_reconciling(const struct inbox *inbox)
{
    return inbox->reconcile >= INBOX_RECONCILE_RUNNING;
}
void inbox_end_reconcile(struct inbox *inbox);

/* During a pass. */
void inbox_keep_acked(struct inbox *inbox, const unsigned char id[16]);
bool inbox_was_acked(const struct inbox *inbox, const unsigned char id[16]);

#endif
