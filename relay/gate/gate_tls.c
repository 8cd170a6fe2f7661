/*
 * gate_tls.c: changes the certificate of a running gate, and tells when it ends; and what the files
 * of the gate that read and write have in common where OpenSSL is asked.
 */
#include <errno.h>
#include <inttypes.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "gate/gate_conn.h"

#define DAY_S 86400

int
gate_tls_errno(const SSL *ssl, int result)
{
    int error = SSL_get_error(ssl, result);

    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? EAGAIN : EIO;
}

bool
gate_say_no_more(struct lws *wsi)
{
    SSL *ssl = lws_get_ssl(wsi);

    if (ssl != NULL) {
        ERR_clear_error();
        (void)SSL_shutdown(ssl);
    }
    return shutdown(lws_get_socket_fd(wsi), SHUT_WR) == 0;
}

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
gate_note_certificate(struct gate *gate)
{
    const X509 *certificate = gate->tls != NULL ? SSL_CTX_get0_certificate(gate->tls) : NULL;
    int64_t end_s, left_s;
    struct tm end;

    if (certificate == NULL || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) != 1)
        return;
    end_s = timegm(&end);
    left_s = end_s - clock_wall_us() / 1000000;
    stats_set(gate->stats, STAT_GATE_CERTIFICATE, end_s > 0 ? (uint64_t)end_s * 1000000 : 0);
    if (left_s < 0)
        log_error("gate",
                  "the certificate %s has expired: clients do not come; put a new one there, then "
                  "systemctl reload clairon-relay",
                  gate->config->gate.tls_cert);
    else if (left_s < GATE_CERT_WARN_DAYS * DAY_S)
        log_warn("gate", "the certificate %s expires in %" PRId64 " days",
                 gate->config->gate.tls_cert, left_s / DAY_S);
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
    if (trial != NULL && use_files(trial, cert, key) && use_files(gate->tls, cert, key)) {
        log_info("gate", "the certificate was read again, for connections from now on");
        gate_note_certificate(gate);
    }
    SSL_CTX_free(trial);
}
