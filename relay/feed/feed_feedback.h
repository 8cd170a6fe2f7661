/* feed_feedback.h: status messages to the server, and when either side last sent something. */
#ifndef CLAIRON_FEED_FEED_FEEDBACK_H
#define CLAIRON_FEED_FEED_FEEDBACK_H

#include <ev.h>
#include <stdint.h>

struct feed_feedback {
    ev_timer timer;
    int64_t sent_us;      /* time of the last status message */
    int64_t heard_us;     /* time of the last message of the server */
    int64_t timeout_us;   /* the server's wal_sender_timeout; 0: none */
    uint64_t told_lsn;    /* confirmed by the last status message */
    int64_t came_us;      /* when a transaction last ended; monotonic */
    int64_t came_late_us; /* how long after its commit */
};

#endif
