/* presence.h: reports the connected users to the store. */
#ifndef CLAIRON_HUB_PRESENCE_H
#define CLAIRON_HUB_PRESENCE_H

struct hub;

/* Reports that the user's first session on this relay started, or the last session ended. */
void presence_arrived(struct hub *hub, const char *user);
void presence_left(struct hub *hub, const char *user);

/* Call it every few seconds; the store expires a relay without heartbeats. */
void presence_heartbeat(struct hub *hub);

/* Reports all users. Call it when the store is up again, or has lost this relay's users. */
void presence_announce(struct hub *hub);

#endif
