/* connect.c: opens a connection to PostgreSQL without blocking the loop. */
#include "postgres/connect.h"

/* Clears connect->conn before the callback, which may start another attempt. */
static void
finish(struct postgres_connect *connect, enum rc rc, const char *error)
{
    PGconn *conn = connect->conn;

    connect->conn = NULL;
    if (rc == RC_OK) {
        connect->done(connect->ctx, RC_OK, conn, "");
        return;
    }
    connect->done(connect->ctx, rc, NULL, error);
    PQfinish(conn);
}

static void
fail(struct postgres_connect *connect)
{
    finish(connect, RC_IO, connect->conn != NULL ? PQerrorMessage(connect->conn) : "out of memory");
}

/* PQconnectPoll may have opened another socket, for the next address or without TLS. */
static void
wait_for(struct postgres_connect *connect, int events)
{
    ev_io_set(&connect->socket, PQsocket(connect->conn), events);
    ev_io_start(connect->loop, &connect->socket);
}

static void
on_connect_socket(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct postgres_connect *connect = watcher->data;

    (void)events;
    ev_io_stop(loop, watcher);
    switch (PQconnectPoll(connect->conn)) {
    case PGRES_POLLING_READING:
        wait_for(connect, EV_READ);
        return;
    case PGRES_POLLING_WRITING:
        wait_for(connect, EV_WRITE);
        return;
    case PGRES_POLLING_OK:
        finish(connect, RC_OK, "");
        return;
    default:
        fail(connect);
    }
}

static void
connect_to(struct postgres_connect *connect, const struct postgres_hosts_found *server)
{
    /* Keywords before dbname are defaults, which the connection string in dbname overrides. */
    const char *keys[] = {"tcp_user_timeout",
                          "keepalives_idle",
                          "keepalives_interval",
                          "keepalives_count",
                          "dbname",
                          "replication",
                          "fallback_application_name",
                          "client_encoding",
                          "host",
                          "hostaddr",
                          "port",
                          NULL};
    const char *values[] = {"20000",
                            "10",
                            "5",
                            "3",
                            connect->conninfo,
                            connect->replication,
                            "clairon",
                            "UTF8",
                            server->host,
                            server->hostaddr,
                            server->port,
                            NULL};

    connect->conn = PQconnectStartParams(keys, values, 1);
    if (connect->conn == NULL || PQstatus(connect->conn) == CONNECTION_BAD) {
        fail(connect);
        return;
    }
    if (connect->on_notice != NULL)
        PQsetNoticeProcessor(connect->conn, connect->on_notice, connect->ctx);
    ev_init(&connect->socket, on_connect_socket);
    connect->socket.data = connect;
    /* required by libpq: start as if PQconnectPoll had returned WRITING */
    wait_for(connect, EV_WRITE);
}

static void
on_connect_hosts(void *ctx, const struct postgres_hosts_found *found, const char *error)
{
    if (found != NULL)
        connect_to(ctx, found);
    else
        finish(ctx, RC_BAD, error);
}

void
postgres_connect_start(struct postgres_connect *connect, int64_t max_age_us)
{
    connect->hosts.loop = connect->loop;
    connect->hosts.done = on_connect_hosts;
    connect->hosts.ctx = connect;
    postgres_hosts_find(&connect->hosts, connect->conninfo, max_age_us);
}

void
postgres_connect_like(struct postgres_connect *connect, const PGconn *other)
{
    connect_to(connect,
               &(struct postgres_hosts_found){PQhost(other), PQhostaddr(other), PQport(other)});
}

bool
postgres_connect_is_resolving(const struct postgres_connect *connect)
{
    return connect->hosts.resolve != NULL;
}

bool
postgres_connect_is_active(const struct postgres_connect *connect)
{
    return connect->conn != NULL || postgres_connect_is_resolving(connect);
}

void
postgres_connect_end(struct postgres_connect *connect)
{
    postgres_hosts_end(&connect->hosts);
    if (connect->conn == NULL)
        return;
    ev_io_stop(connect->loop, &connect->socket);
    PQfinish(connect->conn);
    connect->conn = NULL;
}

void
postgres_connect_free(struct postgres_connect *connect)
{
    postgres_connect_end(connect);
    postgres_hosts_free(&connect->hosts);
}
