/*
 * floor.c: an epoll server that only calls send(2), to measure the limit of the kernel.
 *
 * floor PORT CONTROL_PORT: clients connect to the first port. On the second port, `all COUNT BYTES`
 * sends COUNT messages to all clients, in one send each; `each` sends one message to each client.
 * floor PORT STORE_SOCKET: messages are read from the store's stream, as a relay reads them. Each
 * reply is sent in one call to all clients, or to an entry's target. The result is the minimum cost
 * with a store.
 */
#include <errno.h>
#include <hiredis.h>
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

#include "decoder/protocol/frame_format.h"

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

/* Blocks while the socket is full, so the server drops nothing and needs no queue. */
static void
send_whole(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);

        if (n < 0)
            return; /* the client has disconnected */
        bytes += n;
        len -= (size_t)n;
    }
}

/* Writes the header of a text frame with `len` bytes; returns its length. */
static size_t
put_head(char *at, size_t bytes)
{
    at[0] = (char)0x81;
    at[1] = (char)(bytes < 126 ? bytes : 126);
    if (bytes < 126)
        return 2;
    at[2] = (char)(bytes >> 8);
    at[3] = (char)bytes;
    return 4;
}

static size_t
make_block(int count, size_t bytes)
{
    size_t at = 0;

    for (int i = 0; i < count && at + bytes + 10 < BLOCK_MAX; i++) {
        at += put_head(block + at, bytes);
        memset(block + at, 'x', bytes);
        at += bytes;
    }
    return at;
}

static void
run_command(const char *line)
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
        run_command(text);
        len -= (size_t)(stop + 1 - text);
        memmove(text, stop + 1, len + 1);
    }
}

/* ---- the store's stream */

static redisContext *store;

static const redisReply *
field_of(const redisReply *fields, const char *name)
{
    for (size_t i = 0; i + 1 < fields->elements; i += 2) {
        if (strcmp(fields->element[i]->str, name) == 0)
            return fields->element[i + 1];
    }
    return NULL;
}

/* Returns the index of the entry's target, by the client order u0, u1, ..; -1 for all clients. */
static int
client_of(const redisReply *route)
{
    const unsigned char *at = (const unsigned char *)route->str;
    size_t audience_len = (size_t)(at[FRAME_NOTIFICATION_AT_AUDIENCE_LEN] << 8 |
                                   at[FRAME_NOTIFICATION_AT_AUDIENCE_LEN + 1]);
    size_t target = FRAME_NOTIFICATION_HEAD_SIZE + audience_len + 2;

    return route->len > target + 1 ? (int)strtol(route->str + target + 1, NULL, 10) : -1;
}

/* Builds the frame that a relay would send for an entry. */
static size_t
put_entry(char *to, const redisReply *entry, const redisReply *data)
{
    static const char START[] = "{\"t\":\"msg\",\"pos\":\"0123456789abcdef.",
                      MIDDLE[] = "\",\"n\":";
    const redisReply *id = entry->element[0];
    size_t len = sizeof(START) - 1 + id->len + sizeof(MIDDLE) - 1 + data->len + 1;
    char *at = to + put_head(to, len);

    at = (char *)memcpy(at, START, sizeof(START) - 1) + sizeof(START) - 1;
    at = (char *)memcpy(at, id->str, id->len) + id->len;
    at = (char *)memcpy(at, MIDDLE, sizeof(MIDDLE) - 1) + sizeof(MIDDLE) - 1;
    at = (char *)memcpy(at, data->str, data->len) + data->len;
    *at++ = '}';
    return (size_t)(at - to);
}

static void
request_page(const char *after)
{
    int done = 0;

    redisAppendCommand(store, "XREAD COUNT 64 BLOCK 0 STREAMS clairon:stream %s", after);
    while (done == 0) {
        if (redisBufferWrite(store, &done) != REDIS_OK)
            fail("store");
    }
}

static void
send_entries(const redisReply *entries)
{
    size_t len = 0;

    for (size_t i = 0; i < entries->elements; i++) {
        const redisReply *entry = entries->element[i];
        const redisReply *route = field_of(entry->element[1], "route");
        const redisReply *data = field_of(entry->element[1], "data");
        int client = client_of(route);

        if (client >= 0)
            send_whole(clients[client], block, put_entry(block, entry, data));
        else if (len + data->len + 256 < BLOCK_MAX)
            len += put_entry(block + len, entry, data);
    }
    for (int i = 0; i < client_count && len > 0; i++)
        send_whole(clients[i], block, len);
}

static void
read_store(void)
{
    redisReply *reply = NULL;

    if (redisBufferRead(store) != REDIS_OK)
        exit(0); /* the control connection was closed */
    if (redisGetReplyFromReader(store, (void **)&reply) != REDIS_OK)
        fail("store");
    if (reply == NULL)
        return; /* incomplete */
    if (reply->type == REDIS_REPLY_ARRAY) {
        const redisReply *entries = reply->element[0]->element[1];

        request_page(entries->element[entries->elements - 1]->element[0]->str);
        send_entries(entries);
    }
    freeReplyObject(reply);
}

/* ---- clients */

/* The load client always sends the same key: the example in RFC 6455. */
static void
accept_client(int listener)
{
    static const char RESPONSE[] =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    int fd = accept(listener, NULL, NULL);
    char request[2048];
    int one = 1;

    if (fd < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (recv(fd, request, sizeof(request), 0) > 0) {
        send_whole(fd, RESPONSE, sizeof(RESPONSE) - 1);
        clients[client_count++] = fd;
    }
}

/* Opens the control port; returns its descriptor. */
static int
open_control(const char *where)
{
    redisReply *newest;

    if (where[0] != '/')
        return open_port((int)strtol(where, NULL, 10));
    store = redisConnectUnix(where);
    newest = store != NULL ? redisCommand(store, "XREVRANGE clairon:stream + - COUNT 1") : NULL;
    if (newest == NULL)
        fail("store");
    request_page(newest->elements > 0 ? newest->element[0]->element[0]->str : "0-0");
    freeReplyObject(newest);
    return store->fd;
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
    control = open_control(argv[2]);
    event.data.fd = listener;
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    event.data.fd = control;
    epoll_ctl(epoll, EPOLL_CTL_ADD, control, &event);
    printf("ready\n");
    fflush(stdout);
    while (epoll_wait(epoll, &event, 1, -1) >= 0 || errno == EINTR) {
        if (event.data.fd == listener) {
            accept_client(listener);
        } else if (event.data.fd == control && store != NULL) {
            read_store();
        } else if (event.data.fd == control) {
            event.data.fd = accept(control, NULL, NULL);
            epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event);
        } else {
            read_control(event.data.fd);
        }
    }
    return 0;
}
