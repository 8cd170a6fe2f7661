/* libpq.h: session settings and error texts for connections to PostgreSQL. */
#ifndef CLAIRON_POSTGRES_LIBPQ_H
#define CLAIRON_POSTGRES_LIBPQ_H

#include <libpq-fe.h>

/* The first command of each session; it depends on the version of the server. */
const char *postgres_session_command(const PGconn *conn);

/* Hint for the operator about a server error; "" if there is none. */
const char *postgres_error_hint(const char *sqlstate, const char *message);
/* The message on one line, without repeated lines. Valid until the next call. */
const char *postgres_error_line(const char *message);

#endif
