/* gap.h: announces notifications that a session will not receive. */
#ifndef CLAIRON_HUB_GAP_H
#define CLAIRON_HUB_GAP_H

#include "hub/session_state.h"

/*
 * Announces a gap. The client resumes from `to`. So `to` is moved before all queued notifications,
 * and before notifications that load shedding dropped without announcing them yet.
 */
void session_gap(struct session *session, struct cursor from, struct cursor to, const char *why);

/* Like session_gap, with `to` unchanged. If the control queue is full, announces the gap later. */
void session_send_gap(struct session *session, struct cursor from, struct cursor to,
                      const char *why);

/* Announces a gap from `from` together with the next frame. */
void session_gap_later(struct session *session, struct cursor from, const char *why);

/* Announces a deferred gap, if any. */
void session_send_late_gap(struct session *session);

#endif
