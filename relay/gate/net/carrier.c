/*
 * carrier.c: carries bytes between clients and the gate, with libwebsockets in its raw role.
 *
 * The library owns each socket, does TLS handshakes, and calls back when bytes have arrived or the
 * socket is writable. HTTP and WebSocket are parsed above, once. What to know about the library,
 * versions 4.1.6 (Debian 12) and 4.3.5 (Debian 13), by source file:
 *
 * ops-raw-skt.c: the end of input closes the connection immediately, so reading is paused while
 * a response is pending. A connection whose TLS handshake fails has a close without an adoption.
 *
 * output.c: lws_write buffers what the socket does not accept, in a copy. Bytes are sent directly
 * instead, and the rest waits in out.c; the library has nothing buffered.
 *
 * tls-server.c: a timer counts from the handshake and is not stopped by input. It is stopped at the
 * first bytes; before them, the gate's own timeouts are shorter.
 *
 * service.c: bytes that remain in OpenSSL make the library walk all descriptors, so its buffer
 * takes a whole TLS record (it reserves LWS_PRE). Without NDEBUG, as Debian builds it, each close
 * walks a table of all descriptors that the process may open; daemon.c limits them.
 *
 * adopt.c: a failure closes the descriptor; 4.1.6 closes it twice if OpenSSL is out of memory.
 *
 * openssl-server.c: there is no function that returns the TLS context of a vhost; a callback
 * receives it. It returns no reason if a certificate cannot be used.
 *
 * logs.c: errors of clients are logged as errors of the library, to stderr.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <libwebsockets.h>
#include <limits.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gate/net/conn.h"
#include "gate/net/gate_shared.h"

#define RECORD_BYTES (16 * 1024) /* maximum TLS record */
#define NO_TIMEOUT_S 3600        /* longer than any timeout of the gate */

struct carrier {
    struct lws_context *context;
    struct lws_vhost *vhost;
    SSL_CTX *tls;
};

/* Frees the contents of a key that OpenSSL keeps until the connection ends. */
static void
drop_key(EVP_PKEY *key)
{
    (void)EVP_PKEY_set_type(key, EVP_PKEY_RSA);
    EVP_PKEY_free(key); /* the reference of the caller */
}

/*
 * Drops the keys of a finished TLS 1.3 handshake, which are not used again: key updates and tickets
 * use other secrets. With OpenSSL 3.5 a browser's hybrid key takes 7 kB. There is no function that
 * frees more of an idle connection: SSL_set_session(ssl, NULL) resets the whole connection.
 */
static void
drop_handshake_keys(SSL *ssl)
{
    EVP_PKEY *key;

    if (SSL_version(ssl) != TLS1_3_VERSION || !SSL_is_init_finished(ssl))
        return;
    if (SSL_get_tmp_key(ssl, &key) == 1)
        drop_key(key);
    if (SSL_get_peer_tmp_key(ssl, &key) == 1)
        drop_key(key);
}

static void
on_bytes(struct conn *conn, unsigned char *bytes, size_t len)
{
    if (conn->is_tls && !conn->has_spoken) {
        conn->has_spoken = true;
        lws_set_timeout(conn->wsi, NO_PENDING_TIMEOUT, 0);
        drop_handshake_keys(lws_get_ssl(conn->wsi));
    }
    if (conn->phase != CONN_CLOSING)
        conn->events->on_bytes(conn, bytes, len);
}

/* Always returns 0: conn_close closes a connection later. */
static int
on_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
    struct conn *conn;

    if (reason == LWS_CALLBACK_OPENSSL_LOAD_EXTRA_SERVER_VERIFY_CERTS && wsi != NULL) {
        struct gate *gate = lws_context_user(lws_get_context(wsi));

        gate->carrier->tls = user;
        return 0;
    }
    if (reason != LWS_CALLBACK_RAW_RX && reason != LWS_CALLBACK_RAW_WRITEABLE &&
        reason != LWS_CALLBACK_RAW_CLOSE)
        return 0;
    conn = lws_get_opaque_user_data(wsi);
    if (conn == NULL)
        return 0;
    if (reason == LWS_CALLBACK_RAW_RX)
        on_bytes(conn, in, len);
    else if (reason == LWS_CALLBACK_RAW_CLOSE && !conn->in_adopt)
        conn->gate->conns->on_socket_closed(conn);
    else if (reason == LWS_CALLBACK_RAW_WRITEABLE && conn->phase != CONN_CLOSING)
        conn->events->on_writable(conn);
    return 0;
}

static const struct lws_protocols PROTOCOLS[] = {
    {.name = "raw", .callback = on_event},
    {0},
};

static void
on_log(int level, const char *line)
{
    size_t len = strlen(line);

    while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == ' '))
        len--;
    log_debug("gate", "libwebsockets notice", LOG_INT("lws_level", level),
              LOG_BYTES("notice", line, len));
}

static enum rc
open_context(struct gate *gate, char *reason, size_t size)
{
    void *loops[1] = {gate->loop};
    struct lws_context_creation_info info = {
        .port = CONTEXT_PORT_NO_LISTEN,
        .foreign_loops = loops,
        .user = gate,
        .timeout_secs = NO_TIMEOUT_S,
        .pt_serv_buf_size = RECORD_BYTES + LWS_PRE,
        .options = LWS_SERVER_OPTION_LIBEV | LWS_SERVER_OPTION_EXPLICIT_VHOSTS,
    };

    if (gate->config->gate.tls_cert != NULL)
        info.options |= LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
    lws_set_log_level(LLL_ERR | LLL_WARN, on_log);
    gate->carrier->context = lws_create_context(&info);
    if (gate->carrier->context != NULL)
        return RC_OK;
    snprintf(reason, size, "could not start libwebsockets: its libev plugin may be missing");
    return RC_IO;
}

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
    };

    if (gate->config->gate.tls_cert != NULL) {
        if (check_readable(gate->config->gate.tls_cert, reason, size) != RC_OK ||
            check_readable(gate->config->gate.tls_key, reason, size) != RC_OK)
            return RC_IO;
        info.options |= LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
        info.ssl_cert_filepath = gate->config->gate.tls_cert;
        info.ssl_private_key_filepath = gate->config->gate.tls_key;
    }
    gate->carrier->vhost = lws_create_vhost(gate->carrier->context, &info);
    if (gate->carrier->vhost != NULL)
        return RC_OK;
    snprintf(reason, size, "could not load gate.tls_cert or gate.tls_key");
    return RC_IO;
}

enum rc
carrier_open(struct gate *gate, char *reason, size_t size)
{
    gate->carrier = memory_new(sizeof(*gate->carrier));
    if (open_context(gate, reason, size) != RC_OK || open_vhost(gate, reason, size) != RC_OK)
        return RC_IO;
    return RC_OK;
}

void
carrier_close(struct gate *gate)
{
    if (gate->carrier == NULL)
        return;
    if (gate->carrier->context != NULL)
        lws_context_destroy(gate->carrier->context);
    free(gate->carrier);
    gate->carrier = NULL;
}

struct ssl_ctx_st *
carrier_tls(const struct gate *gate)
{
    return gate->carrier != NULL ? gate->carrier->tls : NULL;
}

/* Any client can cause it: the library begins the TLS handshake with the first bytes. */
static void
log_rejected(struct gate *gate)
{
    unsigned skipped = 0;

    if (!throttle_allows(&gate->adoption_failed, clock_monotonic_us(), &skipped))
        return;
    if (gate->carrier->tls != NULL)
        log_info("gate", "TLS handshake failed", LOG_UINT("suppressed", skipped));
    else
        log_warn("gate", "connection rejected by libwebsockets", LOG_UINT("suppressed", skipped));
}

bool
conn_adopt(struct conn *conn)
{
    struct gate *gate = conn->gate;
    const lws_adopt_desc_t info = {
        .vh = gate->carrier->vhost,
        .type = LWS_ADOPT_SOCKET | (gate->carrier->tls != NULL ? LWS_ADOPT_ALLOW_SSL : 0),
        .fd = {.sockfd = conn->fd},
        .vh_prot_name = "raw",
        .opaque = conn,
    };

    conn->in_adopt = true;
    conn->wsi = lws_adopt_descriptor_vhost_via_info(&info);
    conn->in_adopt = false;
    if (conn->wsi == NULL) {
        conn->fd = -1;
        stats_add(gate->stats, STAT_GATE_REJECTED, 1);
        log_rejected(gate);
        return false;
    }
    conn->is_tls = lws_get_ssl(conn->wsi) != NULL;
    return true;
}

bool
conn_close_socket(struct conn *conn)
{
    if (conn->wsi != NULL) {
        lws_set_timeout(conn->wsi, PENDING_TIMEOUT_USER_REASON_BASE, LWS_TO_KILL_SYNC);
        return true;
    }
    if (conn->fd >= 0)
        close(conn->fd);
    return false;
}

void
conn_pause(struct conn *conn)
{
    if (!conn->is_paused && lws_rx_flow_control(conn->wsi, 0) >= 0)
        conn->is_paused = true;
}

void
conn_resume(struct conn *conn)
{
    if (conn->is_paused && lws_rx_flow_control(conn->wsi, 1) >= 0)
        conn->is_paused = false;
}

void
conn_want_writable(struct conn *conn)
{
    lws_callback_on_writable(conn->wsi);
}

ssize_t
conn_write(struct conn *conn, const void *bytes, size_t len)
{
    SSL *ssl;
    int sent, error;

    if (!conn->is_tls)
        return send(conn->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    ssl = lws_get_ssl(conn->wsi);
    ERR_clear_error();
    sent = SSL_write(ssl, bytes, (int)(len < RECORD_BYTES ? len : RECORD_BYTES));
    if (sent > 0)
        return sent;
    error = SSL_get_error(ssl, sent);
    errno = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? EAGAIN : EIO;
    return -1;
}

/* send(2) is the typical case, and cheaper than sendmsg(2). */
ssize_t
conn_send_pieces(struct conn *conn, const struct iovec *pieces, int count, int file)
{
    struct msghdr message;
    off_t at = 0;

    if (file >= 0) {
        ssize_t sent = sendfile(conn->fd, file, &at, pieces[0].iov_len);

        if (sent >= 0 || errno == EAGAIN || errno == EINTR)
            return sent;
        /* fall back to send(2), which reports a socket error as well */
    }
    if (count == 1)
        return send(conn->fd, pieces[0].iov_base, pieces[0].iov_len, MSG_NOSIGNAL | MSG_DONTWAIT);
    message = (struct msghdr){.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)count};
    return sendmsg(conn->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool
conn_half_close(struct conn *conn)
{
    if (conn->is_tls) {
        ERR_clear_error();
        (void)SSL_shutdown(lws_get_ssl(conn->wsi));
    }
    return shutdown(conn->fd, SHUT_WR) == 0;
}

bool
conn_is_half_closed(const struct conn *conn)
{
    struct pollfd one = {.fd = conn->fd, .events = POLLRDHUP};

    return poll(&one, 1, 0) > 0;
}

bool
conn_has_unread(const struct conn *conn)
{
    int bytes = 0;

    return conn->http->in.len > 0 || (ioctl(conn->fd, FIONREAD, &bytes) == 0 && bytes > 0);
}

bool
conn_address(const struct conn *conn, char *address, size_t size)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
    } peer = {.any = {.sa_family = AF_UNSPEC}};
    socklen_t len = sizeof(peer);
    const struct in6_addr *v6 = &peer.v6.sin6_addr;

    if (getpeername(conn->fd, &peer.any, &len) != 0)
        return false;
    if (peer.any.sa_family == AF_INET)
        return inet_ntop(AF_INET, &peer.v4.sin_addr, address, (socklen_t)size) != NULL;
    if (peer.any.sa_family != AF_INET6)
        return false;
    if (IN6_IS_ADDR_V4MAPPED(v6))
        return inet_ntop(AF_INET, &v6->s6_addr[12], address, (socklen_t)size) != NULL;
    return inet_ntop(AF_INET6, v6, address, (socklen_t)size) != NULL;
}

void
conn_set_ack_timeout(const struct conn *conn, int64_t timeout_ms)
{
    unsigned ms = (unsigned)timeout_ms;

    (void)setsockopt(conn->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
}

bool
conn_unacked_bytes(const struct conn *conn, int *ret_bytes)
{
    int bytes = 0;

    if (ioctl(conn->fd, SIOCOUTQ, &bytes) != 0)
        return false;
    *ret_bytes = bytes;
    return true;
}
