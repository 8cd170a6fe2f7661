/* tls.h: the certificate of gate.listen. */
#ifndef CLAIRON_GATE_NET_TLS_H
#define CLAIRON_GATE_NET_TLS_H

#include <stddef.h>

#include "base/config.h"

#define GATE_CERT_WARN_DAYS 14 /* before the certificate expires */

struct gate;

/* Validates tls_cert, tls_key and tls_ciphers with OpenSSL, without a gate. */
MUST_CHECK enum rc gate_tls_check(const struct config *config, char *error, size_t room);

/* Call it before the first connection. A no-op without a certificate. */
MUST_CHECK enum rc gate_tls_set_ciphers(struct gate *gate, char *reason, size_t size);
/*
 * Exports the certificate's expiration as a metric and logs a warning before it. A no-op without a
 * certificate.
 */
void gate_tls_report_expiry(struct gate *gate);
/*
 * Reloads tls_cert and tls_key for new connections. Keeps the previous certificate if a file is
 * invalid.
 */
void gate_tls_reload(struct gate *gate);

#endif
