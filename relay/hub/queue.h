/* queue.h: adds notifications and batches to a session's outbound queue. */
#ifndef CLAIRON_HUB_QUEUE_H
#define CLAIRON_HUB_QUEUE_H

#include "hub/session_state.h"

#define SESSION_QUEUE_BYTES (512u * 1024)

bool session_is_full(const struct session *session);

/* True if the outbound queue is empty; the control queue is ignored. */
bool session_queue_is_empty(const struct session *session);

/* Returns the next notification to be sent; NULL: none, or a batch is next. */
const struct notification *session_next_queued(const struct session *session);

/* Queues by priority, HIGH first. A poll receives notifications in the order of the calls. */
void session_queue(struct session *session, struct notification *notification);

/*
 * Queues a whole batch. False if the notifications must be queued individually, because other
 * notifications are queued or the socket is full.
 */
bool session_queue_batch(struct hub *hub, struct session *session, struct fanout_batch *batch);

/* Splits the batch into single notifications, except for the first `sent` bytes. */
void session_split_batch(struct session *session, size_t sent);

void session_clear_queue(struct session *session);

#endif
