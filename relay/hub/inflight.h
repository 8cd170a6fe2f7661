/* inflight.h: the in-flight window: notifications sent to a session and not yet acknowledged. */
#ifndef CLAIRON_HUB_INFLIGHT_H
#define CLAIRON_HUB_INFLIGHT_H

#include "hub/notification.h"

/*
 * Whether a notification in flight still waits for an acknowledgement. An ended one occupies no
 * slot of the window; it is kept until it is written, or until a page that may contain it was read.
 *
 * OPEN: it waits. ENDED: it does not. ACKED: another session acknowledged it before it was written
 * here: `acked` follows it.
 */
enum inflight_end { INFLIGHT_OPEN, INFLIGHT_ENDED, INFLIGHT_ACKED };

/* A notification between queueing and acknowledgement. */
struct inflight_entry {
    unsigned char id[16];
    unsigned char shard;
    bool is_written; /* written to the socket; otherwise still queued */
    bool is_missed;  /* a retry was not queued */
    uint8_t end;     /* enum inflight_end */
    uint8_t backoff; /* enum frame_backoff */
    bool retry_enabled;
    bool is_open_ended;      /* every recipient must acknowledge it */
    uint32_t ack_timeout_ms; /* 0: use the configured timeout */
};

/* Allocates memory with the first notification, because most sessions are idle. */
struct inflight {
    int size; /* the limit that was granted to the client */
    int count;
    int ended; /* number of entries that are not OPEN */
    int room;
    struct inflight_entry *entries; /* unordered */
};

/* Returns the number of notifications that fit into the window now. */
static inline int
inflight_free_slots(const struct inflight *inflight)
{
    return inflight->size - (inflight->count - inflight->ended);
}

/* Returns NULL if the notification is not in flight. Valid until the next change. */
struct inflight_entry *inflight_find(const struct inflight *inflight, const unsigned char id[16]);

/* The window must not contain this notification, and must have a free slot unless it has ended. */
void inflight_add(struct inflight *inflight, const struct notification *notification,
                  enum inflight_end end);
void inflight_remove(struct inflight *inflight, struct inflight_entry *entry);

/* An OPEN entry has ended, and remains until it is removed. */
void inflight_end(struct inflight *inflight, struct inflight_entry *entry, enum inflight_end end);

/* Removes entries that were written and have ended. */
void inflight_sweep(struct inflight *inflight);

void inflight_free(struct inflight *inflight);

#endif
