/* inflight.h: the notifications that one session was sent and that are not acknowledged yet. */
#ifndef CLAIRON_HUB_SESSION_INFLIGHT_H
#define CLAIRON_HUB_SESSION_INFLIGHT_H

#include "hub/fanout/notification.h"

/* One notification, from its queueing until its acknowledgement. */
struct inflight_entry {
    unsigned char id[16];
    unsigned char shard;
    bool is_written;    /* to the socket; else it is still queued */
    bool is_missed;     /* a retry of it could not be queued */
    bool needs_recheck; /* it may have been acknowledged on a relay that this one did not hear */
    uint8_t backoff;    /* enum frame_backoff */
    bool retry_enabled;
    bool is_open_ended;      /* whoever receives it owes an acknowledgement */
    uint32_t ack_timeout_ms; /* 0: as set */
};

/* The in-flight window. It has no memory until something enters, as most sessions are idle. */
struct inflight {
    int size; /* most entries, as granted to the client */
    int count;
    int room;
    struct inflight_entry *entries; /* in no order */
};

static inline bool
inflight_is_full(const struct inflight *inflight)
{
    return inflight->count >= inflight->size;
}

/* NULL: it is not in flight. Valid until the next change. */
struct inflight_entry *inflight_find(const struct inflight *inflight, const unsigned char id[16]);

/* Not while it is full, nor one that is in flight already. */
void inflight_add(struct inflight *inflight, const struct notification *notification);
void inflight_remove(struct inflight *inflight, struct inflight_entry *entry);

/*
 * A notification that is in flight came again: true when it is to be queued again, as a retry of it
 * was missed since it was written. Else it is on its way, or was delivered, already.
 */
bool inflight_repeat(struct inflight_entry *entry);

/*
 * A recheck against the inbox: all that was written needs it, and entries that are found there are
 * confirmed. An entry of an open audience stays all the same: a store that lost data may not know
 * it, and then answers its delivery report.
 */
void inflight_recheck(struct inflight *inflight);
void inflight_confirm(struct inflight *inflight, const unsigned char id[16]);
bool inflight_is_refuted(const struct inflight_entry *entry);

void inflight_free(struct inflight *inflight);

#endif
