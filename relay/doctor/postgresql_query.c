/*
 * postgresql_query.c: the doctor's connections to PostgreSQL: blocking, with a deadline per step.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/conninfo.h"
#include "doctor/postgresql_query.h"
#include "postgres/libpq.h"

#define TIMEOUT_US 10000000

/* Returns false if the deadline has passed. */
static bool
wait_for(PGconn *conn, short events, int64_t deadline_us)
{
    struct pollfd poll_fd = {.fd = PQsocket(conn), .events = events};
    int64_t left_us = deadline_us - clock_monotonic_us();
    int ready = 0;

    if (left_us > 0)
        ready = poll(&poll_fd, 1, (int)(left_us / 1000) + 1);
    return ready > 0 || (ready < 0 && errno == EINTR);
}

static void
save_error(char error[POSTGRESQL_ERROR_MAX], const char *message)
{
    snprintf(error, POSTGRESQL_ERROR_MAX, "%s", postgres_error_line(message));
}

PGconn *
postgresql_connect(const char *conninfo, bool replicates, char error[POSTGRESQL_ERROR_MAX])
{
    const char *keys[] = {"dbname", "fallback_application_name", "client_encoding",
                          replicates ? "replication" : NULL, NULL};
    const char *values[] = {conninfo, "clairon doctor", "UTF8", replicates ? "database" : NULL,
                            NULL};
    char sqlstate[POSTGRESQL_STATE_MAX];
    int64_t deadline_us = clock_monotonic_us() + TIMEOUT_US;
    PostgresPollingStatusType status = PGRES_POLLING_WRITING;
    const char *fault = conninfo_error(conninfo);
    PGconn *conn;

    if (fault != NULL) {
        save_error(error, fault);
        return NULL;
    }
    conn = PQconnectStartParams(keys, values, 1);
    if (conn == NULL || PQstatus(conn) == CONNECTION_BAD)
        status = PGRES_POLLING_FAILED;
    while (status == PGRES_POLLING_READING || status == PGRES_POLLING_WRITING) {
        if (!wait_for(conn, status == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline_us)) {
            save_error(error, "connection timed out after 10 s");
            PQfinish(conn);
            return NULL;
        }
        status = PQconnectPoll(conn);
    }
    if (status == PGRES_POLLING_OK) {
        /* Applies the feed's session settings, so that both fail for the same reasons. */
        PQclear(postgresql_query(conn, postgres_session_command(conn), NULL, error, sqlstate));
        return conn;
    }
    save_error(error, conn != NULL ? PQerrorMessage(conn) : "out of memory");
    PQfinish(conn);
    return NULL;
}

/* Returns the last result of the command; if NULL, `error` is the reason. */
static PGresult *
collect(PGconn *conn, int64_t deadline_us, char error[POSTGRESQL_ERROR_MAX])
{
    PGresult *last = NULL;

    for (;;) {
        PGresult *result;

        while (PQisBusy(conn) != 0) {
            if (!wait_for(conn, POLLIN, deadline_us)) {
                save_error(error, "query timed out after 10 s");
                PQclear(last);
                return NULL;
            }
            if (PQconsumeInput(conn) == 0) {
                save_error(error, PQerrorMessage(conn));
                PQclear(last);
                return NULL;
            }
        }
        result = PQgetResult(conn);
        if (result == NULL)
            return last;
        PQclear(last);
        last = result;
    }
}

PGresult *
postgresql_query(PGconn *conn, const char *command, const char *parameter,
                 char error[POSTGRESQL_ERROR_MAX], char sqlstate[POSTGRESQL_STATE_MAX])
{
    const char *values[] = {parameter};
    int sent = parameter != NULL ? PQsendQueryParams(conn, command, 1, NULL, values, NULL, NULL, 0)
                                 : PQsendQuery(conn, command);
    PGresult *result = NULL;
    const char *state, *primary;

    sqlstate[0] = '\0';
    if (sent == 1)
        result = collect(conn, clock_monotonic_us() + TIMEOUT_US, error);
    else
        save_error(error, PQerrorMessage(conn));
    if (result == NULL || PQresultStatus(result) == PGRES_TUPLES_OK ||
        PQresultStatus(result) == PGRES_COMMAND_OK)
        return result;
    primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    save_error(error, primary != NULL ? primary : PQresultErrorMessage(result));
    state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    snprintf(sqlstate, POSTGRESQL_STATE_MAX, "%s", state != NULL ? state : "");
    PQclear(result);
    return NULL;
}
