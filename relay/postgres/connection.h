/*
 * connection.h: connections to PostgreSQL that do not block the loop: the lookup of its hosts, the
 * attempt to connect, a session of commands, a query over a separate connection, and error texts.
 */
#ifndef CLAIRON_POSTGRES_CONNECTION_H
#define CLAIRON_POSTGRES_CONNECTION_H

#include <ev.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/rc.h"
#include "base/addresses.h"

/* ---- the hosts in a connection string */

/*
 * Parameters for libpq: comma-separated lists of equal length. NULL: use the value in conninfo.
 * Valid until the next postgres_hosts_find.
 */
struct postgres_hosts_found {
    const char *host;
    const char *hostaddr;
    const char *port;
};

/* `found` is NULL if no host was resolved; `error` is the reason. */
typedef void postgres_hosts_done(void *ctx, const struct postgres_hosts_found *found,
                                 const char *error);

struct postgres_hosts {
    struct ev_loop *loop;
    postgres_hosts_done *done;
    void *ctx;
    struct resolve *resolve; /* NULL: no lookup is in progress */
    char *host_text;         /* the lists in conninfo, split in place */
    char *port_text;
    const char *hosts[RESOLVE_HOSTS_MAX];
    const char *ports[RESOLVE_HOSTS_MAX];
    size_t count;
    size_t port_count;                     /* 0: default port; 1: one port for all hosts */
    unsigned looked_up[RESOLVE_HOSTS_MAX]; /* index into hosts[] for each name looked up */
    struct postgres_hosts_found found;     /* the last result */
    struct buffer host;                    /* the strings in `found` */
    struct buffer hostaddr;
    struct buffer port;
    size_t found_count;
    int64_t found_us; /* monotonic; 0: never */
};

/*
 * Calls back once, from this call or from the loop, unless postgres_hosts_end is called first. A
 * result younger than `max_age_us` is reused.
 */
void postgres_hosts_find(struct postgres_hosts *hosts, const char *conninfo, int64_t max_age_us);
void postgres_hosts_end(struct postgres_hosts *hosts);  /* a no-op if nothing was started */
void postgres_hosts_free(struct postgres_hosts *hosts); /* call postgres_hosts_end first */

/* ---- an attempt to connect */

/*
 * RC_OK: the callback takes ownership of `conn`. RC_BAD: no host in conninfo was resolved.
 * RC_IO: could not connect. `error` is the reason, valid during the call.
 */
typedef void postgres_connected(void *ctx, enum rc rc, PGconn *conn, const char *error);

struct postgres_connect {
    struct ev_loop *loop;
    const char *conninfo;
    const char *replication;     /* value of the parameter; NULL: unset */
    PQnoticeProcessor on_notice; /* called with ctx; NULL: libpq's default, stderr */
    postgres_connected *done;
    void *ctx;
    struct postgres_hosts hosts; /* resolves the hosts in conninfo */
    PGconn *conn;                /* NULL: no attempt */
    ev_io socket;
};

/*
 * Calls back once, unless postgres_connect_end is called first. A host lookup younger than
 * `max_age_us` is reused.
 */
void postgres_connect_start(struct postgres_connect *connect, int64_t max_age_us);
bool postgres_connect_is_resolving(const struct postgres_connect *connect);
void postgres_connect_end(struct postgres_connect *connect);  /* a no-op if nothing was started */
void postgres_connect_free(struct postgres_connect *connect); /* also ends an attempt */

/* ---- a session: a connection that runs one command at a time */

/* The callbacks may call postgres_session_close. */
struct postgres_session_events {
    const char *component; /* of the log messages with notices; NULL: libpq prints them to stderr */
    const char *(*setup)(void *ctx); /* returns further commands that set up the session; or NULL */
    void (*on_ready)(void *ctx);     /* connected and set up */
    void (*on_rows)(void *ctx, const PGresult *rows);
    void (*on_error)(void *ctx, const PGresult *error); /* the server rejected the command */
    void (*on_done)(void *ctx);                         /* after the last result of a command */
    void (*on_lost)(void *ctx, const char *message);    /* the connection is already closed */
};

struct postgres_session {
    struct postgres_connect connect; /* the caller sets loop and conninfo */
    const struct postgres_session_events *events;
    void *ctx;
    PGconn *conn;  /* NULL: not connected */
    bool is_ready; /* connected and set up */
    bool is_busy;  /* a command is running */
    bool is_split; /* ... and each row is a separate result */
    ev_io readable;
    ev_io writable;
};

/* Connects, to the server of `like` unless it is NULL. A no-op if connected or connecting. */
void postgres_session_open(struct postgres_session *session, const PGconn *like);
/* Sends a command to a session that is ready and not busy. May call on_lost. */
void postgres_session_send(struct postgres_session *session, const char *command);
/* Like postgres_session_send, with parameters (NULL: null). Each row is a separate result. */
void postgres_session_send_rows(struct postgres_session *session, const char *command,
                                const char *const *parameters, int count);
/* Closes the connection or ends the attempt, without callbacks. A no-op if there is none. */
void postgres_session_close(struct postgres_session *session);
void postgres_session_free(struct postgres_session *session); /* also closes it */

/* ---- one query over a separate connection, at intervals or when it is needed */

/* Callbacks must not call postgres_query_end. */
struct postgres_query {
    struct ev_loop *loop;
    const char *conninfo;
    /* if conninfo has several hosts: connect to the server of this connection; NULL: to any */
    const PGconn *same_server_as;
    const char *sql;
    void (*on_rows)(void *ctx, const PGresult *rows); /* NULL: ignore the rows */
    void (*on_failure)(void *ctx, const char *message);
    void *ctx;
    struct postgres_session session;
    ev_timer timer; /* active: open; until the next query, or the end of an idle connection */
    bool is_repeated;
};

/* False before the first query, and after the end. */
bool postgres_query_is_open(const struct postgres_query *query);
/*
 * Sends the query, connecting first if needed. A no-op while a query is running. The query ends
 * 10 s after the last call; if it is still running then, it fails.
 */
void postgres_query_send(struct postgres_query *query);
/* Sends the query after this time and then at intervals, until postgres_query_end. */
void postgres_query_repeat(struct postgres_query *query, double after_s, double every_s);
/* A no-op for a query that is not open. */
void postgres_query_end(struct postgres_query *query);

/* ---- libpq.c: session settings, and error messages */

/* Returns the first command of each session, which depends on the server's version. */
const char *postgres_session_command(const PGconn *conn);

/* Returns a hint for the operator about a server error, or "". */
const char *postgres_error_hint(const char *sqlstate, const char *message);
/* Returns the message on one line, without repeated lines. Valid until the next call. */
const char *postgres_error_line(const char *message);

#endif
