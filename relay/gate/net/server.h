/* server.h: runs libwebsockets on the relay's event loop. */
#ifndef CLAIRON_GATE_NET_SERVER_H
#define CLAIRON_GATE_NET_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"

struct conn_io;
struct gate;
struct http_head;
struct lws;
struct ssl_ctx_st;

/*
 * Events of the sockets that libwebsockets owns. A returned int is the lws callback result: 0, or
 * -1 to close the socket. *ret_owner is passed to later calls for that socket.
 */
struct server_handler {
    /* TLS only: the library has the whole request head, or the socket is closed. */
    void (*on_head_read)(struct lws *wsi);
    int (*on_request)(struct gate *gate, struct lws *wsi, void **ret_owner);
    void (*on_request_body)(void *request, const char *bytes, size_t len);
    void (*on_request_closed)(void *request);
    /* called before the upgrade is accepted */
    int (*on_upgrade)(struct gate *gate, struct lws *wsi);
    int (*on_connected)(struct gate *gate, struct lws *wsi, void **ret_owner);
    int (*on_writable)(void *conn);
    void (*on_closed)(void *conn);
};

/* Sets gate->server. On failure `reason` is the error. */
MUST_CHECK enum rc server_open(struct gate *gate, const struct server_handler *handler,
                               char *reason, size_t size);
/* Calls on_closed and on_request_closed for open sockets. Accepts a gate without a server. */
void server_close(struct gate *gate);

/* Returns the library's TLS context; NULL without a certificate. */
struct ssl_ctx_st *server_tls(const struct gate *gate);

/* Transfers ownership of a connection to the library. NULL: the library rejected and closed it. */
struct lws *server_adopt(struct gate *gate, int fd);
/*
 * Like server_adopt, for a plain socket with a complete valid head, which is in `bytes` and still
 * in the socket. Overwrites `bytes`.
 */
void server_adopt_head(struct gate *gate, const struct conn_io *io, char *bytes,
                       const struct http_head *head);

#endif
