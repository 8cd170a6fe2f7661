/* listen.h: the ports or unix sockets of gate.listen and gate.admin_listen. */
#ifndef CLAIRON_GATE_NET_LISTEN_H
#define CLAIRON_GATE_NET_LISTEN_H

#include <stdbool.h>

#include "base/config.h"

#define GATE_DESCRIPTORS_SPARE 64     /* for all else than clients */
#define GATE_DESCRIPTORS_PASSING 8192 /* of requests that begin or are answered, at most */

/* Listening descriptors; -1: none. */
struct gate_sockets {
    int clients; /* gate.listen */
    int admin;   /* gate.admin_listen */
};
#define GATE_NO_SOCKETS ((struct gate_sockets){-1, -1})

/*
 * Listens on gate.listen, with the role gate, and on gate.admin_listen, where it is set; several
 * processes may take connections from the descriptors, which are the caller's. Waits two seconds
 * for another process to release it. A failure is logged, with the reason.
 */
MUST_CHECK enum rc gate_listen(const struct config *config, struct gate_sockets *ret_sockets);
/* Has gate_listen anything to listen on? Without the role gate, only admin_listen. */
bool gate_has_socket(const struct config *config);
/*
 * Closes them, and removes what they left in the file system, unix sockets; once one is closed,
 * another relay may have put its own there.
 */
void gate_unlisten(const struct config *config, struct gate_sockets sockets);
/* Closes them in a process that shares them with others. */
void gate_sockets_close(struct gate_sockets sockets);

/* Is it the address of a unix socket? */
bool gate_listens_on_unix(const char *listen);

#endif
