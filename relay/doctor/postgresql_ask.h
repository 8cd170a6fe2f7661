/* postgresql_ask.h: the doctor's connections to PostgreSQL. */
#ifndef CLAIRON_DOCTOR_POSTGRESQL_ASK_H
#define CLAIRON_DOCTOR_POSTGRESQL_ASK_H

#include <libpq-fe.h>
#include <stdbool.h>

#define EXAMINE_ERROR_MAX 1024
#define EXAMINE_STATE_MAX 6

/* The caller's to finish. NULL: `error` holds why, which is no secret. */
PGconn *examine_connect(const char *conninfo, bool replicates, char error[EXAMINE_ERROR_MAX]);

/*
 * Asks one command, with one parameter unless that is NULL; the rows are the caller's to clear.
 * NULL: `error` and, when the server refused, `sqlstate` say why.
 */
PGresult *examine_ask(PGconn *conn, const char *command, const char *parameter,
                      char error[EXAMINE_ERROR_MAX], char sqlstate[EXAMINE_STATE_MAX]);

#endif
