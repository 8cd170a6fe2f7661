/* listen.c: opens the sockets of gate.listen and gate.admin_listen. */
#include "gate/net/listen.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

#define HOST_MAX 256
#define UNIX_PREFIX "unix:"
#define BACKLOG 4096
#define REASON_MAX 256
#define BIND_RETRIES 40
#define BIND_RETRY_MS 50

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
    int one = 1;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error;

    if (fd < 0)
        return -1;
    if ((family == AF_UNIX || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0) &&
        bind(fd, address, len) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
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
    int failure;
    int fd;

    if (!split_listen(listen, host, &port)) {
        snprintf(reason, size, "expected host:port, [v6]:port or unix:/path");
        return RC_BAD;
    }
    failure =
        getaddrinfo(host[0] == '\0' || strcmp(host, "*") == 0 ? NULL : host, port, &hints, &found);
    if (failure != 0) {
        snprintf(reason, size, "%s", gai_strerror(failure));
        return RC_BAD;
    }
    fd = open_bound(found->ai_family, found->ai_addr, found->ai_addrlen);
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
    size_t len = strlen(UNIX_PREFIX);

    return strncmp(listen, UNIX_PREFIX, len) == 0 ? listen + len : NULL;
}

bool
gate_listens_on_unix(const char *listen)
{
    return unix_path(listen) != NULL;
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

enum rc
gate_listen_start(const char *address, int fd)
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
        rc = gate_listen_start(config->gate.admin_listen, sockets.admin);
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
