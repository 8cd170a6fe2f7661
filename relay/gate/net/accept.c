/* accept.c: takes connections from the listening socket and hands them to libwebsockets. */
#include "gate/gate_conn.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"

#define ACCEPTS_A_TURN 16 /* what more there is, another worker or the next turn takes */
#define FULL_SAID_US (60 * INT64_C(1000000))
#define PAUSE_S 0.1 /* without a free descriptor there is nothing to do but wait for one */

static void
say_not_taken(struct gate *gate)
{
    stats_add(gate->stats, STAT_GATE_REFUSED, 1);
    log_warn("gate", "libwebsockets could not take a connection");
}

struct lws *
gate_accept_adopt(struct gate *gate, int fd)
{
    struct lws *wsi = lws_adopt_socket_vhost(gate->vhost, fd);

    if (wsi == NULL)
        say_not_taken(gate);
    return wsi;
}

void
gate_accept_adopt_bytes(struct gate *gate, int fd, size_t len)
{
    if (lws_adopt_socket_vhost_readbuf(gate->vhost, fd, (const char *)gate->received, len) == NULL)
        say_not_taken(gate);
}

/* Marked at each accept: the system gives numbers of closed descriptors out again. */
static void
mark_admin(struct gate *gate, int fd, bool is_admin)
{
    size_t at = (size_t)fd / 8;
    unsigned char bit = (unsigned char)(1u << (unsigned)fd % 8);

    if (at >= gate->admin_fds_len) {
        size_t len = 2 * at + 64;

        if (!is_admin)
            return;
        gate->admin_fds = memory_grow(gate->admin_fds, len);
        memset(gate->admin_fds + gate->admin_fds_len, 0, len - gate->admin_fds_len);
        gate->admin_fds_len = len;
    }
    if (is_admin)
        gate->admin_fds[at] |= bit;
    else
        gate->admin_fds[at] &= (unsigned char)~bit;
}

bool
gate_fd_is_admin(const struct gate *gate, int fd)
{
    size_t at = (size_t)fd / 8;

    return at < gate->admin_fds_len && (gate->admin_fds[at] >> (unsigned)fd % 8 & 1) != 0;
}

static void
begin(struct gate *gate, int fd, bool is_admin)
{
    int one = 1;

    mark_admin(gate, fd, is_admin);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* a unix socket has none */
    if (fd >= gate->descriptors_most)
        (void)gate_heads_give_way(gate);
    gate_head_begin(gate, fd);
}

/* The lowest is given out first: behind this one are those for the store and PostgreSQL. */
static int
descriptors_most(void)
{
    struct rlimit limit;
    int most = INT_MAX;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < INT_MAX)
        most = (int)limit.rlim_cur;
    return most > 2 * GATE_DESCRIPTORS_SPARE ? most - GATE_DESCRIPTORS_SPARE : most / 2;
}

/* Once a minute at most: it is tried ten times a second. */
static void
say_full(struct gate *gate, int error)
{
    int64_t now_us = clock_monotonic_us();

    if (gate->said_full_us != 0 && now_us - gate->said_full_us < FULL_SAID_US)
        return;
    gate->said_full_us = now_us;
    log_warn("gate",
             "no descriptor for a new connection (%s): raise LimitNOFILE of the unit (ulimit -n), "
             "or lower gate.max_connections; who has not asked yet goes, others wait",
             strerror(error));
}

static void
start_accepting(struct gate *gate)
{
    if (gate->acceptable.fd >= 0)
        ev_io_start(gate->loop, &gate->acceptable);
    if (gate->admin_acceptable.fd >= 0)
        ev_io_start(gate->loop, &gate->admin_acceptable);
}

static void
stop_accepting(struct gate *gate)
{
    ev_io_stop(gate->loop, &gate->acceptable);
    ev_io_stop(gate->loop, &gate->admin_acceptable);
}

static void
on_acceptable(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct gate *gate = watcher->data;

    (void)events;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        int fd = accept4(watcher->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            begin(gate, fd, watcher == &gate->admin_acceptable);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            /* Said before it is looked whether anybody waits: of the first we know that he does. */
            if (i > 0)
                return;
            say_full(gate, errno);
            if (gate_heads_give_way(gate))
                continue;
            stop_accepting(gate);
            ev_timer_again(loop, &gate->accept_pause);
            return;
        } else if (errno != ECONNABORTED && errno != EINTR) {
            return;
        }
    }
}

static void
on_pause_over(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct gate *gate = timer->data;

    (void)events;
    ev_timer_stop(loop, timer);
    start_accepting(gate);
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
set_tls(struct gate *gate, struct lws_context_creation_info *info, char *reason, size_t size)
{
    const char *cert = gate->config->gate.tls_cert;
    const char *key = gate->config->gate.tls_key;

    if (cert == NULL)
        return RC_OK; /* nor a key: config_rules.c */
    if (check_readable(cert, reason, size) != RC_OK || check_readable(key, reason, size) != RC_OK)
        return RC_IO;
    info->options |= LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
    info->ssl_cert_filepath = cert;
    info->ssl_private_key_filepath = key;
    return RC_OK;
}

/*
 * lws would ping, and hang up on who does not answer it: but the answers do not pass it, and its
 * list of timers takes longer with every connection. sweep.c does both.
 */
static const lws_retry_bo_t NO_PINGS;

enum rc
gate_accept_start(struct gate *gate, struct gate_sockets sockets, char *reason, size_t size)
{
    struct lws_context_creation_info info = {
        .port = CONTEXT_PORT_NO_LISTEN_SERVER,
        .protocols = GATE_PROTOCOLS,
        .vhost_name = "clairon",
        .user = gate,
        .alpn = "http/1.1",
        .keepalive_timeout = 5,
        .timeout_secs = 10,
        .retry_and_idle_policy = &NO_PINGS,
    };
    enum rc rc = set_tls(gate, &info, reason, size);

    if (rc != RC_OK)
        return rc;
    gate->vhost = lws_create_vhost(gate->context, &info);
    if (gate->vhost == NULL) {
        snprintf(reason, size, "libwebsockets refused the certificate or its key");
        return RC_IO;
    }
    if (gate_tls_set_ciphers(gate, reason, size) != RC_OK)
        return RC_IO;
    gate->descriptors_most = descriptors_most();
    ev_timer_init(&gate->accept_pause, on_pause_over, 0., PAUSE_S);
    ev_init(&gate->acceptable, on_acceptable);
    ev_init(&gate->admin_acceptable, on_acceptable);
    ev_io_set(&gate->acceptable, sockets.clients, EV_READ);
    ev_io_set(&gate->admin_acceptable, sockets.admin, EV_READ);
    gate->accept_pause.data = gate->acceptable.data = gate->admin_acceptable.data = gate;
    start_accepting(gate);
    return RC_OK;
}

void
gate_accept_stop(struct gate *gate)
{
    ev_timer_stop(gate->loop, &gate->accept_pause);
    stop_accepting(gate);
}
