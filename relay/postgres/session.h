/* session.h: a connection to PostgreSQL that runs one command at a time. */
#ifndef CLAIRON_POSTGRES_SESSION_H
#define CLAIRON_POSTGRES_SESSION_H

#include <ev.h>
#include <libpq-fe.h>
#include <stdbool.h>

#include "postgres/connect.h"

/* The callbacks may call postgres_session_close. */
struct postgres_session_events {
    /* returns the first command of the session */
    const char *(*setup)(void *ctx, const PGconn *conn);
    void (*on_ready)(void *ctx);                          /* connected and set up */
    void (*on_result)(void *ctx, const PGresult *result); /* the result may be a server error */
    void (*on_done)(void *ctx);                           /* after the last result of a command */
    void (*on_lost)(void *ctx, const char *message);      /* the connection is already closed */
};

struct postgres_session {
    struct postgres_connect connect; /* the caller sets loop, conninfo and on_notice */
    const struct postgres_session_events *events;
    void *ctx;
    PGconn *conn;  /* NULL: not connected */
    bool is_ready; /* connected and set up */
    bool is_busy;  /* a command is running */
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

#endif
