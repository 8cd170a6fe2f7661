/* postgresql_query.h: the doctor's connections to PostgreSQL. */
#ifndef CLAIRON_DOCTOR_POSTGRESQL_QUERY_H
#define CLAIRON_DOCTOR_POSTGRESQL_QUERY_H

#include <libpq-fe.h>
#include <stdbool.h>

#define POSTGRESQL_ERROR_MAX 1024
#define POSTGRESQL_STATE_MAX 6

/* The caller's to finish. NULL: `error` holds why, which is no secret. */
PGconn *postgresql_connect(const char *conninfo, bool replicates, char error[POSTGRESQL_ERROR_MAX]);

/*
 * Asks one command, with one parameter unless that is NULL; the rows are the caller's to clear.
 * NULL: `error` and, when the server refused, `sqlstate` say why.
 */
PGresult *postgresql_query(PGconn *conn, const char *command, const char *parameter,
                           char error[POSTGRESQL_ERROR_MAX], char sqlstate[POSTGRESQL_STATE_MAX]);

#endif
