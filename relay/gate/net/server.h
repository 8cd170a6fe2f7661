/* server.h: libwebsockets on the relay's loop: its context, its callbacks, sockets handed to it. */
#ifndef CLAIRON_GATE_NET_SERVER_H
#define CLAIRON_GATE_NET_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"

struct gate;
struct lws;
struct ssl_ctx_st;

/*
 * What happens on the sockets that libwebsockets owns. An int goes back to it: 0, or -1: end the
 * socket. *ret_owner is what later calls of the same socket get.
 */
struct server_handler {
    /* Over TLS: it has the whole head of a request, or the socket is gone. */
    void (*on_head_read)(struct lws *wsi);
    int (*on_request)(struct gate *gate, struct lws *wsi, void **ret_owner);
    void (*on_request_body)(void *request, const char *bytes, size_t len);
    void (*on_request_closed)(void *request);
    int (*on_upgrade)(struct gate *gate, struct lws *wsi); /* before it is accepted */
    int (*on_connected)(struct gate *gate, struct lws *wsi, void **ret_owner);
    int (*on_writable)(void *conn);
    void (*on_closed)(void *conn);
};

/* Sets gate->server. `reason` gets a sentence without a full stop. */
MUST_CHECK enum rc server_open(struct gate *gate, const struct server_handler *handler,
                               char *reason, size_t size);
/* Calls on_closed and on_request_closed for what is open. Accepts a gate without a server. */
void server_close(struct gate *gate);

/* The library's, for tls.c; NULL without a certificate. */
struct ssl_ctx_st *server_tls(const struct gate *gate);

/*
 * Hands a connection to the library, which owns it from then on. NULL: it did not accept it, and
 * closed it.
 */
struct lws *server_adopt(struct gate *gate, int fd);
/* Likewise, with the first bytes of what the client sent; not the end of a head. */
void server_adopt_with(struct gate *gate, int fd, const char *bytes, size_t len);

#endif
