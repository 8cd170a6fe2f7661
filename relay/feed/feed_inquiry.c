/* feed_inquiry.c: asks a server one question again and again, on a connection beside the stream. */
#include "feed/feed_inquiry.h"

#include "feed/feed_errors.h"
#include "feed/feed_session.h"

static void
hang_up(struct feed_inquiry *inquiry)
{
    ev_io_stop(inquiry->loop, &inquiry->socket);
    PQfinish(inquiry->conn);
    inquiry->conn = NULL;
}

static void
fail(struct feed_inquiry *inquiry)
{
    inquiry->on_failure(inquiry->ctx, feed_error_line(PQerrorMessage(inquiry->conn)));
    hang_up(inquiry);
}

static void
wait_for(struct feed_inquiry *inquiry, int events)
{
    ev_io_stop(inquiry->loop, &inquiry->socket);
    ev_io_set(&inquiry->socket, PQsocket(inquiry->conn), events);
    ev_io_start(inquiry->loop, &inquiry->socket);
}

static void
ask(struct feed_inquiry *inquiry)
{
    const char *command = inquiry->is_set ? inquiry->query : feed_session_command(inquiry->conn);

    if (PQsendQuery(inquiry->conn, command) != 1)
        fail(inquiry);
    else
        wait_for(inquiry, EV_READ);
}

static void
on_answered(struct feed_inquiry *inquiry)
{
    if (inquiry->is_set)
        return;
    inquiry->is_set = true;
    ask(inquiry);
}

static void
on_answer(struct feed_inquiry *inquiry)
{
    if (PQconsumeInput(inquiry->conn) == 0) {
        fail(inquiry);
        return;
    }
    while (PQisBusy(inquiry->conn) == 0) {
        PGresult *result = PQgetResult(inquiry->conn);
        ExecStatusType status;

        if (result == NULL) {
            on_answered(inquiry);
            return;
        }
        status = PQresultStatus(result);
        if (status == PGRES_TUPLES_OK && inquiry->on_rows != NULL)
            inquiry->on_rows(inquiry->ctx, result);
        PQclear(result);
        if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
            fail(inquiry);
            return;
        }
    }
}

static void
on_socket(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct feed_inquiry *inquiry = watcher->data;

    (void)loop;
    (void)events;
    if (PQstatus(inquiry->conn) == CONNECTION_OK) {
        on_answer(inquiry);
        return;
    }
    switch (PQconnectPoll(inquiry->conn)) {
    case PGRES_POLLING_READING:
        wait_for(inquiry, EV_READ);
        return;
    case PGRES_POLLING_WRITING:
        wait_for(inquiry, EV_WRITE);
        return;
    case PGRES_POLLING_OK:
        ask(inquiry);
        return;
    default:
        fail(inquiry);
    }
}

static void
connect_to(struct feed_inquiry *inquiry, const struct feed_hosts_found *server)
{
    /* What stands behind dbname counts more than what conninfo says; an empty text says nothing. */
    const char *keys[] = {"dbname", "fallback_application_name", "host", "hostaddr", "port", NULL};
    const char *values[] = {inquiry->conninfo, "clairon",    server->host,
                            server->hostaddr,  server->port, NULL};

    inquiry->is_set = false;
    ev_init(&inquiry->socket, on_socket);
    inquiry->socket.data = inquiry;
    inquiry->conn = PQconnectStartParams(keys, values, 1);
    if (inquiry->conn == NULL)
        return; /* no memory: the next time */
    if (PQstatus(inquiry->conn) == CONNECTION_BAD)
        fail(inquiry);
    else
        wait_for(inquiry, EV_WRITE);
}

static void
on_hosts(void *ctx, const struct feed_hosts_found *found, const char *error)
{
    struct feed_inquiry *inquiry = ctx;

    if (found != NULL)
        connect_to(inquiry, found);
    else
        inquiry->on_failure(inquiry->ctx, error);
}

void
feed_inquiry_ask(struct feed_inquiry *inquiry)
{
    const PGconn *beside = inquiry->beside;

    if (inquiry->conn != NULL) {
        if (PQstatus(inquiry->conn) == CONNECTION_OK &&
            PQtransactionStatus(inquiry->conn) == PQTRANS_IDLE)
            ask(inquiry);
    } else if (beside != NULL) {
        connect_to(inquiry,
                   &(struct feed_hosts_found){PQhost(beside), PQhostaddr(beside), PQport(beside)});
    } else if (inquiry->hosts.resolve == NULL) {
        inquiry->hosts.loop = inquiry->loop;
        inquiry->hosts.done = on_hosts;
        inquiry->hosts.ctx = inquiry;
        feed_hosts_find(&inquiry->hosts, inquiry->conninfo, 0);
    }
}

void
feed_inquiry_end(struct feed_inquiry *inquiry)
{
    feed_hosts_end(&inquiry->hosts);
    feed_hosts_free(&inquiry->hosts);
    if (inquiry->conn != NULL)
        hang_up(inquiry);
}
