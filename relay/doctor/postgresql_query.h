/* postgresql_query.h: the doctor's connections to PostgreSQL. */
#ifndef CLAIRON_DOCTOR_POSTGRESQL_QUERY_H
#define CLAIRON_DOCTOR_POSTGRESQL_QUERY_H

#include <libpq-fe.h>
#include <stdbool.h>

#define POSTGRESQL_ERROR_MAX 1024
#define POSTGRESQL_STATE_MAX 6

/* The caller calls PQfinish. If it returns NULL, `error` is the reason, without secrets. */
PGconn *postgresql_connect(const char *conninfo, bool replicates, char error[POSTGRESQL_ERROR_MAX]);

/*
 * Runs one command with one parameter (NULL: none). The caller calls PQclear. If the result is
 * NULL, `error` is the reason; `sqlstate` is set if the server reported it.
 */
PGresult *postgresql_query(PGconn *conn, const char *command, const char *parameter,
                           char error[POSTGRESQL_ERROR_MAX], char sqlstate[POSTGRESQL_STATE_MAX]);

#endif
