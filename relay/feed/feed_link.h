/* feed_link.h: the connection to PostgreSQL and its retry timer. */
#ifndef CLAIRON_FEED_FEED_LINK_H
#define CLAIRON_FEED_FEED_LINK_H

#include <ev.h>
#include <libpq-fe.h>

#include "base/backoff.h"
#include "feed/feed_hosts.h"

#define FEED_CONNECT_TIMEOUT_S 15.0

struct feed_link {
    struct backoff backoff;
    ev_timer retry;
    ev_timer timeout; /* limits every state before STREAMING */
    ev_io readable;
    ev_io writable;
    struct feed_hosts hosts; /* addresses of conninfo */
    PGconn *conn;
    PGresult *result; /* of the running command, until it is complete */
    unsigned attempt; /* identifies the connection for late replies of the store */
};

#endif
