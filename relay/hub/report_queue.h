/* report_queue.h: queues delivery reports for the store. */
#ifndef CLAIRON_HUB_REPORT_QUEUE_H
#define CLAIRON_HUB_REPORT_QUEUE_H

#include "hub/session_state.h"
#include "store/report.h"

#define REPORTS_PER_CALL 500

/* A report that a notification was written to a socket of this user, or is held back. */
struct delivery_report {
    unsigned char id[16];
    unsigned char shard;
    uint8_t backoff;
    uint32_t ack_timeout_ms; /* 0: use the configured timeout */
    bool retry_enabled;
    bool is_open_ended;
    bool is_renewal;       /* repeats an earlier report that the store may have lost */
    enum store_pair state; /* as the store replied */
    char *user;
    /* the session for which the notification is held back; NULL: it was written */
    struct session *deferred;
    struct notification *notification; /* a reference to the held back notification */
};

/* Reports that the notification was written to the socket. */
void delivery_report_add(struct session *session, const struct notification *notification);

/*
 * Asks the store whether the user must acknowledge a deferred notification, which is held until the
 * reply. False if too many reports are queued.
 */
MUST_CHECK bool delivery_report_defer(struct session *session, struct notification *notification);

/* Repeats a report that the store may have lost. */
void delivery_report_renew(struct session *session, const struct inflight_entry *entry);

#endif
