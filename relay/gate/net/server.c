/* server.c: opens the libwebsockets context and dispatches its callbacks. */
#include "gate/net/server.h"

#include <errno.h>
#include <libwebsockets.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "gate/net/gate_shared.h"
#include "gate/net/lws_workarounds.h"

#define HEADER_BYTES_MAX (GATE_HEAD_BYTES_MAX + LWS_HEADER_TABLE_SLACK)
#define RX_BYTES 1             /* per connection; conn_io.c reads the socket */
#define TX_BYTES (1024 * 1024) /* maximum bytes of one send */

struct server {
    struct lws_context *context;
    struct lws_vhost *vhost;
    SSL_CTX *tls;
    const struct server_handler *handler;
};

/* The state that the library stores per socket: a request or a WebSocket. */
struct slot {
    void *request;
    void *conn;
};

static void
on_request_closed(const struct server_handler *handler, struct slot *slot)
{
    if (slot == NULL || slot->request == NULL)
        return;
    handler->on_request_closed(slot->request);
    slot->request = NULL;
}

static int
on_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
    struct lws_context *context = wsi != NULL ? lws_get_context(wsi) : NULL;
    struct gate *gate = context != NULL ? lws_context_user(context) : NULL;
    const struct server_handler *handler;
    struct slot *slot = user;

    if (gate == NULL) /* events without a connection */
        return 0;
    handler = gate->server->handler;
    switch (reason) {
    case LWS_CALLBACK_OPENSSL_LOAD_EXTRA_SERVER_VERIFY_CERTS: /* lws_workarounds.h */
        gate->server->tls = user;
        return 0;
    case LWS_CALLBACK_WSI_DESTROY:
        handler->on_head_read(wsi);
        return 0;
    case LWS_CALLBACK_HTTP:
        handler->on_head_read(wsi);
        return handler->on_request(gate, wsi, &slot->request);
    case LWS_CALLBACK_HTTP_BODY:
        if (slot->request != NULL)
            handler->on_request_body(slot->request, in, len);
        return 0;
    case LWS_CALLBACK_CLOSED_HTTP:
        on_request_closed(handler, slot);
        return 0;
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
        handler->on_head_read(wsi);
        return handler->on_upgrade(gate, wsi);
    case LWS_CALLBACK_ESTABLISHED:
        return handler->on_connected(gate, wsi, &slot->conn);
    case LWS_CALLBACK_RECEIVE: /* data that http/head_check.c rejects */
        return -1;
    case LWS_CALLBACK_SERVER_WRITEABLE:
        return handler->on_writable(slot->conn);
    case LWS_CALLBACK_CLOSED:
        if (slot != NULL && slot->conn != NULL)
            handler->on_closed(slot->conn);
        return 0;
    default:
        return 0;
    }
}

/* A client that requests no subprotocol is assigned the first subprotocol. */
static const struct lws_protocols PROTOCOLS[] = {
    {.name = GATE_PROTOCOL,
     .callback = on_event,
     .per_session_data_size = sizeof(struct slot),
     .rx_buffer_size = RX_BYTES,
     .tx_packet_size = TX_BYTES},
    {0},
};

static enum rc
open_context(struct gate *gate, char *reason, size_t size)
{
    void *loops[1] = {gate->loop};
    struct lws_context_creation_info info = {
        .port = CONTEXT_PORT_NO_LISTEN,
        .foreign_loops = loops,
        .user = gate,
        .max_http_header_data = HEADER_BYTES_MAX,
        .max_http_header_pool = LWS_HEADER_TABLES,
        /* the library parses a head as a whole */
        .pt_serv_buf_size = GATE_HEAD_BYTES_MAX + LWS_PRE,
        .options = LWS_SERVER_OPTION_LIBEV | LWS_SERVER_OPTION_EXPLICIT_VHOSTS,
    };

    if (gate->config->gate.tls_cert != NULL)
        info.options |= LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
    workaround_log_as_debug();
    gate->server->context = lws_create_context(&info);
    workaround_set_allocator();
    if (gate->server->context != NULL)
        return RC_OK;
    snprintf(reason, size, "could not start libwebsockets: its libev plugin may be missing");
    return RC_IO;
}

/* lws_create_vhost returns no reason (lws_workarounds.h). */
static enum rc
check_readable(const char *path, char *reason, size_t size)
{
    if (access(path, R_OK) == 0)
        return RC_OK;
    snprintf(reason, size, "could not read %s: %s", path, strerror(errno));
    return RC_IO;
}

static enum rc
open_vhost(struct gate *gate, char *reason, size_t size)
{
    struct lws_context_creation_info info = {
        .port = CONTEXT_PORT_NO_LISTEN_SERVER,
        .protocols = PROTOCOLS,
        .vhost_name = "clairon",
        .user = gate,
        .alpn = "http/1.1",
        .keepalive_timeout = 5,
        .timeout_secs = 10,
        .retry_and_idle_policy = workaround_no_pings(),
    };

    if (gate->config->gate.tls_cert != NULL) {
        if (check_readable(gate->config->gate.tls_cert, reason, size) != RC_OK ||
            check_readable(gate->config->gate.tls_key, reason, size) != RC_OK)
            return RC_IO;
        info.options |= LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
        info.ssl_cert_filepath = gate->config->gate.tls_cert;
        info.ssl_private_key_filepath = gate->config->gate.tls_key;
    }
    gate->server->vhost = lws_create_vhost(gate->server->context, &info);
    if (gate->server->vhost != NULL)
        return RC_OK;
    snprintf(reason, size, "could not load gate.tls_cert or gate.tls_key");
    return RC_IO;
}

enum rc
server_open(struct gate *gate, const struct server_handler *handler, char *reason, size_t size)
{
    gate->server = memory_new(sizeof(*gate->server));
    gate->server->handler = handler;
    if (open_context(gate, reason, size) != RC_OK || open_vhost(gate, reason, size) != RC_OK)
        return RC_IO;
    return RC_OK;
}

void
server_close(struct gate *gate)
{
    if (gate->server == NULL)
        return;
    if (gate->server->context != NULL)
        lws_context_destroy(gate->server->context);
    free(gate->server);
    gate->server = NULL;
}

struct ssl_ctx_st *
server_tls(const struct gate *gate)
{
    return gate->server != NULL ? gate->server->tls : NULL;
}

static void
report_rejected(struct gate *gate)
{
    stats_add(gate->stats, STAT_GATE_REJECTED, 1);
    log_warn("gate", "connection rejected by libwebsockets");
}

struct lws *
server_adopt(struct gate *gate, int fd)
{
    struct lws *wsi = lws_adopt_socket_vhost(gate->server->vhost, fd);

    if (wsi == NULL)
        report_rejected(gate);
    return wsi;
}

void
server_adopt_head(struct gate *gate, const struct conn_io *io, char *bytes,
                  const struct http_head *head)
{
    if (!workaround_needs_edit(bytes, head))
        (void)server_adopt(gate, io->fd);
    else if (workaround_adopt_edited(gate->server->vhost, io, bytes, head) == RC_BAD)
        report_rejected(gate);
}
