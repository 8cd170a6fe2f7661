/* gap.h: announces notifications that a session will not receive. */
#ifndef CLAIRON_HUB_SESSION_GAP_H
#define CLAIRON_HUB_SESSION_GAP_H

#include "hub/session/session_state.h"

/*
 * Announces a gap. The client resumes from `to`, so `to` is moved before the notifications that
 * are still queued, and before those that load shedding dropped and has not announced yet.
 */
void session_gap(struct session *session, struct cursor from, struct cursor to, const char *why);

/* The same with an unchanged `to`. If the control queue is full, the gap is announced later. */
void session_send_gap(struct session *session, struct cursor from, struct cursor to,
                      const char *why);

/* Announces a gap from `from` with the next frame that is sent. */
void session_gap_later(struct session *session, struct cursor from, const char *why);

/* Announces the gap that had to wait, if there is one. */
void session_send_late_gap(struct session *session);

/* Announces that this notification was dropped. */
void session_gap_of(struct session *session, const struct notification *notification,
                    const char *why);

/* Announces that part of the backlog is lost, once the outbound queue is empty. */
void session_gap_of_backlog(struct session *session);

/* The inbox was read to its end: what is left of the backlog is lost. */
void session_lose_backlog(struct session *session);

#endif
