/* gate_listen.c: opens the port or the unix socket that clients connect to. */
#include "gate/gate_conn.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"

#define HOST_MAX 256
#define UNIX_PREFIX "unix:"

/* Where to listen, as lws wants it. */
struct gate_place {
    char host[HOST_MAX]; /* a numeric address, or a path; "": every address */
    int port;
    bool is_unix;
    bool is_ipv4;
};

/* Cuts "host:port" or "[v6]:port" in two. */
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

/* lws reports a refused bind without its reason: so it is tried first. */
static enum rc
try_bind(const struct addrinfo *address, char *reason, size_t size)
{
    int one = 1;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    enum rc rc = RC_OK;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
        bind(fd, address->ai_addr, address->ai_addrlen) != 0 || listen(fd, 1) != 0) {
        snprintf(reason, size, "%s", strerror(errno));
        rc = RC_IO;
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

static enum rc
find_address(const char *listen, struct gate_place *ret_place, char *reason, size_t size)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    struct gate_place place = {0};
    char host[HOST_MAX];
    const char *port = NULL;
    int failure;
    enum rc rc;

    if (!split_listen(listen, host, &port)) {
        snprintf(reason, size, "it must be host:port, [v6]:port or unix:/path");
        return RC_BAD;
    }
    failure =
        getaddrinfo(host[0] == '\0' || strcmp(host, "*") == 0 ? NULL : host, port, &hints, &found);
    if (failure != 0) {
        snprintf(reason, size, "%s", gai_strerror(failure));
        return RC_BAD;
    }
    rc = try_bind(found, reason, size);
    place.is_ipv4 = found->ai_family == AF_INET;
    place.port = (int)strtol(port, NULL, 10); /* getaddrinfo has checked it */
    if (getnameinfo(found->ai_addr, found->ai_addrlen, place.host, HOST_MAX, NULL, 0,
                    NI_NUMERICHOST) != 0 ||
        strcmp(place.host, "0.0.0.0") == 0 || strcmp(place.host, "::") == 0)
        place.host[0] = '\0';
    freeaddrinfo(found);
    if (rc == RC_OK)
        *ret_place = place;
    return rc;
}

/* From 4.3 on lws does not report a refused bind at all, but tries again for ever. */
static enum rc
try_unix_bind(const struct sockaddr_un *address, char *reason, size_t size)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_bound = fd >= 0 && bind(fd, (const struct sockaddr *)address, sizeof(*address)) == 0;

    if (is_bound)
        unlink(address->sun_path);
    else
        snprintf(reason, size, "%s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return is_bound ? RC_OK : RC_IO;
}

/* A socket that nobody answers on is a leftover and goes. Other files stay. */
static enum rc
find_unix_path(const char *path, struct gate_place *ret_place, char *reason, size_t size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat status;
    int fd;
    bool answers;

    if (path[0] != '/' || strlen(path) >= sizeof(address.sun_path)) {
        snprintf(reason, size, "a socket's path begins with / and has at most %zu bytes",
                 sizeof(address.sun_path) - 1);
        return RC_BAD;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (lstat(path, &status) == 0) {
        if (!S_ISSOCK(status.st_mode)) {
            snprintf(reason, size, "there is a file that is not a socket");
            return RC_IO;
        }
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        answers = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
        if (fd >= 0)
            close(fd);
        if (answers) {
            snprintf(reason, size, "another process listens there");
            return RC_IO;
        }
        unlink(path);
    }
    if (try_unix_bind(&address, reason, size) != RC_OK)
        return RC_IO;
    *ret_place = (struct gate_place){.is_unix = true};
    snprintf(ret_place->host, HOST_MAX, "%s", path);
    return RC_OK;
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

    if (cert == NULL && key == NULL)
        return RC_OK;
    if (cert == NULL || key == NULL) {
        snprintf(reason, size, "tls_cert and tls_key go together");
        return RC_BAD;
    }
    if (check_readable(cert, reason, size) != RC_OK || check_readable(key, reason, size) != RC_OK)
        return RC_IO;
    info->options |= LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
    info->ssl_cert_filepath = cert;
    info->ssl_private_key_filepath = key;
    return RC_OK;
}

static enum rc
open_vhost(struct gate *gate, const struct gate_place *place, char *reason, size_t size)
{
    struct lws_context_creation_info info = {
        .port = place->port,
        .iface = gate->address,
        .protocols = GATE_PROTOCOLS,
        .vhost_name = "clairon",
        .user = gate,
        .alpn = "http/1.1",
        .keepalive_timeout = 5,
        .timeout_secs = 10,
        .options = LWS_SERVER_OPTION_FAIL_UPON_UNABLE_TO_BIND,
    };
    enum rc rc = set_tls(gate, &info, reason, size);

    if (rc != RC_OK)
        return rc;
    if (place->is_unix)
        info.options |= LWS_SERVER_OPTION_UNIX_SOCK;
    if (place->is_ipv4)
        info.options |= LWS_SERVER_OPTION_DISABLE_IPV6;
    if (lws_create_vhost(gate->context, &info) == NULL) {
        snprintf(reason, size, "libwebsockets refused (address, certificate or key)");
        return RC_IO;
    }
    return RC_OK;
}

enum rc
gate_listen(struct gate *gate, char *reason, size_t size)
{
    const char *listen = gate->config->gate.listen;
    size_t prefix_len = strlen(UNIX_PREFIX);
    bool is_unix = strncmp(listen, UNIX_PREFIX, prefix_len) == 0;
    struct gate_place place = {0};
    enum rc rc = is_unix ? find_unix_path(listen + prefix_len, &place, reason, size)
                         : find_address(listen, &place, reason, size);

    if (rc != RC_OK)
        return rc;
    gate->is_unix = is_unix;
    if (place.host[0] != '\0')
        gate->address = memory_text(place.host, strlen(place.host));
    return open_vhost(gate, &place, reason, size);
}
