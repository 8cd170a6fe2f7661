/* feed_session.h: the settings of each session at PostgreSQL. */
#ifndef CLAIRON_FEED_FEED_SESSION_H
#define CLAIRON_FEED_FEED_SESSION_H

#include <libpq-fe.h>

/* The command that a session begins with; it depends on the version of the server. */
const char *feed_session_command(const PGconn *conn);

#endif
