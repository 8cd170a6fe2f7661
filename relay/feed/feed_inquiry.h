/* feed_inquiry.h: one question to a server, on a connection of its own. */
#ifndef CLAIRON_FEED_FEED_INQUIRY_H
#define CLAIRON_FEED_FEED_INQUIRY_H

#include <ev.h>
#include <libpq-fe.h>
#include <stdbool.h>

#include "feed/feed_hosts.h"

/* Neither callback may end it. */
struct feed_inquiry {
    struct ev_loop *loop;
    const char *conninfo;
    const PGconn *beside; /* the server of that connection, where conninfo names several; or NULL */
    const char *query;
    void (*on_rows)(void *ctx, const PGresult *rows); /* NULL: they do not matter */
    void (*on_failure)(void *ctx, const char *message);
    void *ctx;
    struct feed_hosts hosts; /* of conninfo, while they are looked for */
    PGconn *conn;            /* NULL: not connected */
    bool is_set;             /* its session is: the question may be asked */
    ev_io socket;
};

/* Asks, unless it is still asking; connects first if need be. */
void feed_inquiry_ask(struct feed_inquiry *inquiry);
void feed_inquiry_end(struct feed_inquiry *inquiry);

#endif
