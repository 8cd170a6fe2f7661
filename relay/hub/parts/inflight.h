/* inflight.h: the in-flight window: notifications sent to a session and not yet acknowledged. */
#ifndef CLAIRON_HUB_PARTS_INFLIGHT_H
#define CLAIRON_HUB_PARTS_INFLIGHT_H

#include "hub/fanout/notification.h"

/* A notification between queueing and acknowledgement. */
struct inflight_entry {
    unsigned char id[16];
    unsigned char shard;
    bool is_written;    /* written to the socket; otherwise still queued */
    bool is_missed;     /* a retry was not queued */
    bool needs_recheck; /* an ack on another relay may have been missed */
    uint8_t backoff;    /* enum frame_backoff */
    bool retry_enabled;
    bool is_open_ended;      /* every recipient must acknowledge it */
    uint32_t ack_timeout_ms; /* 0: use the configured timeout */
};

/* Allocates memory with the first notification, because most sessions are idle. */
struct inflight {
    int size; /* the limit that was granted to the client */
    int count;
    int room;
    struct inflight_entry *entries; /* unordered */
};

static inline bool
inflight_is_full(const struct inflight *inflight)
{
    return inflight->count >= inflight->size;
}

/* Returns NULL if the notification is not in flight. Valid until the next change. */
struct inflight_entry *inflight_find(const struct inflight *inflight, const unsigned char id[16]);

/* The window must not be full and must not contain this notification. */
void inflight_add(struct inflight *inflight, const struct notification *notification);
void inflight_remove(struct inflight *inflight, struct inflight_entry *entry);

/*
 * Handles another arrival of a notification in flight. True if it must be queued again, because a
 * retry was not queued after it was written. Otherwise it is already queued or delivered.
 */
bool inflight_repeat(struct inflight_entry *entry);

/*
 * Starts a recheck of written notifications against the inbox. inflight_confirm confirms a
 * notification that the inbox contains. Notifications of an open-ended audience are always kept: a
 * store that lost data may lack them, and the reply to their delivery report decides.
 */
void inflight_recheck(struct inflight *inflight);
void inflight_confirm(struct inflight *inflight, const unsigned char id[16]);
bool inflight_is_refuted(const struct inflight_entry *entry);

void inflight_free(struct inflight *inflight);

#endif
