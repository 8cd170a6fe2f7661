/* tls.h: the certificate that gate.listen shows. */
#ifndef CLAIRON_GATE_NET_TLS_H
#define CLAIRON_GATE_NET_TLS_H

#include <stddef.h>

#include "base/config.h"

#define GATE_CERT_WARN_DAYS 14 /* before the certificate expires */

struct gate;

/* Checks what only OpenSSL can of the settings, tls_cert and tls_key, without a gate. */
MUST_CHECK enum rc gate_tls_check(const struct config *config, char *error, size_t room);

/* Before the first connection; nothing without a certificate. */
MUST_CHECK enum rc gate_tls_set_ciphers(struct gate *gate, char *reason, size_t size);
/* Shows and logs until when the certificate is valid; nothing without one. */
void gate_tls_report_expiry(struct gate *gate);
/* Reads tls_cert and tls_key again, for new connections; files that do not fit change nothing. */
void gate_tls_reload(struct gate *gate);

#endif
