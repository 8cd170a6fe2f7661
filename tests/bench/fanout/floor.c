/*
 * floor.c: what the kernel allows: an epoll server that does nothing but send(2).
 *
 * floor PORT CONTROL_PORT: clients connect to the first. On the second, a line `all COUNT BYTES`
 * sends COUNT messages to all of them, in one send each; `each` one to each, one send each.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENTS_MAX 20000
#define BLOCK_MAX (4 * 1024 * 1024)

static int clients[CLIENTS_MAX];
static int client_count;
static char block[BLOCK_MAX];

static void
fail(const char *what)
{
    perror(what);
    exit(1);
}

static int
open_port(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int one = 1;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(fd, 4096) != 0)
        fail("listen");
    return fd;
}

/* A full socket is waited for: nothing is dropped, and nothing else has to be remembered. */
static void
send_whole(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);

        if (n < 0)
            return; /* gone */
        bytes += n;
        len -= (size_t)n;
    }
}

static size_t
make_block(int count, size_t bytes)
{
    size_t at = 0;

    for (int i = 0; i < count && at + bytes + 10 < BLOCK_MAX; i++) {
        block[at++] = (char)0x81;
        if (bytes < 126) {
            block[at++] = (char)bytes;
        } else {
            block[at++] = 126;
            block[at++] = (char)(bytes >> 8);
            block[at++] = (char)bytes;
        }
        memset(block + at, 'x', bytes);
        at += bytes;
    }
    return at;
}

static void
obey(const char *line)
{
    char *rest = NULL;
    int count = (int)strtol(strchr(line, ' '), &rest, 10);
    size_t bytes = strtoul(rest, NULL, 10);
    static int made_count;
    static size_t made_bytes, len;

    if (count != made_count || bytes != made_bytes)
        len = make_block(count, bytes);
    made_count = count;
    made_bytes = bytes;
    for (int i = 0; i < client_count; i++)
        send_whole(clients[i], block, len);
}

static void
read_control(int fd)
{
    static char text[4096];
    static size_t len;
    char *stop;
    ssize_t n = recv(fd, text + len, sizeof(text) - len - 1, 0);

    if (n <= 0)
        exit(0);
    len += (size_t)n;
    text[len] = '\0';
    while ((stop = strchr(text, '\n')) != NULL) {
        obey(text);
        len -= (size_t)(stop + 1 - text);
        memmove(text, stop + 1, len + 1);
    }
}

/* The key of the load client is always the same one, that of RFC 6455's example. */
static void
accept_client(int listener)
{
    static const char ANSWER[] =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    int fd = accept(listener, NULL, NULL);
    char request[2048];
    int one = 1;

    if (fd < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (recv(fd, request, sizeof(request), 0) > 0) {
        send_whole(fd, ANSWER, sizeof(ANSWER) - 1);
        clients[client_count++] = fd;
    }
}

int
main(int argc, char **argv)
{
    int epoll = epoll_create1(0);
    int listener, control;
    struct epoll_event event = {.events = EPOLLIN};
    struct rlimit limit;

    if (argc != 3)
        return 2;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    listener = open_port((int)strtol(argv[1], NULL, 10));
    control = open_port((int)strtol(argv[2], NULL, 10));
    event.data.fd = listener;
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    event.data.fd = control;
    epoll_ctl(epoll, EPOLL_CTL_ADD, control, &event);
    printf("ready\n");
    fflush(stdout);
    while (epoll_wait(epoll, &event, 1, -1) >= 0 || errno == EINTR) {
        if (event.data.fd == listener) {
            accept_client(listener);
        } else if (event.data.fd == control) {
            event.data.fd = accept(control, NULL, NULL);
            epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event);
        } else {
            read_control(event.data.fd);
        }
    }
    return 0;
}
