/* presence.h: reports to the store which users are connected. */
#ifndef CLAIRON_HUB_PRESENCE_H
#define CLAIRON_HUB_PRESENCE_H

struct hub;

/* A user's first session began here, or the last one ended. */
void presence_arrived(struct hub *hub, const char *user);
void presence_left(struct hub *hub, const char *user);

/* Every few seconds; the store expires a relay without heartbeats. */
void presence_heartbeat(struct hub *hub);

/* Reports all users: the store is back, or has lost this relay's users. */
void presence_announce(struct hub *hub);

#endif
