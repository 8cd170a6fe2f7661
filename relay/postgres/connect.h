/* connect.h: opens a connection to PostgreSQL without blocking the loop. */
#ifndef CLAIRON_POSTGRES_CONNECT_H
#define CLAIRON_POSTGRES_CONNECT_H

#include <ev.h>
#include <libpq-fe.h>
#include <stdbool.h>

#include "base/rc.h"
#include "postgres/hosts.h"

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
/* Connects to the server of another connection. */
void postgres_connect_like(struct postgres_connect *connect, const PGconn *other);
bool postgres_connect_is_resolving(const struct postgres_connect *connect);
bool postgres_connect_is_active(const struct postgres_connect *connect);
void postgres_connect_end(struct postgres_connect *connect);  /* a no-op if nothing was started */
void postgres_connect_free(struct postgres_connect *connect); /* also ends an attempt */

#endif
