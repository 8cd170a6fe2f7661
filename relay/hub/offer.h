/* offer.h: decides whether a session queues, defers, drops or skips a notification. */
#ifndef CLAIRON_HUB_OFFER_H
#define CLAIRON_HUB_OFFER_H

#include "hub/session_state.h"

/* Offers a new notification to a session in its audience. */
void session_offer(struct session *session, struct notification *notification);
void session_offer_batch(struct hub *hub, struct session *session, struct fanout_batch *batch);

/* Offers a retry to a session of a user who has not acknowledged the notification. */
void session_offer_retry(struct session *session, struct notification *notification);
/* Skips a retry for a user who has left the audience. It is sent if the user joins again. */
void session_miss_retry(struct session *session, const struct notification *notification);

/*
 * Queues a notification that the session has not received; the queue takes a separate reference. If
 * it needs an ack and the in-flight window has no room, it is deferred.
 */
void session_enqueue(struct session *session, struct notification *notification);
/*
 * Queues a notification that needs an ack and is pending or deferred. False if the in-flight window
 * has no room. `is_new`: the client has not received it before.
 */
bool session_enqueue_pending(struct session *session, struct notification *notification,
                             enum inflight_end end, bool is_new);
/*
 * Queues a notification that was held, because the user may not have to acknowledge it. Later, when
 * the deferred notifications are read from the stream, session_was_sent_early returns true for it.
 */
void session_enqueue_held(struct session *session, struct notification *notification);
bool session_was_sent_early(const struct session *session, const struct notification *notification);

/* Changes LIVE to STREAM: offers end, and session_advance reads the following notifications. */
void session_pause(struct session *session);

/* The pending list must be read again from its start. */
void session_rewind(struct session *session);

/* Call it when the notification was written to the socket. Starts the ack timeout. */
void session_inflight_written(struct session *session, const struct notification *notification);
/* Removes a notification that left the outbound queue unwritten. */
void session_inflight_drop(struct session *session, const struct notification *notification);

/*
 * The notification needs no acknowledgement any more. ACKED: if it is still queued, `acked` follows
 * it. Returns its shard, or -1 if it was not in flight.
 */
int session_inflight_end(struct session *session, const unsigned char id[16],
                         enum inflight_end end);
/* The notification's retries have ended. If it is still queued, it is sent nevertheless. */
void session_inflight_end_retries(struct session *session, const unsigned char id[16]);

/*
 * Acknowledgements and retries may have been missed: reports all notifications in flight again, and
 * the replies decide.
 */
void session_reconcile(struct session *session);

/* Sends `acked`. Does nothing before `connected`. */
void session_send_acked(struct session *session, const char *const *ids, size_t count);

#endif
