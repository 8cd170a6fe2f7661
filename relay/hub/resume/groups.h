/* groups.h: a session's memberships, as the store knows them. */
#ifndef CLAIRON_HUB_RESUME_GROUPS_H
#define CLAIRON_HUB_RESUME_GROUPS_H

#include "hub/session/session_state.h"

/* GROUPING: requests the memberships for the first time. */
void session_load_groups(struct session *session);

/* Requests them again, or once more if a request is under way. */
void session_reload_groups(struct session *session);

/* A request is under way that may have been answered before a change. */
bool session_awaits_groups(const struct session *session);

/* True while the memberships may be outdated: then no notification is matched against them. */
static inline bool
session_groups_are_old(const struct session *session)
{
    return session->groups.state != GROUPS_CURRENT;
}

/* clairon.member has the user in this audience from now on. */
void session_join(struct session *session, const char *key, size_t len);

#endif
