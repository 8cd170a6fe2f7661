/* query.c: repeats one query on its own connection. */
#include "postgres/query.h"

#include "postgres/libpq.h"

static void
disconnect(struct postgres_query *query)
{
    ev_io_stop(query->loop, &query->socket);
    PQfinish(query->conn);
    query->conn = NULL;
}

static void
fail(struct postgres_query *query)
{
    query->on_failure(query->ctx, postgres_error_line(PQerrorMessage(query->conn)));
    disconnect(query);
}

static void
wait_for(struct postgres_query *query, int events)
{
    ev_io_stop(query->loop, &query->socket);
    ev_io_set(&query->socket, PQsocket(query->conn), events);
    ev_io_start(query->loop, &query->socket);
}

static void
send_query(struct postgres_query *query)
{
    const char *command = query->session_set ? query->sql : postgres_session_command(query->conn);

    if (PQsendQuery(query->conn, command) != 1)
        fail(query);
    else
        wait_for(query, EV_READ);
}

static void
on_answered(struct postgres_query *query)
{
    if (query->session_set)
        return;
    query->session_set = true;
    send_query(query);
}

static void
on_answer(struct postgres_query *query)
{
    if (PQconsumeInput(query->conn) == 0) {
        fail(query);
        return;
    }
    while (PQisBusy(query->conn) == 0) {
        PGresult *result = PQgetResult(query->conn);
        ExecStatusType status;

        if (result == NULL) {
            on_answered(query);
            return;
        }
        status = PQresultStatus(result);
        if (status == PGRES_TUPLES_OK && query->on_rows != NULL)
            query->on_rows(query->ctx, result);
        PQclear(result);
        if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
            fail(query);
            return;
        }
    }
}

static void
on_query_socket(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct postgres_query *query = watcher->data;

    (void)loop;
    (void)events;
    if (PQstatus(query->conn) == CONNECTION_OK) {
        on_answer(query);
        return;
    }
    switch (PQconnectPoll(query->conn)) {
    case PGRES_POLLING_READING:
        wait_for(query, EV_READ);
        return;
    case PGRES_POLLING_WRITING:
        wait_for(query, EV_WRITE);
        return;
    case PGRES_POLLING_OK:
        send_query(query);
        return;
    default:
        fail(query);
    }
}

static void
connect_to(struct postgres_query *query, const struct postgres_hosts_found *server)
{
    /* Keywords after dbname override conninfo; an empty value does not. */
    const char *keys[] = {"dbname", "fallback_application_name", "host", "hostaddr", "port", NULL};
    const char *values[] = {query->conninfo,  "clairon",    server->host,
                            server->hostaddr, server->port, NULL};

    query->session_set = false;
    ev_init(&query->socket, on_query_socket);
    query->socket.data = query;
    query->conn = PQconnectStartParams(keys, values, 1);
    if (query->conn == NULL)
        return; /* out of memory: retried by the next postgres_query_send */
    if (PQstatus(query->conn) == CONNECTION_BAD)
        fail(query);
    else
        wait_for(query, EV_WRITE);
}

static void
on_query_hosts(void *ctx, const struct postgres_hosts_found *found, const char *error)
{
    struct postgres_query *query = ctx;

    if (found != NULL)
        connect_to(query, found);
    else
        query->on_failure(query->ctx, error);
}

void
postgres_query_send(struct postgres_query *query)
{
    const PGconn *same_server_as = query->same_server_as;

    if (query->conn != NULL) {
        if (PQstatus(query->conn) == CONNECTION_OK &&
            PQtransactionStatus(query->conn) == PQTRANS_IDLE)
            send_query(query);
    } else if (same_server_as != NULL) {
        connect_to(query, &(struct postgres_hosts_found){PQhost(same_server_as),
                                                         PQhostaddr(same_server_as),
                                                         PQport(same_server_as)});
    } else if (query->hosts.resolve == NULL) {
        query->hosts.loop = query->loop;
        query->hosts.done = on_query_hosts;
        query->hosts.ctx = query;
        postgres_hosts_find(&query->hosts, query->conninfo, 0);
    }
}

void
postgres_query_end(struct postgres_query *query)
{
    postgres_hosts_end(&query->hosts);
    postgres_hosts_free(&query->hosts);
    if (query->conn != NULL)
        disconnect(query);
}
