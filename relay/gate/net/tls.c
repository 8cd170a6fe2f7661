/* tls.c: validates and reloads the certificate, and reports its expiry. */
#include "gate/net/listen.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "gate/net/conn.h"
#include "gate/net/gate_shared.h"

#define DAY_S 86400
#define FAULT_MAX 700

/* Formats the first error of OpenSSL. */
static enum rc
fail(char fault[FAULT_MAX], const char *what, const char *path)
{
    char text[256] = "unknown";

    ERR_error_string_n(ERR_get_error(), text, sizeof(text));
    snprintf(fault, FAULT_MAX, "could not %s %.384s: %s", what, path, text);
    return RC_BAD;
}

static enum rc
use_files(SSL_CTX *tls, const struct config *config, char fault[FAULT_MAX])
{
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(tls, config->gate.tls_cert) != 1)
        return fail(fault, "read", config->gate.tls_cert);
    if (SSL_CTX_use_PrivateKey_file(tls, config->gate.tls_key, SSL_FILETYPE_PEM) != 1)
        return fail(fault, "read", config->gate.tls_key);
    if (SSL_CTX_check_private_key(tls) != 1)
        return fail(fault, "use the certificate with", config->gate.tls_key);
    return RC_OK;
}

/* TLS 1.2 or later. gate.tls_ciphers restricts 1.2; TLS 1.3 has no weak cipher suites. */
static enum rc
use_ciphers(SSL_CTX *tls, const struct config *config, char fault[FAULT_MAX])
{
    ERR_clear_error();
    if (SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_cipher_list(tls, config->gate.tls_ciphers) != 1)
        return fail(fault, "use the cipher list", config->gate.tls_ciphers);
    return RC_OK;
}

typedef enum rc tls_setting(SSL_CTX *tls, const struct config *config, char fault[FAULT_MAX]);

/* Applies a setting to a scratch context: the active context must never be partially changed. */
static enum rc
try(tls_setting *use, const struct config *config, char fault[FAULT_MAX])
{
    SSL_CTX *scratch = SSL_CTX_new(TLS_server_method());
    enum rc rc = scratch != NULL ? use(scratch, config, fault) : fail(fault, "use", "OpenSSL");

    SSL_CTX_free(scratch);
    return rc;
}

enum rc
gate_tls_check(const struct config *config, char *error, size_t room)
{
    char fault[FAULT_MAX], where[CONFIG_WHERE_MAX];

    /* config_load reports missing and unreadable files */
    if (config->gate.tls_cert == NULL || config->gate.tls_key == NULL ||
        access(config->gate.tls_cert, R_OK) != 0 || access(config->gate.tls_key, R_OK) != 0)
        return RC_OK;
    if (try(use_ciphers, config, fault) != RC_OK) {
        config_where(config, "gate", "tls_ciphers", where);
        snprintf(error, room, "%s must be an OpenSSL cipher list for TLS 1.2: %s", where, fault);
        return RC_BAD;
    }
    if (try(use_files, config, fault) == RC_OK)
        return RC_OK;
    config_where(config, "gate", "tls_cert", where);
    snprintf(error, room, "%s and tls_key must be a PEM certificate and its key: %s", where, fault);
    return RC_BAD;
}

enum rc
gate_tls_set_ciphers(struct gate *gate, char *reason, size_t size)
{
    char fault[FAULT_MAX];

    if (carrier_tls(gate) == NULL || use_ciphers(carrier_tls(gate), gate->config, fault) == RC_OK)
        return RC_OK;
    snprintf(reason, size, "%s", fault);
    return RC_BAD;
}

void
gate_tls_report_expiry(struct gate *gate)
{
    SSL_CTX *tls = carrier_tls(gate);
    const X509 *certificate = tls != NULL ? SSL_CTX_get0_certificate(tls) : NULL;
    int64_t end_s, left_s;
    struct tm end;

    if (certificate == NULL || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) != 1)
        return;
    end_s = timegm(&end);
    left_s = end_s - clock_wall_us() / 1000000;
    stats_set(gate->stats, STAT_GATE_CERTIFICATE, end_s > 0 ? (uint64_t)end_s * 1000000 : 0);
    if (left_s < 0)
        log_error("gate",
                  "certificate expired: clients cannot connect; replace the file and reload",
                  LOG_TEXT("path", gate->config->gate.tls_cert));
    else if (left_s < GATE_CERT_WARN_DAYS * DAY_S)
        log_warn("gate", "certificate expires soon", LOG_TEXT("path", gate->config->gate.tls_cert),
                 LOG_INT("days_left", left_s / DAY_S));
}

void
gate_tls_reload(struct gate *gate)
{
    SSL_CTX *tls = carrier_tls(gate);
    char fault[FAULT_MAX];

    if (tls == NULL)
        return;
    if (try(use_files, gate->config, fault) == RC_OK &&
        use_files(tls, gate->config, fault) == RC_OK) {
        log_info("gate", "certificate reloaded for new connections");
        gate_tls_report_expiry(gate);
    } else {
        log_error("gate", "could not reload the certificate: previous certificate still in use",
                  LOG_TEXT("error", fault));
    }
}
