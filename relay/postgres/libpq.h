/* libpq.h: session settings and error messages for connections to PostgreSQL. */
#ifndef CLAIRON_POSTGRES_LIBPQ_H
#define CLAIRON_POSTGRES_LIBPQ_H

#include <libpq-fe.h>

/* Returns the first command of each session, which depends on the server's version. */
const char *postgres_session_command(const PGconn *conn);

/* Returns a hint for the operator about a server error, or "". */
const char *postgres_error_hint(const char *sqlstate, const char *message);
/* Returns the message on one line, without repeated lines. Valid until the next call. */
const char *postgres_error_line(const char *message);

#endif
