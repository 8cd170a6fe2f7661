/* query.c: runs one query over a separate connection, at intervals or when it is needed. */
#include "postgres/query.h"

#include "postgres/libpq.h"

#define IDLE_S 10.0

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

static void
on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct postgres_query *query = timer->data;

    (void)loop;
    (void)events;
    if (query->is_repeated) {
        postgres_query_send(query);
        return;
    }
    if (!query->session.is_ready || query->session.is_busy)
        query->on_failure(query->ctx, "timeout expired");
    postgres_query_end(query);
}

bool
postgres_query_is_open(const struct postgres_query *query)
{
    return ev_is_active(&query->timer);
}

void
postgres_query_repeat(struct postgres_query *query, double after_s, double every_s)
{
    query->is_repeated = true;
    ev_timer_init(&query->timer, on_timer, after_s, every_s);
    query->timer.data = query;
    ev_timer_start(query->loop, &query->timer);
}

void
postgres_query_send(struct postgres_query *query)
{
    struct postgres_session *session = &query->session;

    if (!query->is_repeated) {
        if (!postgres_query_is_open(query))
            ev_timer_init(&query->timer, on_timer, IDLE_S, IDLE_S);
        query->timer.data = query;
        ev_timer_again(query->loop, &query->timer);
    }

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
    if (!postgres_query_is_open(query))
        return;
    ev_timer_stop(query->loop, &query->timer);
    postgres_session_free(&query->session);
}
