/* feed_query.h: a query repeated on a separate connection from the replication stream. */
#ifndef CLAIRON_FEED_FEED_INQUIRY_H
#define CLAIRON_FEED_FEED_INQUIRY_H

#include <ev.h>
#include <libpq-fe.h>
#include <stdbool.h>

#include "feed/feed_hosts.h"

/* No callback may call feed_query_end. */
struct feed_query {
    struct ev_loop *loop;
    const char *conninfo;
    /* if conninfo names several hosts: use the server of this connection; NULL: any */
    const PGconn *same_server_as;
    const char *sql;
    void (*on_rows)(void *ctx, const PGresult *rows); /* NULL: ignore the rows */
    void (*on_failure)(void *ctx, const char *message);
    void *ctx;
    struct feed_hosts hosts; /* addresses of conninfo */
    PGconn *conn;            /* NULL: not connected */
    bool session_set;        /* session settings are applied */
    ev_io socket;
};

/* Sends the query, connecting first if needed. A no-op while the last one is still running. */
void feed_query_send(struct feed_query *query);
void feed_query_end(struct feed_query *query);

#endif
