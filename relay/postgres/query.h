/* query.h: runs one query over a separate connection, at intervals or when it is needed. */
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
    ev_timer timer; /* active: open; until the next query, or the end of an idle connection */
    bool is_repeated;
};

/* False before the first query, and after the end. */
bool postgres_query_is_open(const struct postgres_query *query);
/*
 * Sends the query, connecting first if needed. A no-op while a query is running. The query ends
 * 10 s after the last call; if it is still running then, it fails.
 */
void postgres_query_send(struct postgres_query *query);
/* Sends the query after this time and then at intervals, until postgres_query_end. */
void postgres_query_repeat(struct postgres_query *query, double after_s, double every_s);
/* A no-op for a query that is not open. */
void postgres_query_end(struct postgres_query *query);

#endif
