/* session.c: a connection to PostgreSQL that runs one command at a time. */
#include "postgres/session.h"

#include "postgres/libpq.h"

static void
close_conn(struct postgres_session *session)
{
    if (session->conn == NULL)
        return;
    ev_io_stop(session->connect.loop, &session->readable);
    ev_io_stop(session->connect.loop, &session->writable);
    PQfinish(session->conn);
    session->conn = NULL;
    session->is_ready = session->is_busy = false;
}

/* Copies `message` first: it may belong to the connection, which is freed before the callback. */
static void
fail_session(struct postgres_session *session, const char *message)
{
    const char *line = postgres_error_line(message);

    close_conn(session);
    session->events->on_lost(session->ctx, line);
}

/* Flushes libpq's output buffer, immediately or when the socket is writable. */
static void
flush(struct postgres_session *session)
{
    int left = PQflush(session->conn);

    if (left < 0)
        fail_session(session, PQerrorMessage(session->conn));
    else if (left > 0)
        ev_io_start(session->connect.loop, &session->writable);
    else
        ev_io_stop(session->connect.loop, &session->writable);
}

/* `was_sent`: the libpq function succeeded. */
static void
begin_command(struct postgres_session *session, bool was_sent)
{
    session->is_busy = true;
    if (was_sent)
        flush(session);
    else
        fail_session(session, PQerrorMessage(session->conn));
}

static void
handle_result(struct postgres_session *session, const PGresult *result)
{
    if (session->is_ready)
        session->events->on_result(session->ctx, result);
    else if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_session(session, PQresultErrorMessage(result));
}

static void
end_command(struct postgres_session *session)
{
    bool was_ready = session->is_ready;

    if (PQstatus(session->conn) != CONNECTION_OK) {
        fail_session(session, PQerrorMessage(session->conn));
        return;
    }
    session->is_busy = false;
    session->is_ready = true;
    if (was_ready)
        session->events->on_done(session->ctx);
    else
        session->events->on_ready(session->ctx);
}

static void
on_readable(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct postgres_session *session = watcher->data;

    (void)loop;
    (void)events;
    if (PQconsumeInput(session->conn) == 0) {
        fail_session(session, PQerrorMessage(session->conn));
        return;
    }
    while (session->conn != NULL && session->is_busy && PQisBusy(session->conn) == 0) {
        PGresult *result = PQgetResult(session->conn);

        if (result != NULL)
            handle_result(session, result);
        else
            end_command(session);
        PQclear(result);
    }
}

static void
on_writable(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)loop;
    (void)events;
    flush(watcher->data);
}

static void
on_connected(void *ctx, enum rc rc, PGconn *conn, const char *error)
{
    struct postgres_session *session = ctx;

    if (rc != RC_OK) {
        session->events->on_lost(session->ctx, postgres_error_line(error));
        return;
    }
    session->conn = conn;
    ev_io_init(&session->readable, on_readable, PQsocket(conn), EV_READ);
    ev_io_init(&session->writable, on_writable, PQsocket(conn), EV_WRITE);
    session->readable.data = session->writable.data = session;
    ev_io_start(session->connect.loop, &session->readable);
    if (PQsetnonblocking(conn, 1) != 0)
        fail_session(session, PQerrorMessage(conn));
    else
        begin_command(session, PQsendQuery(conn, session->events->setup(session->ctx, conn)) == 1);
}

void
postgres_session_open(struct postgres_session *session, const PGconn *like)
{
    if (session->conn != NULL || postgres_connect_is_active(&session->connect))
        return;
    session->connect.done = on_connected;
    session->connect.ctx = session;
    if (like != NULL)
        postgres_connect_like(&session->connect, like);
    else
        postgres_connect_start(&session->connect, 0);
}

void
postgres_session_send(struct postgres_session *session, const char *command)
{
    begin_command(session, PQsendQuery(session->conn, command) == 1);
}

void
postgres_session_send_rows(struct postgres_session *session, const char *command,
                           const char *const *parameters, int count)
{
    begin_command(session, PQsendQueryParams(session->conn, command, count, NULL, parameters, NULL,
                                             NULL, 0) == 1 &&
                               PQsetSingleRowMode(session->conn) == 1);
}

void
postgres_session_close(struct postgres_session *session)
{
    postgres_connect_end(&session->connect);
    close_conn(session);
}

void
postgres_session_free(struct postgres_session *session)
{
    postgres_session_close(session);
    postgres_connect_free(&session->connect);
}
