/* tls.c: TLS for connections to the store: CA, client certificate, host name check. */
#include "store/connection/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>

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

enum rc
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
