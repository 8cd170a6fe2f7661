/* feed_session.c: what each of the relay's sessions at PostgreSQL goes by. */
#include "feed/feed_session.h"

/*
 * A role or a database may be given limits that are meant for people's queries. They would end, try
 * after try, what takes its time here: a slot in the making waits for other transactions, a copy of
 * memberships lasts as long as the store takes them. And no standby takes what is serializable.
 */
#define SETTINGS                                                                                   \
    "SET statement_timeout = 0; SET lock_timeout = 0; SET idle_session_timeout = 0;"               \
    " SET default_transaction_isolation = 'read committed'"

const char *
feed_session_command(const PGconn *conn)
{
    return PQserverVersion(conn) >= 170000 ? SETTINGS "; SET transaction_timeout = 0" : SETTINGS;
}
