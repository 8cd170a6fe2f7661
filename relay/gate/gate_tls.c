/* gate_tls.c: changes the certificate of a running gate. */
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/log.h"
#include "gate/gate_conn.h"

/* A sentence for the log, of what OpenSSL complained of first. */
static void
log_failure(const char *what, const char *path)
{
    char text[256] = "unknown";

    ERR_error_string_n(ERR_get_error(), text, sizeof(text));
    log_error("gate", "the certificate stays as it was: could not %s %s: %s", what, path, text);
}

static bool
use_files(SSL_CTX *tls, const char *cert, const char *key)
{
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(tls, cert) != 1) {
        log_failure("read", cert);
        return false;
    }
    if (SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) != 1) {
        log_failure("read", key);
        return false;
    }
    if (SSL_CTX_check_private_key(tls) != 1) {
        log_failure("use it with", key);
        return false;
    }
    return true;
}

void
gate_new_certificate(struct gate *gate)
{
    const char *cert = gate->config->gate.tls_cert;
    const char *key = gate->config->gate.tls_key;
    SSL_CTX *trial;

    if (gate->tls == NULL)
        return;
    /* A context of its own first: half a change would refuse everybody. */
    trial = SSL_CTX_new(TLS_server_method());
    if (trial != NULL && use_files(trial, cert, key) && use_files(gate->tls, cert, key))
        log_info("gate", "the certificate was read again, for connections from now on");
    SSL_CTX_free(trial);
}
