/* feed_command.h: commands to the server, and the request for the slot's progress to the store. */
#ifndef CLAIRON_FEED_FEED_COMMAND_H
#define CLAIRON_FEED_FEED_COMMAND_H

#include "feed/feed_state.h"

#define FEED_COMMAND_MAX 2048

/* Sends a command, and changes the state. feed_on_result handles the result. */
void feed_send_command(struct feed *feed, enum feed_state state, const char *command);
/* Requests the slot's progress from the store; then calls slot.on_acquired. */
void feed_acquire(struct feed *feed, enum feed_state state);
void feed_start_replication(struct feed *feed);

#endif
