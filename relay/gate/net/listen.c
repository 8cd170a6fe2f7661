/*
 * listen.c: the sockets of gate.listen and gate.admin_listen: binds them, listens, and accepts
 * connections.
 */
#include "gate/net/listen.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gate/net/conn.h"
#include "gate/net/gate_shared.h"

#define HOST_MAX 256
#define BACKLOG 4096
#define REASON_MAX 256
#define BIND_RETRIES 40
#define BIND_RETRY_MS 50
#define ACCEPTS_PER_TURN 16 /* another worker or the next iteration accepts more */
#define PAUSE_S 0.1         /* time to wait for a free descriptor */

/* Splits "host:port" or "[v6]:port". */
static bool
split_listen(const char *listen, char host[HOST_MAX], const char **ret_port)
{
    const char *colon = strrchr(listen, ':');
    size_t len;

    if (colon == NULL || colon[1] == '\0')
        return false;
    len = (size_t)(colon - listen);
    if (len >= 2 && listen[0] == '[' && listen[len - 1] == ']') {
        listen++;
        len -= 2;
    }
    if (len >= HOST_MAX)
        return false;
    memcpy(host, listen, len);
    host[len] = '\0';
    *ret_port = colon + 1;
    return true;
}

/* Returns a bound descriptor, or -1 with errno. */
static int
open_bound(int family, const struct sockaddr *address, socklen_t len)
{
    int one = 1, no = 0;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error;

    if (fd < 0)
        return -1;
    if (family ==
        AF_INET6) /* the address :: is also that of IPv4, whatever net.ipv6.bindv6only is */
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
    if ((family == AF_UNIX || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0) &&
        bind(fd, address, len) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Without a host, :: serves IPv4 too. Where IPv6 is off, the first address is that of IPv4. */
static int
open_found(const struct addrinfo *found, bool is_any)
{
    const struct addrinfo *v6 = found;

    while (v6->ai_family != AF_INET6 && v6->ai_next != NULL)
        v6 = v6->ai_next;
    if (is_any && v6->ai_family == AF_INET6) {
        int fd = open_bound(AF_INET6, v6->ai_addr, v6->ai_addrlen);

        if (fd >= 0 || errno == EADDRINUSE)
            return fd;
    }
    return open_bound(found->ai_family, found->ai_addr, found->ai_addrlen);
}

/* RC_AGAIN: the address is in use. */
static enum rc
bind_port(const char *listen, int *ret_fd, char *reason, size_t size)
{
    enum rc rc = RC_OK;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    char host[HOST_MAX];
    const char *port = NULL;
    bool is_any;
    int failure;
    int fd;

    if (!split_listen(listen, host, &port)) {
        snprintf(reason, size, "expected host:port, [v6]:port or unix:/path");
        return RC_BAD;
    }
    is_any = host[0] == '\0' || strcmp(host, "*") == 0;
    failure = getaddrinfo(is_any ? NULL : host, port, &hints, &found);
    if (failure != 0) {
        snprintf(reason, size, "%s", gai_strerror(failure));
        return RC_BAD;
    }
    fd = open_found(found, is_any);
    if (fd < 0) {
        rc = errno == EADDRINUSE ? RC_AGAIN : RC_IO;
        snprintf(reason, size, "%s", strerror(errno));
    }
    freeaddrinfo(found);
    if (rc == RC_OK)
        *ret_fd = fd;
    return rc;
}

static bool
is_socket_in_use(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_listening =
        fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0;

    if (fd >= 0)
        close(fd);
    return is_listening;
}

/* RC_AGAIN: the socket is in use. Removes a stale socket, but no other file. */
static enum rc
bind_path(const char *path, int *ret_fd, char *reason, size_t size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat status;
    int fd;

    if (path[0] != '/' || strlen(path) >= sizeof(address.sun_path)) {
        snprintf(reason, size, "socket path must begin with / and have at most %zu bytes",
                 sizeof(address.sun_path) - 1);
        return RC_BAD;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (lstat(path, &status) == 0) {
        if (!S_ISSOCK(status.st_mode)) {
            snprintf(reason, size, "path exists and is not a socket");
            return RC_IO;
        }
        if (is_socket_in_use(&address)) {
            snprintf(reason, size, "address in use by another process");
            return RC_AGAIN;
        }
        unlink(path);
    }
    fd = open_bound(AF_UNIX, (struct sockaddr *)&address, sizeof(address));
    if (fd < 0) {
        snprintf(reason, size, "%s", strerror(errno));
        return RC_IO;
    }
    *ret_fd = fd;
    return RC_OK;
}

/* Returns the path of a Unix socket; NULL: a port. */
static const char *
unix_path(const char *listen)
{
    return gate_listens_on_unix(listen) ? listen + strlen(GATE_UNIX_PREFIX) : NULL;
}

static enum rc
bind_once(const char *listen, int *ret_fd, char *reason, size_t size)
{
    const char *path = unix_path(listen);

    return path != NULL ? bind_path(path, ret_fd, reason, size)
                        : bind_port(listen, ret_fd, reason, size);
}

static enum rc
bind_with_retry(const char *listen, int *ret_fd)
{
    const struct timespec pause = {.tv_nsec = BIND_RETRY_MS * 1000000L};
    char reason[REASON_MAX];
    enum rc rc = bind_once(listen, ret_fd, reason, sizeof(reason));

    /* The workers of a killed relay need some time to exit. */
    if (rc == RC_AGAIN)
        log_warn("gate", "listen address in use: retrying", LOG_TEXT("listen", listen),
                 LOG_INT("timeout_ms", BIND_RETRIES * BIND_RETRY_MS));
    for (int i = 0; i < BIND_RETRIES && rc == RC_AGAIN; i++) {
        nanosleep(&pause, NULL);
        rc = bind_once(listen, ret_fd, reason, sizeof(reason));
    }
    if (rc != RC_OK)
        log_error("gate", "could not listen", LOG_TEXT("listen", listen),
                  LOG_TEXT("error", reason));
    return rc;
}

static bool
is_listening(int fd)
{
    int value = 0;
    socklen_t len = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &len) == 0 && value != 0;
}

/* Listens at a bound address, unless another process that shares it has. Logs the result. */
static enum rc
listen_at(const char *address, int fd)
{
    if (is_listening(fd)) /* another worker was faster */
        return RC_OK;
    if (listen(fd, BACKLOG) != 0) {
        log_error("gate", "could not listen", LOG_TEXT("listen", address),
                  LOG_TEXT("error", strerror(errno)));
        return RC_IO;
    }
    log_info("gate", "listening", LOG_TEXT("listen", address));
    return RC_OK;
}

bool
gate_has_socket(const struct config *config)
{
    return (config->relay.roles & CONFIG_ROLE_GATE) != 0 || config->gate.admin_listen != NULL;
}

enum rc
gate_listen(const struct config *config, struct gate_sockets *ret_sockets)
{
    struct gate_sockets sockets = GATE_NO_SOCKETS;
    enum rc rc = RC_OK;

    if ((config->relay.roles & CONFIG_ROLE_GATE) != 0)
        rc = bind_with_retry(config->gate.listen, &sockets.clients);
    if (rc == RC_OK && config->gate.admin_listen != NULL)
        rc = bind_with_retry(config->gate.admin_listen, &sockets.admin);
    if (rc == RC_OK && config->gate.admin_listen != NULL)
        rc = listen_at(config->gate.admin_listen, sockets.admin);
    if (rc != RC_OK)
        gate_unlisten(config, sockets);
    else
        *ret_sockets = sockets;
    return rc;
}

static void
unlisten_one(const char *listen, int fd)
{
    if (fd < 0)
        return;
    if (unix_path(listen) != NULL)
        unlink(unix_path(listen));
    close(fd);
}

void
gate_unlisten(const struct config *config, struct gate_sockets sockets)
{
    unlisten_one(config->gate.listen, sockets.clients);
    unlisten_one(config->gate.admin_listen, sockets.admin);
}

void
gate_sockets_close(struct gate_sockets sockets)
{
    if (sockets.clients >= 0)
        close(sockets.clients);
    if (sockets.admin >= 0)
        close(sockets.admin);
}

struct acceptor {
    struct gate *gate;
    struct ev_io acceptable;       /* gate.listen; fd -1: not open */
    bool accepts_clients;          /* gate_accept was called */
    struct ev_io admin_acceptable; /* gate.admin_listen; fd -1: not open */
    struct ev_timer pause;
    int eviction_threshold; /* from this descriptor number on, idle connections are evicted */
    struct throttle full;   /* of the message that descriptors have run out */
};

static void
begin(struct acceptor *acceptor, int fd, bool is_admin)
{
    int one = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* fails on a Unix socket */
    if (fd >= acceptor->eviction_threshold)
        (void)conns_evict_oldest(acceptor->gate);
    conn_begin(acceptor->gate, fd, is_admin);
}

/*
 * The system assigns the lowest free number. So if a number reaches the threshold, only the
 * reserved descriptors are free.
 */
static int
eviction_threshold(void)
{
    struct rlimit limit;
    int max = INT_MAX;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < INT_MAX)
        max = (int)limit.rlim_cur;
    return max > 2 * GATE_DESCRIPTORS_SPARE ? max - GATE_DESCRIPTORS_SPARE : max / 2;
}

/* accept is retried ten times a second. */
static void
log_full(struct acceptor *acceptor, int error)
{
    unsigned suppressed;

    if (!throttle_allows(&acceptor->full, clock_monotonic_us(), &suppressed))
        return;
    log_warn("gate", "out of file descriptors: closing idle connections, accept paused",
             LOG_TEXT("error", strerror(error)), LOG_UINT("suppressed", suppressed),
             LOG_TEXT("hint", "raise LimitNOFILE (ulimit -n) or lower gate.max_connections"));
}

static void
resume_accept(struct acceptor *acceptor)
{
    if (acceptor->accepts_clients && acceptor->acceptable.fd >= 0)
        ev_io_start(acceptor->gate->loop, &acceptor->acceptable);
    if (acceptor->admin_acceptable.fd >= 0)
        ev_io_start(acceptor->gate->loop, &acceptor->admin_acceptable);
}

static void
pause_accept(struct acceptor *acceptor)
{
    ev_io_stop(acceptor->gate->loop, &acceptor->acceptable);
    ev_io_stop(acceptor->gate->loop, &acceptor->admin_acceptable);
}

static void
on_acceptable(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct acceptor *acceptor = watcher->data;

    (void)events;
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        int fd = accept4(watcher->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            begin(acceptor, fd, watcher == &acceptor->admin_acceptable);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            /* A later accept may fail although no connection is waiting. */
            if (i > 0)
                return;
            log_full(acceptor, errno);
            if (conns_evict_oldest(acceptor->gate))
                continue;
            pause_accept(acceptor);
            ev_timer_again(loop, &acceptor->pause);
            return;
        } else if (errno != ECONNABORTED && errno != EINTR) {
            return;
        }
    }
}

static void
on_pause_over(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)events;
    ev_timer_stop(loop, timer);
    resume_accept(timer->data);
}

void
gate_accept_start(struct gate *gate, struct gate_sockets sockets)
{
    struct acceptor *acceptor = memory_new(sizeof(*acceptor));

    gate->acceptor = acceptor;
    acceptor->gate = gate;
    acceptor->eviction_threshold = eviction_threshold();
    ev_timer_init(&acceptor->pause, on_pause_over, 0., PAUSE_S);
    ev_init(&acceptor->acceptable, on_acceptable);
    ev_init(&acceptor->admin_acceptable, on_acceptable);
    ev_io_set(&acceptor->acceptable, sockets.clients, EV_READ);
    ev_io_set(&acceptor->admin_acceptable, sockets.admin, EV_READ);
    acceptor->pause.data = acceptor->acceptable.data = acceptor->admin_acceptable.data = acceptor;
    resume_accept(acceptor);
}

enum rc
gate_accept(struct gate *gate)
{
    struct acceptor *acceptor = gate->acceptor;

    if (acceptor->accepts_clients)
        return RC_OK;
    if (listen_at(gate->config->gate.listen, acceptor->acceptable.fd) != RC_OK)
        return RC_IO;
    acceptor->accepts_clients = true;
    resume_accept(acceptor);
    return RC_OK;
}

bool
gate_accepts_clients(const struct gate *gate)
{
    return gate->acceptor->accepts_clients;
}

void
gate_accept_stop(struct gate *gate)
{
    if (gate->acceptor == NULL)
        return;
    ev_timer_stop(gate->loop, &gate->acceptor->pause);
    pause_accept(gate->acceptor);
}

void
gate_accept_free(struct gate *gate)
{
    if (gate->acceptor == NULL)
        return;
    gate_accept_stop(gate);
    free(gate->acceptor);
    gate->acceptor = NULL;
}
