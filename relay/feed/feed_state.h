/* feed_state.h: the states of the feed, and the way back to WAITING after a failure. */
#ifndef CLAIRON_FEED_FEED_STATE_H
#define CLAIRON_FEED_FEED_STATE_H

#include "base/log.h"

struct feed;

/*
 * WAITING (for the retry timer or the store) -> CONNECTING -> SETTING the session -> IDENTIFYING
 * the server -> FINDING the slot [-> DROPPING it, if it is lost] -> ACQUIRING its progress from
 * the store [-> CREATING it, ACQUIRING again] [-> COPYING memberships] -> STARTING replication ->
 * REACQUIRING (now no other relay can read the slot) -> STREAMING.
 *
 * READING_HISTORY and RESETTING follow ACQUIRING if the progress is of another timeline, or if the
 * slot is gone or does not continue where the progress ends. feed_restart leads from each state to
 * WAITING.
 */
enum feed_state {
    FEED_WAITING,
    FEED_CONNECTING,
    FEED_SETTING,
    FEED_IDENTIFYING,
    FEED_FINDING,
    FEED_DROPPING,
    FEED_CREATING,
    FEED_ACQUIRING,
    FEED_READING_HISTORY,
    FEED_RESETTING,
    FEED_COPYING,
    FEED_STARTING,
    FEED_REACQUIRING,
    FEED_STREAMING
};

void feed_set_state(struct feed *feed, enum feed_state state);

/* Logs the reason with fields, drops the connection and retries after the backoff. */
#define feed_restart(feed, ...)                                                                    \
    feed_restart_with((feed), LOG_FIRST(__VA_ARGS__, LOG_END),                                     \
                      (const struct log_field[]){LOG_REST(__VA_ARGS__, LOG_END)})
void feed_restart_with(struct feed *feed, const char *reason, const struct log_field *fields);
/* The same for an error of libpq or the server. `hint` may be "". */
void feed_fail(struct feed *feed, const char *what, const char *message, const char *hint);
void feed_drop_connection(struct feed *feed);
/* Flushes libpq's output buffer, now or when the socket is writable. */
void feed_flush_socket(struct feed *feed);

#endif
