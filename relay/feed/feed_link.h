/* feed_link.h: the connection to PostgreSQL, and when it is tried again. */
#ifndef CLAIRON_FEED_FEED_LINK_H
#define CLAIRON_FEED_FEED_LINK_H

#include <ev.h>
#include <libpq-fe.h>

#include "base/backoff.h"
#include "feed/feed_hosts.h"

#define FEED_CONNECT_PATIENCE_S 15.0

struct feed_link {
    struct backoff backoff;
    ev_timer retry;
    ev_timer patience; /* bounds everything before STREAMING */
    ev_io readable;
    ev_io writable;
    struct feed_hosts hosts; /* of conninfo, while they are looked for */
    PGconn *conn;
    PGresult *result; /* of the command under way, until its answer is complete */
    unsigned attempt; /* tells answers for an earlier connection from ours */
};

#endif
