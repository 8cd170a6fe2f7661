/* inbox.h: the progress of a session in its user's inbox, and the reasons to read it again. */
#ifndef CLAIRON_HUB_PARTS_INBOX_H
#define CLAIRON_HUB_PARTS_INBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "store/store.h"

/*
 * Whether and when a session reads the inbox again, from its beginning.
 *
 * NONE: the inbox was read to its end. WHEN_LIVE: a retry was skipped while the session was behind;
 * becomes NOW when the session is LIVE. WHEN_ROOM: notifications wait until half of the in-flight
 * window is free. NOW: the inbox contains a notification that does not need room, such as a retry.
 */
enum inbox_refill {
    INBOX_REFILL_NONE,
    INBOX_REFILL_WHEN_LIVE,
    INBOX_REFILL_WHEN_ROOM,
    INBOX_REFILL_NOW
};

/*
 * Whether the in-flight window is reconciled with the inbox, because acknowledgements may have been
 * missed. This takes one pass over the whole inbox.
 *
 * NONE: not needed. WANTED: in the next pass. RUNNING: in this pass. RUNNING_WANTED: in this pass
 * and the next pass, because further acknowledgements may have been missed.
 */
enum inbox_reconcile {
    INBOX_RECONCILE_NONE,
    INBOX_RECONCILE_WANTED,
    INBOX_RECONCILE_RUNNING,
    INBOX_RECONCILE_RUNNING_WANTED
};

struct inbox {
    char at[STORE_INBOX_CURSOR_MAX]; /* cursor of the next page */
    enum inbox_refill refill;
    enum inbox_reconcile reconcile;
    bool is_full;    /* the in-flight window was full in this pass */
    bool has_unread; /* the inbox may contain notifications that were not sent to this session */
    unsigned acked_count;
    unsigned char (*acked)[16]; /* ids acknowledged during this pass, because pages may be older */
    /* Notifications held back until the store reports whether their ack is pending. */
    unsigned held_count;
    size_t held_bytes;
};

/* The next page to be read is the first page. */
void inbox_rewind(struct inbox *inbox);
/* Starts a pass. */
void inbox_begin(struct inbox *inbox);
/* Ends the pass. */
void inbox_end(struct inbox *inbox);

/* True if the inbox must be read again: WHEN_ROOM or NOW. */
static inline bool
inbox_is_deferred(const struct inbox *inbox)
{
    return inbox->refill >= INBOX_REFILL_WHEN_ROOM;
}

/*
 * Defers the inbox until the in-flight window has room. Returns true unless the inbox was already
 * deferred.
 */
bool inbox_defer(struct inbox *inbox);
/* The inbox contains a notification that does not need room: a deferred refill becomes NOW. */
void inbox_miss(struct inbox *inbox);
static inline bool
inbox_has_missed(const struct inbox *inbox)
{
    return inbox->refill == INBOX_REFILL_WHEN_LIVE || inbox->refill == INBOX_REFILL_NOW;
}

/* Reconciles the in-flight window in the next pass. */
void inbox_want_reconcile(struct inbox *inbox);
static inline bool
inbox_is_reconciling(const struct inbox *inbox)
{
    return inbox->reconcile >= INBOX_RECONCILE_RUNNING;
}
void inbox_end_reconcile(struct inbox *inbox);

/* Records an acknowledgement during a pass. */
void inbox_keep_acked(struct inbox *inbox, const unsigned char id[16]);
bool inbox_was_acked(const struct inbox *inbox, const unsigned char id[16]);

#endif
