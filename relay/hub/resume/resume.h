/* resume.h: the life of a session from `connected` to live delivery, and back. */
#ifndef CLAIRON_HUB_RESUME_RESUME_H
#define CLAIRON_HUB_RESUME_RESUME_H

#include "hub/session/session_state.h"

/* Moves the session on in its state. Only the turn calls it; other code marks READY_ADVANCE. */
void session_advance(struct session *session);

/*
 * If the pending list must be read on and can be: changes the state from LIVE to PENDING and
 * returns true; the session must advance immediately. If it can be read only later, the session is
 * added to hub->refills.
 */
bool session_refill(struct session *session);

/* Marks all sessions of hub->refills to refill. */
void refills_wake(struct hub *hub);
void refills_open(struct hub *hub);
void refills_stop(struct hub *hub);

/* Removes a session that is being closed from all lists. */
void session_leave_resume(struct session *session);

/* Call it when the store was emptied: no stream entry before the hub's head exists. */
void session_change_epoch(struct session *session);

/* The ids of the shard are limited by `limit`: the end of the former history was lost. */
void session_limit_ids(struct session *session, unsigned shard,
                       void (*limit)(const struct hub *hub, unsigned shard, struct entry_id *id));

#endif
