/*
 * connect.h: opens a connection to the store (URL, addresses of the host, TLS), and sends a single
 * command over one (query).
 */
#ifndef CLAIRON_STORE_CONNECT_H
#define CLAIRON_STORE_CONNECT_H

#include <stdbool.h>

#include "base/config.h"
#include "base/rc.h"

struct ev_loop;
struct query;
struct redisAsyncContext;
struct redisContext;
struct redisReply;
struct resolve;

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

#define TLS_ERROR_MAX 256

/*
 * Starts TLS on a new connection, blocking or not. On a blocking connection, the handshake is
 * complete when this function returns. The store's certificate must be signed by store.tls_ca or by
 * a CA of the system, and must match `host`. The files are read at each call, so the next
 * connection uses new files. RC_BAD: `error` is the reason, and `redis` must be freed.
 */
MUST_CHECK enum rc tls_start(const struct config *config, const char *host,
                             struct redisContext *redis, char error[TLS_ERROR_MAX]);

/*
 * A connection in progress, owned by the callee. NULL: the connection failed, and `reason` is the
 * error.
 */
typedef void connect_done(void *ctx, struct redisAsyncContext *redis, const char *reason);

struct connect {
    struct ev_loop *loop;
    const struct config *config;
    const struct url *address;
    connect_done *done;
    void *ctx;
    /* consecutive failures, counted by the owner: selects the next address */
    unsigned failures;
    struct resolve *resolve; /* during name resolution */
};

/* Calls `done` once, immediately or from the loop, unless connect_stop is called first. */
void connect_start(struct connect *connect);
void connect_stop(struct connect *connect);

#define QUERY_WORDS_MAX 3

/*
 * A query is one command to a server, over a connection of its own. A reply, valid during the call;
 * SUBSCRIBE has several. NULL: the query failed with `error`, and is freed after the call.
 */
typedef void query_reply(void *ctx, const struct redisReply *reply, const char *error);

/*
 * Authenticates with `address`, and sends the words up to NULL; they must outlive the query. It
 * fails unless the first reply arrives within `timeout_s`. Callbacks run only from the loop.
 */
struct query *query_start(struct ev_loop *loop, const struct config *config,
                          const struct url *address, const char *const words[QUERY_WORDS_MAX],
                          double timeout_s, query_reply *reply, void *ctx);
/* Stops all callbacks, and may be called by a callback. Accepts NULL. */
void query_stop(struct query *query);

#endif
