/* listen.h: opens the sockets of gate.listen and gate.admin_listen. */
#ifndef CLAIRON_GATE_NET_LISTEN_H
#define CLAIRON_GATE_NET_LISTEN_H

#include <stdbool.h>

#include "base/config.h"

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
/* Listens at a bound address, unless another process that shares it has. Logs the result. */
MUST_CHECK enum rc gate_listen_start(const char *address, int fd);
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
bool gate_listens_on_unix(const char *listen);

#endif
