/*
 * connect.c: opens a connection to the store: resolves the host, connects, starts TLS. A query is a
 * connection for a single command.
 */
#include "store/connection/connect.h"

#include <arpa/inet.h>
#include <ev.h>
#include <hiredis/async.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/addresses.h"
#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/connection/send_queue.h"

#ifdef CLAIRON_STORE_TLS
#include <hiredis/hiredis_ssl.h>
#else
/* Stub for hiredis before 1.0: the configuration rejects rediss:// there, so it is never called. */
static int
redisInitiateSSL(redisContext *redis, SSL *tls)
{
    (void)redis;
    (void)tls;
    return REDIS_ERR;
}
#endif

#define QUERY_ERROR_MAX 256
#define TLS_ERROR_MAX (URL_TEXT_MAX + 256)

/* Formats OpenSSL's first error. */
static enum rc
fail(char error[TLS_ERROR_MAX], const char *what, const char *path)
{
    const char *reason = ERR_reason_error_string(ERR_get_error());

    snprintf(error, TLS_ERROR_MAX, "%s%s%s: %s", what, path != NULL ? " " : "",
             path != NULL ? path : "", reason != NULL ? reason : "unknown error");
    return RC_BAD;
}

static enum rc
set_ca(SSL_CTX *tls, const char *ca_file, char error[TLS_ERROR_MAX])
{
    if (ca_file == NULL)
        return SSL_CTX_set_default_verify_paths(tls) == 1
                   ? RC_OK
                   : fail(error, "could not read the system's CA certificates", NULL);
    if (SSL_CTX_load_verify_locations(tls, ca_file, NULL) != 1)
        return fail(error, "could not read store.tls_ca", ca_file);
    return RC_OK;
}

static enum rc
set_certificate(SSL_CTX *tls, const char *cert, const char *key, char error[TLS_ERROR_MAX])
{
    if (cert == NULL)
        return RC_OK;
    if (SSL_CTX_use_certificate_chain_file(tls, cert) != 1)
        return fail(error, "could not read store.tls_cert", cert);
    if (SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(tls) != 1)
        return fail(error, "could not load store.tls_key", key);
    return RC_OK;
}

/* hiredis verifies only the certificate chain, so the host name check must be enabled. */
static enum rc
expect_host(SSL *tls, const char *host, char error[TLS_ERROR_MAX])
{
    unsigned char number[sizeof(struct in6_addr)];
    bool is_address =
        inet_pton(AF_INET, host, number) == 1 || inet_pton(AF_INET6, host, number) == 1;
    bool is_set = is_address
                      ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), host) == 1
                      : SSL_set1_host(tls, host) == 1 && SSL_set_tlsext_host_name(tls, host) == 1;

    return is_set ? RC_OK : fail(error, "could not set the expected host name", host);
}

/* NULL: `error` is set. */
static SSL *
new_tls(const struct config *config, const char *host, char error[TLS_ERROR_MAX])
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *tls = NULL;

    if (context == NULL || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1) {
        (void)fail(error, "could not set up TLS", NULL);
    } else if (set_ca(context, config->store.tls_ca, error) == RC_OK &&
               set_certificate(context, config->store.tls_cert, config->store.tls_key, error) ==
                   RC_OK) {
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
        tls = SSL_new(context);
        if (tls == NULL)
            (void)fail(error, "could not set up TLS", NULL);
    }
    SSL_CTX_free(context); /* `tls` has a reference */
    if (tls != NULL && expect_host(tls, host, error) != RC_OK) {
        SSL_free(tls);
        tls = NULL;
    }
    return tls;
}

/*
 * Starts TLS on a new connection. The store's certificate must be signed by store.tls_ca or by a CA
 * of the system, and must match `host`. The files are read at each call, so the next connection
 * uses new files. RC_BAD: `error` is the reason, and `redis` must be freed.
 */
static enum rc
tls_start(const struct config *config, const char *host, redisContext *redis,
          char error[TLS_ERROR_MAX])
{
    SSL *tls;

    ERR_clear_error();
    tls = new_tls(config, host, error);
    if (tls == NULL)
        return RC_BAD;
    if (redisInitiateSSL(redis, tls) == REDIS_OK)
        return RC_OK;
    snprintf(error, TLS_ERROR_MAX, "%s",
             redis->err != 0 ? redis->errstr : "hiredis was built without TLS");
    SSL_free(tls);
    return RC_BAD;
}

static void
on_connected(const redisAsyncContext *redis, int status)
{
    struct connect *connect = redis->data;

    if (connect == NULL)
        return; /* connect_stop closed the connection */
    if (status == REDIS_OK) {
        connect->on_up(connect->ctx);
        return;
    }
    connect->redis = NULL; /* hiredis frees it after this callback */
    connect->on_down(connect->ctx, redis->errstr);
}

static void
on_disconnected(const redisAsyncContext *redis, int status)
{
    struct connect *connect = redis->data;

    if (connect == NULL)
        return;
    connect->redis = NULL;
    connect->on_down(connect->ctx,
                     status == REDIS_OK || redis->errstr == NULL ? "closed" : redis->errstr);
}

static void
connect_host(struct connect *connect, const char *host)
{
    const struct url *address = connect->address;
    char reason[TLS_ERROR_MAX];
    redisAsyncContext *redis = address->path[0] != '\0' ? redisAsyncConnectUnix(address->path)
                                                        : redisAsyncConnect(host, address->port);

    if (redis != NULL && redis->err == 0 &&
        (!address->tls || tls_start(connect->config, address->host, &redis->c, reason) == RC_OK)) {
        connect->redis = redis;
        redis->data = connect;
        if (connect->arena != NULL)
            reply_arena_use(connect->arena, redis->c.reader, connect->expected);
        send_queue_use(connect->queue, redis);
        redisAsyncSetConnectCallback(redis, on_connected);
        redisAsyncSetDisconnectCallback(redis, on_disconnected);
        return;
    }
    if (redis == NULL || redis->err != 0)
        snprintf(reason, sizeof(reason), "%s", redis != NULL ? redis->errstr : "out of memory");
    if (redis != NULL)
        redisAsyncFree(redis);
    connect->on_down(connect->ctx, reason);
}

/* IPv4 first: a server that listens on only one address family usually uses IPv4. */
static void
on_resolved(void *ctx, const struct resolved *found, size_t count, const char *error)
{
    struct connect *connect = ctx;
    const char *in_order[RESOLVE_ADDRESSES_MAX];
    size_t len = 0;

    connect->resolve = NULL;
    for (int is_ipv6 = 0; is_ipv6 <= 1; is_ipv6++)
        for (size_t i = 0; i < count && i < RESOLVE_ADDRESSES_MAX; i++)
            if ((strchr(found[i].address, ':') != NULL) == is_ipv6)
                in_order[len++] = found[i].address;
    if (len == 0)
        connect->on_down(connect->ctx, error);
    else
        connect_host(connect, in_order[connect->failures % len]);
}

void
connect_start(struct connect *connect)
{
    const char *host = connect->address->host;

    if (connect->address->path[0] == '\0' && resolve_is_needed(host))
        connect->resolve = resolve_start(connect->loop, &host, 1, on_resolved, connect);
    if (connect->resolve == NULL)
        connect_host(connect, host);
}

void
connect_stop(struct connect *connect)
{
    redisAsyncContext *redis = connect->redis;

    resolve_stop(connect->resolve);
    connect->resolve = NULL;
    connect->redis = NULL;
    if (redis != NULL) {
        redis->data = NULL;
        redisAsyncFree(redis);
    }
    send_queue_end(connect->queue);
}

/* ---- queries */

struct query {
    struct ev_loop *loop;
    struct url address;
    struct connect connect;
    ev_timer timer; /* starts the query, then serves as its reply timeout */
    bool has_started;
    double timeout_s;
    const char *words[QUERY_WORDS_MAX];
    int word_count;
    query_reply *reply;
    void *ctx;
};

void
query_stop(struct query *query)
{
    if (query == NULL)
        return;
    connect_stop(&query->connect);
    ev_timer_stop(query->loop, &query->timer);
    send_queue_free(query->connect.queue);
    explicit_bzero(&query->address, sizeof(query->address));
    free(query);
}

/* `error` may point into the connection. */
static void
fail_query(void *failed, const char *error)
{
    struct query *query = failed;
    query_reply *reply = query->reply;
    void *ctx = query->ctx;
    char kept[QUERY_ERROR_MAX];

    snprintf(kept, sizeof(kept), "%s", error);
    query_stop(query);
    reply(ctx, NULL, kept);
}

static void
on_query_reply(redisAsyncContext *redis, void *reply, void *ctx)
{
    struct query *query = ctx;

    if (redis->data == NULL || reply == NULL)
        return; /* the query was stopped, or on_disconnected reports the reason */
    ev_timer_stop(query->loop, &query->timer);
    if (reply_is_error(reply))
        fail_query(query, reply_text(reply));
    else
        query->reply(query->ctx, reply, NULL);
}

static void
on_query_authenticated(redisAsyncContext *redis, void *reply, void *ctx)
{
    if (redis->data != NULL && reply_is_error(reply))
        fail_query(ctx, reply_text(reply));
}

static enum rc
send_words(struct query *query)
{
    const struct url *address = &query->address;
    const char *auth[3] = {"AUTH", address->user, address->password};
    const bool has_user = address->user[0] != '\0';

    if (!has_user)
        auth[1] = address->password;
    if (address->password[0] != '\0' &&
        send_queue_send(query->connect.queue, on_query_authenticated, query, has_user ? 3 : 2, auth,
                        NULL) != RC_OK)
        return RC_AGAIN;
    return send_queue_send(query->connect.queue, on_query_reply, query, query->word_count,
                           query->words, NULL);
}

static void
on_query_connected(void *ctx)
{
    if (send_words(ctx) != RC_OK)
        fail_query(ctx, "could not send a command");
}

static void
on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct query *query = timer->data;

    (void)events;
    if (query->has_started) {
        fail_query(query, "reply timed out");
        return;
    }
    query->has_started = true;
    ev_timer_set(timer, query->timeout_s, 0.0);
    ev_timer_start(loop, timer);
    connect_start(&query->connect);
}

struct query *
query_start(struct ev_loop *loop, const struct config *config, const struct url *address,
            const char *const words[QUERY_WORDS_MAX], double timeout_s, query_reply *reply,
            void *ctx)
{
    struct query *query = memory_new(sizeof(*query));

    query->loop = loop;
    query->address = *address;
    query->connect = (struct connect){.loop = loop,
                                      .config = config,
                                      .address = &query->address,
                                      .queue = send_queue_new(loop),
                                      .on_up = on_query_connected,
                                      .on_down = fail_query,
                                      .ctx = query};
    query->timeout_s = timeout_s;
    query->reply = reply;
    query->ctx = ctx;
    while (query->word_count < QUERY_WORDS_MAX && words[query->word_count] != NULL) {
        query->words[query->word_count] = words[query->word_count];
        query->word_count++;
    }
    ev_timer_init(&query->timer, on_timer, 0.0, 0.0);
    query->timer.data = query;
    ev_timer_start(loop, &query->timer);
    return query;
}
