/* inbox.h: how far one session has read its user's inbox, and why it reads it again. */
#ifndef CLAIRON_HUB_SESSION_INBOX_H
#define CLAIRON_HUB_SESSION_INBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "store/store.h"

/*
 * When a session reads the inbox again, from its beginning.
 *
 * NONE: nothing is left there.
 * WHEN_LIVE: a retry was skipped while the session was behind; once it is live it becomes NOW.
 * WHEN_ROOM: notifications wait for room in the in-flight window; when half of it is free.
 * NOW: something there is to be sent whatever the window holds, such as a retry.
 */
enum inbox_refill {
    INBOX_REFILL_NONE,
    INBOX_REFILL_WHEN_LIVE,
    INBOX_REFILL_WHEN_ROOM,
    INBOX_REFILL_NOW
};

/*
 * Whether the in-flight window is compared with the inbox, because acknowledgements may have been
 * missed. That needs one reading from the beginning to the end.
 *
 * NONE: the window is right. WANTED: the next reading compares. RUNNING: this reading compares.
 * RUNNING_WANTED: so does the next one, as more was missed meanwhile.
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
    bool is_full;    /* in this reading: the window was full */
    bool has_unread; /* it may hold notifications that this session was not sent */
    unsigned acked_count;
    unsigned char (*acked)[16]; /* acknowledged since this reading began: a page may be older */
    /* Notifications held back until the store answers whether this user owes an acknowledgement. */
    unsigned held_count;
    size_t held_bytes;
};

/* The next page is the first one. */
void inbox_rewind(struct inbox *inbox);
/* A refill begins: what was to be read again is read now. */
void inbox_begin(struct inbox *inbox);
/* The reading is over. */
void inbox_end(struct inbox *inbox);

/* Something is to be read again: from WHEN_ROOM on. */
static inline bool
inbox_is_deferred(const struct inbox *inbox)
{
    return inbox->refill >= INBOX_REFILL_WHEN_ROOM;
}

/* Something waits there for room. True when nothing did before. */
bool inbox_defer(struct inbox *inbox);
/* Something there is to be sent without waiting for room; a deferred refill is due NOW. */
void inbox_miss(struct inbox *inbox);
static inline bool
inbox_has_missed(const struct inbox *inbox)
{
    return inbox->refill == INBOX_REFILL_WHEN_LIVE || inbox->refill == INBOX_REFILL_NOW;
}

/* The next reading reconciles the window. */
void inbox_want_reconcile(struct inbox *inbox);
static inline bool
inbox_is_reconciling(const struct inbox *inbox)
{
    return inbox->reconcile >= INBOX_RECONCILE_RUNNING;
}
void inbox_end_reconcile(struct inbox *inbox);

/* While it is read. */
void inbox_keep_acked(struct inbox *inbox, const unsigned char id[16]);
bool inbox_was_acked(const struct inbox *inbox, const unsigned char id[16]);

#endif
