/* offer.h: decides whether a session queues, drops or skips a notification. */
#ifndef CLAIRON_HUB_DELIVERY_OFFER_H
#define CLAIRON_HUB_DELIVERY_OFFER_H

#include "hub/session/session_state.h"

/* Offers a new notification to a session in its audience. */
void session_offer(struct session *session, struct notification *notification);
void session_offer_batch(struct hub *hub, struct session *session, struct fanout_batch *batch);

/* Offers a retry to a session of a user who has not acknowledged the notification. */
void session_offer_retry(struct session *session, struct notification *notification);

/*
 * Queues a notification; the queue takes a separate reference. A notification that needs an ack
 * stays in the user's inbox if the in-flight window is full.
 */
void session_enqueue(struct session *session, struct notification *notification);
/* Like session_enqueue, for a notification that was read from the inbox. */
void session_enqueue_from_inbox(struct session *session, struct notification *notification);
/* Queues a notification that was held back, although its ack is not pending. */
void session_enqueue_held(struct session *session, struct notification *notification);

/*
 * Changes LIVE to CATCHING_UP: offers end, and session_advance reads the following notifications.
 */
void session_pause(struct session *session);

#endif
