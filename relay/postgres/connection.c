/*
 * connection.c: connects to PostgreSQL and runs commands, without blocking the loop.
 *
 * libpq would resolve host names in PQconnectStart, and block the loop until the name server
 * answers or times out. Hosts from a service file or the environment are left to libpq.
 */
#include "postgres/connection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"

#define LIST_MAX 16384 /* maximum bytes of a list of hosts, addresses or ports */
#define SETUP_MAX 512
#define IDLE_S 10.0 /* an idle query closes its connection after this time */

/* ---- the hosts in a connection string */

static char *
copy(const char *text)
{
    return memory_text(text, strlen(text));
}

/* Splits a string at its commas. Returns false if there are too many parts. */
static bool
split_list(char *text, const char **ret_parts, size_t *ret_count)
{
    size_t count = 0;

    for (char *rest = text, *part; (part = strsep(&rest, ",")) != NULL;) {
        if (count == RESOLVE_HOSTS_MAX)
            return false;
        ret_parts[count++] = part;
    }
    *ret_count = count;
    return true;
}

/* Returns false if there are no hosts, or libpq must resolve them. */
static bool
parse_conninfo(struct postgres_hosts *hosts, const char *conninfo)
{
    PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
    bool resolves = getenv("PGHOSTADDR") == NULL && getenv("PGSERVICE") == NULL;

    for (const PQconninfoOption *one = options; one != NULL && one->keyword != NULL; one++) {
        if (one->val == NULL || one->val[0] == '\0')
            continue;
        if (strcmp(one->keyword, "host") == 0)
            hosts->host_text = copy(one->val);
        else if (strcmp(one->keyword, "port") == 0)
            hosts->port_text = copy(one->val);
        else if (strcmp(one->keyword, "hostaddr") == 0 || strcmp(one->keyword, "service") == 0)
            resolves = false;
    }
    PQconninfoFree(options);
    return resolves && hosts->host_text != NULL &&
           split_list(hosts->host_text, hosts->hosts, &hosts->count) &&
           split_list(hosts->port_text, hosts->ports, &hosts->port_count) &&
           (hosts->port_count <= 1 || hosts->port_count == hosts->count);
}

static void
add_host(struct postgres_hosts *hosts, size_t i, const char *address)
{
    const char *comma = hosts->found_count > 0 ? "," : "";
    const char *port = hosts->port_count == 0   ? ""
                       : hosts->port_count == 1 ? hosts->ports[0]
                                                : hosts->ports[i];

    if (buffer_addf(&hosts->host, "%s%s", comma, hosts->hosts[i]) == RC_OK &&
        buffer_addf(&hosts->hostaddr, "%s%s", comma, address) == RC_OK &&
        buffer_addf(&hosts->port, "%s%s", comma, port) == RC_OK)
        hosts->found_count++;
}

/* Keeps the order in conninfo, and omits unresolved hosts. */
static void
make_lists(struct postgres_hosts *hosts, const struct resolved *found, size_t count)
{
    postgres_hosts_free(hosts);
    hosts->host.limit = hosts->hostaddr.limit = hosts->port.limit = LIST_MAX;
    for (size_t i = 0; i < hosts->count; i++) {
        if (!resolve_is_needed(hosts->hosts[i]))
            add_host(hosts, i, "");
        for (size_t k = 0; k < count; k++)
            if (hosts->looked_up[found[k].host % RESOLVE_HOSTS_MAX] == i)
                add_host(hosts, i, found[k].address);
    }
    hosts->found = (struct postgres_hosts_found){hosts->host.bytes, hosts->hostaddr.bytes,
                                                 hosts->port_count > 0 ? hosts->port.bytes : NULL};
}

static void
on_resolved(void *ctx, const struct resolved *found, size_t count, const char *error)
{
    struct postgres_hosts *hosts = ctx;

    hosts->resolve = NULL;
    make_lists(hosts, found, count);
    postgres_hosts_end(hosts);
    if (hosts->found_count > 0)
        hosts->found_us = clock_monotonic_us();
    hosts->done(hosts->ctx, hosts->found_count > 0 ? &hosts->found : NULL, error);
}

void
postgres_hosts_find(struct postgres_hosts *hosts, const char *conninfo, int64_t max_age_us)
{
    const struct postgres_hosts_found as_is = {NULL, NULL, NULL};
    const char *names[RESOLVE_HOSTS_MAX];
    size_t count = 0;

    if (hosts->found_us != 0 && clock_monotonic_us() - hosts->found_us < max_age_us) {
        hosts->done(hosts->ctx, &hosts->found, "");
        return;
    }
    if (parse_conninfo(hosts, conninfo)) {
        for (size_t i = 0; i < hosts->count; i++) {
            if (!resolve_is_needed(hosts->hosts[i]))
                continue;
            hosts->looked_up[count] = (unsigned)i;
            names[count++] = hosts->hosts[i];
        }
    }
    if (count > 0)
        hosts->resolve = resolve_start(hosts->loop, names, count, on_resolved, hosts);
    if (hosts->resolve != NULL)
        return;
    postgres_hosts_end(hosts);
    hosts->done(hosts->ctx, &as_is, "");
}

void
postgres_hosts_end(struct postgres_hosts *hosts)
{
    resolve_stop(hosts->resolve);
    hosts->resolve = NULL;
    free(hosts->host_text);
    free(hosts->port_text);
    hosts->host_text = hosts->port_text = NULL;
    hosts->count = hosts->port_count = 0;
}

void
postgres_hosts_free(struct postgres_hosts *hosts)
{
    buffer_free(&hosts->host);
    buffer_free(&hosts->hostaddr);
    buffer_free(&hosts->port);
    hosts->found_count = 0;
    hosts->found_us = 0;
}

/* ---- an attempt to connect */

/* Clears connect->conn before the callback, which may start another attempt. */
static void
finish_attempt(struct postgres_connect *connect, enum rc rc, const char *error)
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
fail_attempt(struct postgres_connect *connect)
{
    finish_attempt(connect, RC_IO,
                   connect->conn != NULL ? PQerrorMessage(connect->conn) : "out of memory");
}

/* PQconnectPoll may have opened another socket, for the next address or without TLS. */
static void
wait_for_socket(struct postgres_connect *connect, int events)
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
        wait_for_socket(connect, EV_READ);
        return;
    case PGRES_POLLING_WRITING:
        wait_for_socket(connect, EV_WRITE);
        return;
    case PGRES_POLLING_OK:
        finish_attempt(connect, RC_OK, "");
        return;
    default:
        fail_attempt(connect);
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
        fail_attempt(connect);
        return;
    }
    if (connect->on_notice != NULL)
        PQsetNoticeProcessor(connect->conn, connect->on_notice, connect->ctx);
    ev_init(&connect->socket, on_connect_socket);
    connect->socket.data = connect;
    /* required by libpq: start as if PQconnectPoll had returned WRITING */
    wait_for_socket(connect, EV_WRITE);
}

static void
on_connect_hosts(void *ctx, const struct postgres_hosts_found *found, const char *error)
{
    if (found != NULL)
        connect_to(ctx, found);
    else
        finish_attempt(ctx, RC_BAD, error);
}

void
postgres_connect_start(struct postgres_connect *connect, int64_t max_age_us)
{
    connect->hosts.loop = connect->loop;
    connect->hosts.done = on_connect_hosts;
    connect->hosts.ctx = connect;
    postgres_hosts_find(&connect->hosts, connect->conninfo, max_age_us);
}

bool
postgres_connect_is_resolving(const struct postgres_connect *connect)
{
    return connect->hosts.resolve != NULL;
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

/* ---- a session */

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

/* After the last of separate rows, a result without rows follows. */
static void
pass_result(struct postgres_session *session, const PGresult *result)
{
    const ExecStatusType status = PQresultStatus(result);

    if (status == PGRES_SINGLE_TUPLE || (status == PGRES_TUPLES_OK && !session->is_split))
        session->events->on_rows(session->ctx, result);
    else if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        session->events->on_error(session->ctx, result);
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

        if (result == NULL)
            end_command(session);
        else if (session->is_ready)
            pass_result(session, result);
        else if (PQresultStatus(result) != PGRES_COMMAND_OK)
            fail_session(session, PQresultErrorMessage(result));
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
on_notice(void *ctx, const char *message)
{
    const struct postgres_session *session = ctx;

    log_debug(session->events->component, "server notice",
              LOG_TEXT("notice", postgres_error_line(message)));
}

static void
send_setup(struct postgres_session *session)
{
    const struct postgres_session_events *events = session->events;
    const char *further = events->setup != NULL ? events->setup(session->ctx) : "";
    char setup[SETUP_MAX];

    snprintf(setup, sizeof(setup), "%s; %s", postgres_session_command(session->conn), further);
    begin_command(session, PQsendQuery(session->conn, setup) == 1);
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
        send_setup(session);
}

void
postgres_session_open(struct postgres_session *session, const PGconn *like)
{
    struct postgres_connect *connect = &session->connect;

    if (session->conn != NULL || connect->conn != NULL || postgres_connect_is_resolving(connect))
        return;
    connect->done = on_connected;
    connect->ctx = session;
    connect->on_notice = session->events->component != NULL ? on_notice : NULL;
    if (like != NULL)
        connect_to(connect,
                   &(struct postgres_hosts_found){PQhost(like), PQhostaddr(like), PQport(like)});
    else
        postgres_connect_start(connect, 0);
}

void
postgres_session_send(struct postgres_session *session, const char *command)
{
    session->is_split = false;
    begin_command(session, PQsendQuery(session->conn, command) == 1);
}

void
postgres_session_send_rows(struct postgres_session *session, const char *command,
                           const char *const *parameters, int count)
{
    session->is_split = true;
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

/* ---- one query over a separate connection */

static void
send_query(void *ctx)
{
    struct postgres_query *query = ctx;

    postgres_session_send(&query->session, query->sql);
}

static void
on_query_rows(void *ctx, const PGresult *rows)
{
    struct postgres_query *query = ctx;

    if (query->on_rows != NULL)
        query->on_rows(query->ctx, rows);
}

static void
on_query_error(void *ctx, const PGresult *error)
{
    struct postgres_query *query = ctx;

    query->on_failure(query->ctx, postgres_error_line(PQresultErrorMessage(error)));
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
    .on_ready = send_query,
    .on_rows = on_query_rows,
    .on_error = on_query_error,
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
