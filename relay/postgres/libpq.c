/* libpq.c: session settings, and error messages as one line with a hint. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "postgres/connection.h"

#define LINE_MAX_LEN 1024

/*
 * Timeouts that a role or database sets for interactive queries would cancel long operations at
 * each attempt: creating a slot waits for other transactions, and copying memberships waits for the
 * store. Serializable transactions fail on a standby. The server checks during a command whether
 * the client has disconnected: otherwise the creation of a slot would hold the slot, and a query
 * its locks, after the relay has ended. Only queries start these checks, not replication commands:
 * a slot's creation continues those of the query of the slot, unless the store takes 2 s to reply
 * in between. Then the creation ends with the transactions that it waits for. Servers on Linux,
 * macOS and the BSDs accept the setting; the plugin is not built for others.
 */
#define SETTINGS                                                                                   \
    "SET statement_timeout = 0; SET lock_timeout = 0; SET idle_session_timeout = 0;"               \
    " SET client_connection_check_interval = '2s';"                                                \
    " SET default_transaction_isolation = 'read committed'"

const char *
postgres_session_command(const PGconn *conn)
{
    return PQserverVersion(conn) >= 170000 ? SETTINGS "; SET transaction_timeout = 0" : SETTINGS;
}

struct hint {
    const char *sqlstate; /* NULL: any */
    const char *word;     /* substring of the message; NULL: any */
    const char *text;
};

static const struct hint hints[] = {
    {"42501", "output_plugin_libraries",
     "add clairon to output_plugin_libraries in postgresql.conf and reload"},
    {NULL, "output_plugin_libraries",
     "add clairon to output_plugin_libraries in postgresql.conf and reload"},
    {NULL, "output plugin", "add clairon to output_plugin_libraries in postgresql.conf and reload"},
    {NULL, "while in recovery",
     "PostgreSQL before 16 cannot decode on a standby: name its primary in [feed] conninfo"},
    {NULL, "wal_level", "set wal_level = logical in postgresql.conf and restart PostgreSQL"},
    {NULL, "has been invalidated",
     "the slot is lost with its unsent changes: drop it with pg_drop_replication_slot(); the relay "
     "creates it again"},
    {"55000", "being synchronized",
     "a failover slot cannot be read before this standby is promoted: name its primary, or both "
     "with target_session_attrs=read-write, in [feed] conninfo"},
    {"58P01", "clairon", "install the clairon plugin on this server (make install)"},
    {"XX000", "could not find pg_class entry",
     "the extension was dropped: run CREATE EXTENSION clairon, unless it was replaced; only if the "
     "error repeats, the slot still needs the old rules: run SELECT pg_drop_replication_slot() for "
     "this slot; the relay creates it again"},
    {"42P01", "clairon.member", "run CREATE EXTENSION clairon in this database"},
    {NULL, "function clairon.doctor",
     "run CREATE EXTENSION clairon in this database, on the primary"},
    {NULL, "function clairon.denials", "run CREATE EXTENSION clairon in this database"},
    {NULL, "permission denied for function denials", "grant clairon_relay to the relay's role"},
    {"42883", "live_rows", "update the extension clairon in this database"},
    {"3F000", NULL, "run CREATE EXTENSION clairon in this database"},
    {NULL, "permission denied for function doctor", "grant clairon_relay to the relay's role"},
    {"42501", "member", "grant clairon_relay to the relay's role"},
    {"42501", NULL, "the relay's role needs LOGIN REPLICATION IN ROLE clairon_relay"},
    {NULL, "start walsender", "the relay's role needs LOGIN REPLICATION IN ROLE clairon_relay"},
    {NULL, "start WAL sender", "the relay's role needs LOGIN REPLICATION IN ROLE clairon_relay"},
    {NULL, "password",
     "check the password of the relay's role, in [feed] conninfo or in its passfile"},
    {NULL, "does not support SSL",
     "set ssl = on in postgresql.conf, or another sslmode in [feed] conninfo"},
    {NULL, "certificate verify failed",
     "sslrootcert in [feed] conninfo must name the CA of the server's certificate, and the "
     "certificate must not have expired"},
    {NULL, "root certificate file",
     "set sslrootcert in [feed] conninfo to the CA certificate of the server"},
    {NULL, "does not match host name",
     "host in [feed] conninfo must be a name in the server's certificate"},
    {NULL, "SSL encryption", "allow the relay's role to connect to this database in pg_hba.conf"},
    {NULL, "no encryption",
     "pg_hba.conf requires TLS: set sslmode = verify-full in [feed] conninfo"},
    {NULL, "is not permitted to log in",
     "run ALTER ROLE ... LOGIN for the relay's role, on the primary"},
    {NULL, "too many connections for", "raise the CONNECTION LIMIT of the role or database"},
    {NULL, "too many clients", "raise max_connections"},
    {NULL, "connection slots are reserved", "raise max_connections"},
    {NULL, "exceeds max_wal_senders", "raise max_wal_senders"},
    {NULL, "FATAL:  role \"",
     "user in [feed] conninfo must name the relay's role: on the primary, run CREATE ROLE relay "
     "LOGIN REPLICATION PASSWORD '...' IN ROLE clairon_relay"},
    {NULL, "FATAL:  database \"", "dbname in [feed] conninfo must name the database of the rules"},
    {NULL, "pg_hba.conf", "allow the relay's role to connect to this database in pg_hba.conf"},
    {"53400", "replication slots", "raise max_replication_slots or drop an unused slot"},
    {"53300", NULL, "raise max_wal_senders or max_connections"},
};

const char *
postgres_error_hint(const char *sqlstate, const char *message)
{
    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
        if (hints[i].sqlstate != NULL &&
            (sqlstate == NULL || strcmp(hints[i].sqlstate, sqlstate) != 0))
            continue;
        if (hints[i].word == NULL || strstr(message, hints[i].word) != NULL)
            return hints[i].text;
    }
    return "";
}

/* Whether the line of `len` bytes at `at` occurs earlier in `message`. */
static bool
is_repeated(const char *message, const char *at, size_t len)
{
    for (const char *line = message; line < at;) {
        size_t line_len = strcspn(line, "\n");

        if (line_len == len && memcmp(line, at, len) == 0)
            return true;
        line += line_len + 1;
    }
    return false;
}

/*
 * libpq tries a host with and without TLS and reports both attempts, often with the same message.
 */
const char *
postgres_error_line(const char *message)
{
    static char line[LINE_MAX_LEN];
    size_t len = 0;

    line[0] = '\0';
    for (const char *at = message; *at != '\0';) {
        size_t at_len = strcspn(at, "\n");

        const size_t indent = strspn(at, "\t "); /* of a further line of an attempt */

        if (at_len > indent && !is_repeated(message, at, at_len)) {
            (void)snprintf(line + len, sizeof(line) - len, "%s%.*s", len > 0 ? " " : "",
                           (int)(at_len - indent), at + indent);
            len = strlen(line);
        }
        at += at_len + (at[at_len] == '\n');
    }
    return line;
}
