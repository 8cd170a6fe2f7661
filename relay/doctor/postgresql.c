/* postgresql.c: checks PostgreSQL and interprets the replies. */
#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/urls.h"
#include "doctor/doctor_private.h"
#include "postgres/connection.h"
#include "sink/sink.h"

#define POSTGRESQL "postgresql"
#define PRIMARY "primary"
#define SINK "sink"
#define POSTGRESQL_HINT_MAX 512
#define SKEW_MAX_S 1.0
#define TIMEOUT_US 10000000
#define POSTGRESQL_ERROR_MAX 1024
#define POSTGRESQL_STATE_MAX 6

struct postgresql_probe {
    const struct config *config;
    struct findings *findings;
    PGconn *conn;
    bool is_standby;
    struct origin origin;
    char primary_slot[64];
};

/*
 * Checks the requirements of CREATE EXTENSION and decoding, if clairon.doctor() cannot be called,
 * for example because the extension does not exist.
 */
static const char bare_checks[] =
    "SELECT name, ok, detail, CASE WHEN NOT ok THEN hint END FROM ("
    "SELECT 'wal_level', setting = 'logical', 'wal_level is ' || setting,"
    " 'ALTER SYSTEM SET wal_level = ''logical''; then restart the server'"
    " FROM pg_catalog.pg_settings WHERE name = 'wal_level' UNION ALL "
    "SELECT 'output_plugin_libraries', setting ~ '(^|,)\\s*clairon\\s*(,|$)',"
    " 'output_plugin_libraries is ' || setting,"
    " 'ALTER SYSTEM SET output_plugin_libraries = ' || pg_catalog.concat_ws(', ',"
    " nullif(setting, ''), 'clairon') || '; SELECT pg_reload_conf();'"
    " FROM pg_catalog.pg_settings WHERE name = 'output_plugin_libraries' UNION ALL "
    "SELECT 'extension files', EXISTS (SELECT FROM pg_catalog.pg_available_extensions"
    " WHERE name = 'clairon'), 'required by CREATE EXTENSION clairon',"
    " 'Install the plugin on this server: the package postgresql-NN-clairon, or make install')"
    " AS checks (name, ok, detail, hint)";

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

/*
 * Runs one command with one parameter (NULL: none). The caller calls PQclear. If the result is
 * NULL, `error` is the reason; `sqlstate` is set if the server reported it.
 */
static PGresult *
run_query(PGconn *conn, const char *command, const char *parameter,
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

/* The caller calls PQfinish. NULL: `error` is the reason, without secrets. */
static PGconn *
connect_server(const char *conninfo, bool replicates, char error[POSTGRESQL_ERROR_MAX])
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
        PQclear(run_query(conn, postgres_session_command(conn), NULL, error, sqlstate));
        return conn;
    }
    save_error(error, conn != NULL ? PQerrorMessage(conn) : "out of memory");
    PQfinish(conn);
    return NULL;
}

/* Returns the likely cause of a server error, or the error itself. */
static const char *
cause_of(const char *sqlstate, const char *error)
{
    static const struct {
        const char *sqlstate; /* NULL: any */
        const char *word;
        const char *cause;
    } causes[] = {
        {"42883", "clairon.doctor", "the extension clairon is not installed in this database"},
        {"3F000", "clairon", "the extension clairon is not installed in this database"},
        {"42P01", "clairon.", "the extension clairon is not installed in this database"},
        {"42501", "function doctor", "the relay's role is not a member of clairon_relay"},
        {"42501", "schema clairon", "the relay's role is not a member of clairon_relay"},
        {NULL, "start walsender", "the relay's role lacks REPLICATION"},
        {NULL, "start WAL sender", "the relay's role lacks REPLICATION"},
    };

    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
        if ((causes[i].sqlstate == NULL ||
             (sqlstate != NULL && strcmp(sqlstate, causes[i].sqlstate) == 0)) &&
            strstr(error, causes[i].word) != NULL)
            return causes[i].cause;
    return error;
}

static void
report_rejection(const struct postgresql_probe *probe, const char *check, const char *sqlstate,
                 const char *error)
{
    const char *hint = postgres_error_hint(sqlstate, error);

    if (hint[0] == '\0' && strcmp(check, "connection") == 0)
        hint = "Start PostgreSQL (pg_lsclusters, pg_ctlcluster), or name its server in [feed] "
               "conninfo";
    findings_add(probe->findings, POSTGRESQL, check, false, hint, "%s", cause_of(sqlstate, error));
}

static PGresult *
query(struct postgresql_probe *probe, const char *check, const char *command, const char *parameter)
{
    char error[POSTGRESQL_ERROR_MAX], sqlstate[POSTGRESQL_STATE_MAX];
    PGresult *result = run_query(probe->conn, command, parameter, error, sqlstate);

    if (result == NULL)
        report_rejection(probe, check, sqlstate, error);
    return result;
}

static bool
is_true(const PGresult *result, int row, int column)
{
    return strcmp(PQgetvalue(result, row, column), "t") == 0;
}

/* Adds rows of clairon.doctor(). A row that is ok but has a hint is a warning. */
static void
add_rows(const struct postgresql_probe *probe, const PGresult *result)
{
    for (int i = 0; i < PQntuples(result); i++)
        if (is_true(result, i, 1) && !PQgetisnull(result, i, 3))
            findings_warn(probe->findings, POSTGRESQL, PQgetvalue(result, i, 0),
                          PQgetvalue(result, i, 3), "%s", PQgetvalue(result, i, 2));
        else
            findings_add(probe->findings, POSTGRESQL, PQgetvalue(result, i, 0),
                         is_true(result, i, 1), PQgetvalue(result, i, 3), "%s",
                         PQgetvalue(result, i, 2));
}

/* Assumes that the server reads its clock halfway through the round trip. */
static void
check_postgresql_clock(struct postgresql_probe *probe)
{
    int64_t before_us = clock_wall_us();
    PGresult *result = query(probe, "clock",
                             "SELECT pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()),"
                             " pg_catalog.pg_is_in_recovery(),"
                             " (SELECT system_identifier FROM pg_catalog.pg_control_system()),"
                             " pg_catalog.current_setting('primary_slot_name'), d.oid, d.datname"
                             " FROM pg_catalog.pg_database d WHERE d.datname = current_database()",
                             NULL);
    int64_t after_us = clock_wall_us();
    double skew_s;

    if (result == NULL)
        return;
    skew_s = strtod(PQgetvalue(result, 0, 0), NULL) - (double)(before_us + after_us) / 2e6;
    findings_add(probe->findings, POSTGRESQL, "clock", skew_s < SKEW_MAX_S && skew_s > -SKEW_MAX_S,
                 "Commit times and expirations use PostgreSQL's clock: run chrony or timesyncd on "
                 "both machines: timedatectl set-ntp true",
                 "%.3f s off this machine's clock, reply in %.1f ms", skew_s,
                 (double)(after_us - before_us) / 1000.0);
    probe->is_standby = is_true(result, 0, 1);
    snprintf(probe->origin.system, sizeof(probe->origin.system), "%s", PQgetvalue(result, 0, 2));
    snprintf(probe->origin.database, sizeof(probe->origin.database), "%s",
             PQgetvalue(result, 0, 4));
    snprintf(probe->origin.name, sizeof(probe->origin.name), "%s", PQgetvalue(result, 0, 5));
    snprintf(probe->primary_slot, sizeof(probe->primary_slot), "%s", PQgetvalue(result, 0, 3));
    PQclear(result);
}

static void
check_role(struct postgresql_probe *probe)
{
    PGresult *result = query(
        probe, "role",
        "SELECT rolname, rolreplication AND NOT rolsuper AND"
        " pg_catalog.pg_has_role(oid, pg_catalog.to_regrole('clairon_relay'), 'USAGE'),"
        " pg_catalog.concat_ws(', ', CASE WHEN rolsuper THEN 'a superuser, which is not required'"
        " END, CASE WHEN NOT rolreplication THEN 'no REPLICATION' END,"
        " CASE WHEN pg_catalog.to_regrole('clairon_relay') IS NULL THEN 'no role"
        " clairon_relay' WHEN NOT pg_catalog.pg_has_role(oid, "
        "pg_catalog.to_regrole('clairon_relay'),"
        " 'USAGE') THEN 'not a member of clairon_relay' END), pg_catalog.quote_ident(rolname)"
        " FROM pg_catalog.pg_roles WHERE rolname = current_user",
        NULL);
    char hint[POSTGRESQL_HINT_MAX];

    if (result == NULL)
        return;
    snprintf(hint, sizeof(hint),
             "ALTER ROLE %.128s LOGIN REPLICATION NOSUPERUSER; GRANT clairon_relay TO %.128s;",
             PQgetvalue(result, 0, 3), PQgetvalue(result, 0, 3));
    findings_add(probe->findings, POSTGRESQL, "role", is_true(result, 0, 1), hint, "%s%s%s",
                 PQgetvalue(result, 0, 0), PQgetvalue(result, 0, 2)[0] != '\0' ? ": " : "",
                 PQgetvalue(result, 0, 2));
    PQclear(result);
}

/*
 * Checks the slot in the settings; clairon.doctor() reports its state. Returns true if a relay
 * reads it.
 */
static bool
check_feed_slot(struct postgresql_probe *probe)
{
    const char *slot = probe->config->feed.slot;
    bool creates = probe->config->feed.create_slot;
    PGresult *result = query(probe, "feed.slot",
                             "SELECT plugin = 'clairon', database = current_database(), plugin,"
                             " active AND confirmed_flush_lsn IS NOT NULL"
                             " FROM pg_catalog.pg_replication_slots WHERE slot_name = $1",
                             slot);
    char hint[POSTGRESQL_HINT_MAX];
    bool is_read;

    if (result == NULL)
        return false;
    is_read = PQntuples(result) == 1 && is_true(result, 0, 1) && is_true(result, 0, 3);
    snprintf(hint, sizeof(hint), "SELECT pg_create_logical_replication_slot('%s', 'clairon');",
             slot);
    if (PQntuples(result) == 0 && creates)
        findings_add(probe->findings, POSTGRESQL, "feed.slot", true, NULL,
                     "%s does not exist; the relay creates it%s", slot,
                     probe->is_standby && probe->config->feed.primary_conninfo == NULL
                         ? "; if the primary is idle, run SELECT "
                           "pg_log_standby_snapshot() there"
                         : "");
    else if (PQntuples(result) == 0)
        findings_add(probe->findings, POSTGRESQL, "feed.slot", false, hint, "%s does not exist",
                     slot);
    else if (!is_true(result, 0, 0))
        findings_add(probe->findings, POSTGRESQL, "feed.slot", false, "Choose another [feed] slot",
                     "%s belongs to plugin %s", slot,
                     PQgetisnull(result, 0, 2) ? "none" : PQgetvalue(result, 0, 2));
    else
        findings_add(probe->findings, POSTGRESQL, "feed.slot", is_true(result, 0, 1),
                     "Name its database in [feed] conninfo, or choose another [feed] slot",
                     "%s belongs to %s database", slot, is_true(result, 0, 1) ? "this" : "another");
    PQclear(result);
    return is_read;
}

static void
check_extension(struct postgresql_probe *probe)
{
    PGresult *result = query(probe, "extension",
                             "SELECT check_name, ok, detail, hint FROM clairon.doctor()", NULL);

    if (result == NULL)
        result = query(probe, "server settings", bare_checks, NULL);
    if (result != NULL)
        add_rows(probe, result);
    PQclear(result);
}

/* Connects as the feed does: pg_hba.conf or max_wal_senders may reject it. */
static void
check_replication(struct postgresql_probe *probe)
{
    char error[POSTGRESQL_ERROR_MAX], sqlstate[POSTGRESQL_STATE_MAX] = "";
    PGconn *conn = connect_server(probe->config->feed.conninfo, true, error);
    PGresult *result =
        conn != NULL ? run_query(conn, "IDENTIFY_SYSTEM", NULL, error, sqlstate) : NULL;

    if (result != NULL)
        findings_add(probe->findings, POSTGRESQL, "replication", true, NULL,
                     "walsender works, timeline %s, at %s", PQgetvalue(result, 0, 1),
                     PQgetvalue(result, 0, 2));
    else
        report_rejection(probe, "replication", sqlstate, error);
    PQclear(result);
    PQfinish(conn);
}

/* Runs the checks that need a connection to the primary. */
static void
check_primary_settings(const struct postgresql_probe *probe, const PGresult *result)
{
    struct findings *findings = probe->findings;
    const char *slot = probe->primary_slot;
    char hint[POSTGRESQL_HINT_MAX];

    findings_add(findings, PRIMARY, "system",
                 strcmp(PQgetvalue(result, 0, 1), probe->origin.system) == 0,
                 "--primary must be the primary of the standby in [feed] conninfo", "identifier %s",
                 PQgetvalue(result, 0, 1));
    findings_add(findings, PRIMARY, "wal_level", strcmp(PQgetvalue(result, 0, 0), "logical") == 0,
                 "ALTER SYSTEM SET wal_level = 'logical'; then restart the primary",
                 "wal_level is %s", PQgetvalue(result, 0, 0));
    snprintf(hint, sizeof(hint),
             "Run SELECT pg_create_physical_replication_slot('%.64s', true) on the primary; the "
             "standby then reconnects",
             slot);
    if (slot[0] == '\0')
        return; /* clairon.doctor() reports the missing name */
    if (PQgetisnull(result, 0, 2))
        findings_add(findings, PRIMARY, "physical slot", false, hint, "%s does not exist", slot);
    else
        findings_add(
            findings, PRIMARY, "physical slot",
            is_true(result, 0, 2) && strcmp(PQgetvalue(result, 0, 3), "lost") != 0,
            "The standby does not stream from it: see the standby's log", "%s is %s, %s%s", slot,
            is_true(result, 0, 2) ? "active" : "not active", PQgetvalue(result, 0, 3),
            PQgetisnull(result, 0, 4) ? "" : ", retains catalog rows for the standby's slots");
}

/*
 * A relay that moved to the standby has left its slot on the primary, where it retains WAL. A slot
 * that another relay reads is active.
 */
static void
check_left_slots(const struct postgresql_probe *probe, PGconn *conn)
{
    char error[POSTGRESQL_ERROR_MAX], sqlstate[POSTGRESQL_STATE_MAX] = "";
    PGresult *result = run_query(
        conn,
        "SELECT slot_name, pg_catalog.pg_size_pretty(pg_catalog.pg_wal_lsn_diff("
        "pg_catalog.pg_current_wal_lsn(), restart_lsn)), pg_catalog.quote_literal(slot_name)"
        " FROM pg_catalog.pg_replication_slots WHERE plugin = 'clairon' AND NOT active"
        " AND database = $1 ORDER BY 1",
        probe->origin.name, error, sqlstate);

    for (int i = 0; result != NULL && i < PQntuples(result); i++) {
        char hint[POSTGRESQL_HINT_MAX];

        snprintf(hint, sizeof(hint),
                 "If no relay uses it any more, on the primary: SELECT "
                 "pg_drop_replication_slot(%.128s)",
                 PQgetvalue(result, i, 2));
        findings_warn(probe->findings, PRIMARY, "unused slot", hint,
                      "slot %s is not active, and retains %s of WAL", PQgetvalue(result, i, 0),
                      PQgetvalue(result, i, 1));
    }
    PQclear(result);
}

static void
check_primary(struct postgresql_probe *probe, const char *primary)
{
    char error[POSTGRESQL_ERROR_MAX], sqlstate[POSTGRESQL_STATE_MAX] = "";
    PGconn *conn = connect_server(primary, false, error);
    PGresult *result = NULL;

    if (conn != NULL)
        result = run_query(conn,
                           "SELECT pg_catalog.current_setting('wal_level'), system_identifier,"
                           " active, wal_status, catalog_xmin"
                           " FROM pg_catalog.pg_control_system() LEFT JOIN"
                           " pg_catalog.pg_replication_slots ON slot_name = $1",
                           probe->primary_slot, error, sqlstate);
    if (result != NULL) {
        check_primary_settings(probe, result);
        check_left_slots(probe, conn);
    } else {
        findings_add(probe->findings, PRIMARY, "connection", false,
                     postgres_error_hint(sqlstate, error), "%s", error);
    }
    PQclear(result);
    PQfinish(conn);
}

void
doctor_check_postgresql(const struct config *config, const char *primary, struct findings *findings,
                        struct origin *ret_origin, bool *ret_is_read)
{
    struct postgresql_probe probe = {.config = config, .findings = findings};
    char error[POSTGRESQL_ERROR_MAX];

    if (primary == NULL)
        primary = config->feed.primary_conninfo;
    probe.conn = connect_server(config->feed.conninfo, false, error);
    if (probe.conn == NULL) {
        report_rejection(&probe, "connection", NULL, error);
        return;
    }
    findings_add(findings, POSTGRESQL, "connection", true, NULL, "database %s as %s",
                 PQdb(probe.conn), PQuser(probe.conn));
    check_postgresql_clock(&probe);
    *ret_origin = probe.origin;
    check_role(&probe);
    check_replication(&probe);
    *ret_is_read = check_feed_slot(&probe);
    check_extension(&probe);
    PQfinish(probe.conn);
    if (probe.is_standby && primary != NULL)
        check_primary(&probe, primary);
    else if (probe.is_standby)
        findings_add(findings, PRIMARY, "connection", true, NULL,
                     "skipped: set --primary=CONNINFO or feed.primary_conninfo");
}

/* The table may be missing, and the server may be a standby. */
static const char sink_checks[] =
    "SELECT NOT pg_catalog.pg_is_in_recovery()"
    " AND NOT pg_catalog.current_setting('transaction_read_only')::boolean,"
    " pg_catalog.to_regclass('clairon.receipt') IS NOT NULL,"
    " coalesce(pg_catalog.has_table_privilege("
    "pg_catalog.to_regclass('clairon.receipt')::oid, 'INSERT'), false)";

static void
check_sql_sink(const struct config *config, struct findings *findings)
{
    char error[POSTGRESQL_ERROR_MAX], sqlstate[POSTGRESQL_STATE_MAX] = "";
    PGconn *conn = connect_server(sink_sql_conninfo(config), false, error);
    PGresult *result = NULL;

    if (conn != NULL)
        result = run_query(conn, sink_checks, NULL, error, sqlstate);
    if (result == NULL) {
        const char *hint = postgres_error_hint(sqlstate, error);

        findings_add(findings, SINK, "connection", false,
                     *hint != '\0' ? hint : "Start PostgreSQL, or correct [receipts] conninfo",
                     "%s", error);
        PQfinish(conn);
        return;
    }
    findings_add(findings, SINK, "primary", is_true(result, 0, 0),
                 "[receipts] conninfo must name the primary", "%s",
                 is_true(result, 0, 0) ? "receipts can be written" : "server is read-only");
    if (is_true(result, 0, 1))
        findings_add(findings, SINK, "table", is_true(result, 0, 2),
                     "GRANT clairon_relay to the role of [receipts] conninfo", "clairon.receipt %s",
                     is_true(result, 0, 2) ? "can be written" : "rejects inserts");
    else
        findings_add(findings, SINK, "table", false,
                     "Create or update the extension clairon in this database",
                     "clairon.receipt does not exist");
    PQclear(result);
    PQfinish(conn);
}

void
doctor_check_sink(const struct config *config, struct findings *findings)
{
    char detail[SINK_CHECK_MAX];
    enum rc rc;

    if (sinks_unused_setting(config) != NULL)
        findings_warn(findings, SINK, sinks_unused_setting(config),
                      "Add sink to [relay] roles, of this relay or of another one with this "
                      "setting",
                      "has no effect without the role sink");
    if ((config->relay.roles & CONFIG_ROLE_SINK) == 0)
        return;
    if (config->webpush.keys[0] != NULL)
        findings_add(findings, SINK, "Web Push", true, NULL, "%s can be read",
                     config->webpush.vapid_key_file);
    if (config->receipts.sql)
        check_sql_sink(config, findings);
    if (config->webhook.url == NULL)
        return;
    rc = sink_webhook_check(config, detail);
    findings_add(findings, SINK, "webhook endpoint", rc == RC_OK,
                 "Correct [webhook] url and secret_file, or start the endpoint; http and private "
                 "addresses require allow_private",
                 "%s", detail);
}
