/* feed_state.h: the states of the feed, and the return to WAITING after a failure. */
#ifndef CLAIRON_FEED_FEED_STATE_H
#define CLAIRON_FEED_FEED_STATE_H

#include "base/log.h"

struct feed;

/*
 * The states of the feed. Only feed_set_state changes the state. feed_restart returns to WAITING.
 * In every state except WAITING, a connection to PostgreSQL is open or being opened.
 *
 * WAITING: waits for the retry timer or for the store. Next: CONNECTING.
 *
 * CONNECTING: host names are resolved, and the server accepts the login. Next: SETTING.
 *
 * SETTING: the parameters of the session are set. Next: IDENTIFYING.
 *
 * IDENTIFYING: the server reports its system identifier and timeline. Next: FINDING.
 *
 * FINDING: the slot is queried. If another relay reads the slot, this feed is on standby and
 * restarts. Next: ACQUIRING, or DROPPING if the slot is lost and create_slot is on.
 *
 * DROPPING: the lost slot is dropped. Next: ACQUIRING.
 *
 * ACQUIRING: the store returns the progress of the slot, and rejects another database. Next:
 * READING_HISTORY, RESETTING, CREATING, COPYING, STARTING.
 *
 * READING_HISTORY: the progress is on another timeline, and the server returns the end of that
 * timeline. Next: RESETTING.
 *
 * RESETTING: the store rewinds the progress, because the slot does not exist, does not continue
 * where the progress ends, or follows another timeline. Then the store closes its connections,
 * which restarts the feed. Next: WAITING.
 *
 * CREATING: the server creates the slot, which waits for running transactions. Next: ACQUIRING.
 *
 * COPYING: the rows of clairon.member are copied to a store that has none. Next: STARTING.
 *
 * STARTING: the server starts replication. If another relay was faster, this feed is on standby.
 * Next: REACQUIRING.
 *
 * REACQUIRING: no other relay can read the slot now, so the progress is read again. Next:
 * STREAMING.
 *
 * STREAMING: frames arrive. Next: WAITING.
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

/*
 * The only way to change the state. A transition that is not listed above restarts the feed, and
 * aborts in a debug build (base/states.h).
 */
void feed_set_state(struct feed *feed, enum feed_state state);

/* Logs the reason with fields, drops the connection and retries after the backoff. */
#define feed_restart(feed, ...)                                                                    \
    feed_restart_with((feed), LOG_FIRST(__VA_ARGS__, LOG_END),                                     \
                      (const struct log_field[]){LOG_REST(__VA_ARGS__, LOG_END)})
void feed_restart_with(struct feed *feed, const char *reason, const struct log_field *fields);
/* Like feed_restart, for an error of libpq or of the server. `hint` may be "". */
void feed_fail(struct feed *feed, const char *what, const char *message, const char *hint);
void feed_drop_connection(struct feed *feed);
/* Flushes libpq's output buffer, immediately or when the socket is writable. */
void feed_flush_socket(struct feed *feed);

#endif
