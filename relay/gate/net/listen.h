/* listen.h: the sockets of gate.listen and gate.admin_listen, and their certificate. */
#ifndef CLAIRON_GATE_NET_LISTEN_H
#define CLAIRON_GATE_NET_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/config.h"

struct gate;

#define GATE_UNIX_PREFIX "unix:"
#define GATE_DESCRIPTORS_SPARE 64     /* descriptors reserved for uses other than clients */
#define GATE_DESCRIPTORS_PASSING 8192 /* maximum descriptors of requests without a session */

/* Bound descriptors; -1: not open. */
struct gate_sockets {
    int clients; /* gate.listen */
    int admin;   /* gate.admin_listen */
};
#define GATE_NO_SOCKETS ((struct gate_sockets){-1, -1})

/*
 * Binds gate.listen (role gate only) and gate.admin_listen (if set), and listens at the latter. The
 * caller owns the descriptors, which several processes may share. Retries for two seconds while
 * another process uses the address. Logs a failure.
 */
MUST_CHECK enum rc gate_listen(const struct config *config, struct gate_sockets *ret_sockets);
/* Whether an address to listen on is set. Without the role gate, only admin_listen is used. */
bool gate_has_socket(const struct config *config);
/*
 * Removes Unix sockets from the file system and closes the descriptors. Unlinks first: after the
 * close another relay may own the path.
 */
void gate_unlisten(const struct config *config, struct gate_sockets sockets);
/* Closes the descriptors in a process that shares them. */
void gate_sockets_close(struct gate_sockets sockets);

/* Whether this is the address of a Unix socket. */
static inline bool
gate_listens_on_unix(const char *listen)
{
    return strncmp(listen, GATE_UNIX_PREFIX, strlen(GATE_UNIX_PREFIX)) == 0;
}

/* Accepts connections of gate.admin_listen. */
void gate_accept_start(struct gate *gate, struct gate_sockets sockets);
/* Also accepts connections from gate.listen. RC_IO: the address is in use (logged). */
MUST_CHECK enum rc gate_accept(struct gate *gate);
/* Whether clients are accepted, from gate.listen. */
bool gate_accepts_clients(const struct gate *gate);
/* Both functions accept a gate that was never started. */
void gate_accept_stop(struct gate *gate);
void gate_accept_free(struct gate *gate);

/* ---- tls.c: the certificate */

#define GATE_CERT_WARN_DAYS 14 /* before the certificate expires */

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
