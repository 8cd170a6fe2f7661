/* query.h: repeats one query over a separate connection. */
#ifndef CLAIRON_POSTGRES_QUERY_H
#define CLAIRON_POSTGRES_QUERY_H

#include <libpq-fe.h>

#include "postgres/session.h"

/* Callbacks must not call postgres_query_end. */
struct postgres_query {
    struct ev_loop *loop;
    const char *conninfo;
    /* if conninfo has several hosts: connect to the server of this connection; NULL: to any */
    const PGconn *same_server_as;
    const char *sql;
    void (*on_rows)(void *ctx, const PGresult *rows); /* NULL: ignore the rows */
    void (*on_failure)(void *ctx, const char *message);
    void *ctx;
    struct postgres_session session;
};

/* Sends the query, connecting first if needed. A no-op while a query is running. */
void postgres_query_send(struct postgres_query *query);
void postgres_query_end(struct postgres_query *query);

#endif
