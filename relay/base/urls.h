/* urls.h: the forms of store.url, its servers and the URL of one; libpq connection strings. */
#ifndef CLAIRON_BASE_URLS_H
#define CLAIRON_BASE_URLS_H

#include <stdbool.h>

#include "base/rc.h"

#define URLS_SENTINEL_FORM "redis+sentinel://[user:pass@]host:port,host:port/<primary name>"
#define URLS_CLUSTER_FORM "redis+cluster://[user:pass@]host:port,host:port"
/* hiredis has TLS since 1.0; the Makefile checks for it. */
#ifdef CLAIRON_STORE_TLS
#define URLS_TLS ", rediss with TLS"
#else
#define URLS_TLS ""
#endif
#define URLS_FORM                                                                                  \
    "redis://[user:pass@]host:port[/db], unix:///path, " URLS_SENTINEL_FORM                        \
    " or " URLS_CLUSTER_FORM URLS_TLS

enum urls_kind {
    URLS_SINGLE,   /* redis://, rediss://, unix://: one server */
    URLS_SENTINEL, /* redis+sentinel://: sentinels of one primary and its replicas */
    URLS_CLUSTER   /* redis+cluster://: some nodes of a cluster */
};

enum urls_kind urls_kind(const char *url);

/* Returns the number of servers in the URL: 1, or the number of sentinels or nodes. */
unsigned urls_count(const char *url);

/*
 * Returns server `number`, from 0, as the URL of one server: redis(s)://[user:pass@]host:port. The
 * caller frees it, and wipes it if it contains a password.
 */
char *urls_at(const char *url, unsigned number);

/* Returns the part of a sentinel or cluster URL after the servers and the slash; "" if absent. */
const char *urls_rest(const char *url);

/* ---- the URL of one server */

#define URL_TEXT_MAX 512
#define URL_FORMAT_MAX (URL_TEXT_MAX + 16)

struct url {
    char path[URL_TEXT_MAX]; /* Unix socket; "" for TCP */
    char host[URL_TEXT_MAX];
    int port;
    char user[URL_TEXT_MAX];
    char password[URL_TEXT_MAX]; /* percent-decoded; "": no password */
    int database;
    bool tls; /* rediss:// */
};

/*
 * Parses redis(s)://[user:pass@]host[:port][/db] or unix:///path. Returns RC_BAD for any other
 * string.
 */
MUST_CHECK enum rc url_read(const char *url, struct url *ret_address);

/* Formats the address for the log, without user and password. */
void url_format(const struct url *address, char ret_text[URL_FORMAT_MAX]);

/* ---- libpq connection strings */

/*
 * Returns NULL if libpq can parse it, otherwise "must be ..." with libpq's message. The message
 * quotes no part of the string, which may be a password. Valid until the next call.
 */
const char *conninfo_error(const char *text);

/* Returns the path in the keyword passfile, or NULL if absent. The caller frees it. */
char *conninfo_passfile(const char *text);

#endif
