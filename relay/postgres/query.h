/* query.h: a query repeated on its own connection. */
#ifndef CLAIRON_POSTGRES_QUERY_H
#define CLAIRON_POSTGRES_QUERY_H

#include <libpq-fe.h>

#include "postgres/session.h"

/* No callback may call postgres_query_end. */
struct postgres_query {
    struct ev_loop *loop;
    const char *conninfo;
    /* if conninfo names several hosts: use the server of this connection; NULL: any */
    const PGconn *same_server_as;
    const char *sql;
    void (*on_rows)(void *ctx, const PGresult *rows); /* NULL: ignore the rows */
    void (*on_failure)(void *ctx, const char *message);
    void *ctx;
    struct postgres_session session;
};

/* Sends the query, connecting first if needed. A no-op while the last one is still running. */
void postgres_query_send(struct postgres_query *query);
void postgres_query_end(struct postgres_query *query);

#endif
