/* query.c: repeats one query over a separate connection. */
#include "postgres/query.h"

#include "postgres/libpq.h"

static const char *
query_setup(void *ctx, const PGconn *conn)
{
    (void)ctx;
    return postgres_session_command(conn);
}

static void
send_query(void *ctx)
{
    struct postgres_query *query = ctx;

    postgres_session_send(&query->session, query->sql);
}

static void
on_query_result(void *ctx, const PGresult *result)
{
    struct postgres_query *query = ctx;
    ExecStatusType status = PQresultStatus(result);

    if (status == PGRES_TUPLES_OK && query->on_rows != NULL)
        query->on_rows(query->ctx, result);
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK)
        return;
    query->on_failure(query->ctx, postgres_error_line(PQresultErrorMessage(result)));
    postgres_session_close(&query->session);
}

static void
on_query_done(void *ctx)
{
    (void)ctx; /* the connection stays open for the next postgres_query_send */
}

static void
on_query_lost(void *ctx, const char *message)
{
    struct postgres_query *query = ctx;

    query->on_failure(query->ctx, message);
}

static const struct postgres_session_events QUERY_EVENTS = {
    .setup = query_setup,
    .on_ready = send_query,
    .on_result = on_query_result,
    .on_done = on_query_done,
    .on_lost = on_query_lost,
};

void
postgres_query_send(struct postgres_query *query)
{
    struct postgres_session *session = &query->session;

    session->connect.loop = query->loop;
    session->connect.conninfo = query->conninfo;
    session->events = &QUERY_EVENTS;
    session->ctx = query;
    if (session->conn == NULL)
        postgres_session_open(session, query->same_server_as);
    else if (session->is_ready && !session->is_busy)
        send_query(query);
}

void
postgres_query_end(struct postgres_query *query)
{
    postgres_session_free(&query->session);
}
