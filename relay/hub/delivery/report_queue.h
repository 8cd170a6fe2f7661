/* report_queue.h: delivery reports that wait for the store. */
#ifndef CLAIRON_HUB_DELIVERY_REPORT_QUEUE_H
#define CLAIRON_HUB_DELIVERY_REPORT_QUEUE_H

#include "hub/session/session_state.h"

#define REPORTS_PER_CALL 500

/* One report: a notification was written to a socket of this user, or is held back. */
struct delivery_report {
    unsigned char id[16];
    unsigned char shard;
    uint8_t backoff;
    uint32_t ack_timeout_ms; /* 0: the configured one */
    bool retry_enabled;
    bool is_open_ended;
    bool is_renewal;     /* it was reported before; the store may have lost it */
    bool is_not_pending; /* the store's reply: no ack of it is pending */
    char *user;
    struct session *deferred;          /* it is held back for this session; NULL: it was written */
    struct notification *notification; /* the one that is held back; a reference */
};

/* It was written to the socket. */
void delivery_report_add(struct session *session, const struct notification *notification);

/*
 * The in-flight window is full. The store keeps the notification in the user's inbox; if no ack is
 * pending, it is sent at once.
 */
void delivery_report_defer(struct session *session, struct notification *notification);

/* Repeats a report, because the store may have lost it. */
void delivery_report_renew(struct session *session, const struct inflight_entry *entry);

#endif
