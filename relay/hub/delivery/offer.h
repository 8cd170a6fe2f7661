/* offer.h: decides what happens to a notification that a session is offered. */
#ifndef CLAIRON_HUB_DELIVERY_OFFER_H
#define CLAIRON_HUB_DELIVERY_OFFER_H

#include "hub/session/session_state.h"

/* Offers a new notification of one of the session's audiences. */
void session_offer(struct session *session, struct notification *notification);
void session_offer_batch(struct hub *hub, struct session *session, struct fanout_batch *batch);

/* Offers a retry to a session of the user who has not acknowledged it. */
void session_offer_retry(struct session *session, struct notification *notification);

/*
 * Queues a notification; the queue takes a reference of its own. One that needs an ack stays in the
 * user's inbox if the in-flight window is full.
 */
void session_enqueue(struct session *session, struct notification *notification);
/* The same for one that was read from the inbox. */
void session_enqueue_from_inbox(struct session *session, struct notification *notification);
/* Queues one that was held back although no ack of it is pending. */
void session_enqueue_held(struct session *session, struct notification *notification);

/* LIVE becomes CATCHING_UP: nothing more is offered; session_advance reads what follows. */
void session_pause(struct session *session);

#endif
