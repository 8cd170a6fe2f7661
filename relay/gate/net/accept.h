/* accept.h: accepts connections from the listening sockets. */
#ifndef CLAIRON_GATE_NET_ACCEPT_H
#define CLAIRON_GATE_NET_ACCEPT_H

#include <stdbool.h>

#include "base/rc.h"
#include "gate/net/listen.h"

struct gate;

struct accept_handler {
    void (*on_accepted)(struct gate *gate, int fd);
    /*
     * Called when out of descriptors: closes the oldest connection that has no request, or whose
     * response was sent. False: none.
     */
    bool (*evict_oldest)(struct gate *gate);
};

/* Accepts connections of gate.admin_listen. */
void gate_accept_start(struct gate *gate, struct gate_sockets sockets,
                       const struct accept_handler *handler);
/* Accepts connections of gate.listen, too. Logs a failure. */
MUST_CHECK enum rc gate_accept_clients(struct gate *gate);
/* Both functions accept a gate that was never started. */
void gate_accept_stop(struct gate *gate);
void gate_accept_free(struct gate *gate);

/* Whether the connection `fd` was accepted from gate.admin_listen. */
bool gate_fd_is_admin(const struct gate *gate, int fd);
/* Whether the connection `fd` was accepted from a Unix socket. */
bool gate_fd_is_unix(const struct gate *gate, int fd);

#endif
