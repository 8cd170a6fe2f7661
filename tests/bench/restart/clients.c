/*
 * clients.c: many WebSocket clients that resume from the same cursor, and count what they receive.
 *
 *   clients PORT CURSOR MESSAGES < TOKENS
 *
 * Each line of the input is the token of one client. Prints the seconds until each client has
 * received this number of messages, and how many clients were resumed without a gap.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTING_MAX 512 /* connections without a reply to the upgrade */
#define READ_BYTES (256 * 1024)
#define FRAME_START 512 /* bytes of a WebSocket frame that are compared */
#define UPGRADE                                                                                    \
    "GET /v1/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"      \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"                 \
    "Sec-WebSocket-Protocol: clairon.v1.json\r\n\r\n"

struct client {
    int fd;
    bool is_upgraded;
    char *token;
    unsigned long messages;
    unsigned char start[FRAME_START + 1]; /* of the present frame, or of the response */
    size_t start_len;
    size_t skip; /* bytes of the present frame that follow */
};

static unsigned long wanted;
static const char *cursor;
static size_t connecting, done, resumed, gaps;

static void
fail(const char *what)
{
    fprintf(stderr, "clients: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double
now_s(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static void
write_all(int fd, const void *bytes, size_t len)
{
    if (send(fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
        fail("could not send");
}

/* The mask is 0, so the bytes are unchanged. */
static void
send_connect(const struct client *client)
{
    unsigned char frame[4096] = {0x81, 0x80 | 126};
    char *text = (char *)frame + 8;
    int len = snprintf(text, sizeof(frame) - 8,
                       "{\"t\":\"connect\",\"r\":1,\"token\":\"%s\",\"pos\":\"%s\"}", client->token,
                       cursor);

    frame[2] = (unsigned char)(len >> 8);
    frame[3] = (unsigned char)len;
    write_all(client->fd, frame, 8 + (size_t)len);
}

static void
open_client(struct client *client, int port, int poll)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
    const int one = 1;

    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client->fd < 0 || connect(client->fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        fail("could not connect");
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    write_all(client->fd, UPGRADE, sizeof(UPGRADE) - 1);
    if (epoll_ctl(poll, EPOLL_CTL_ADD, client->fd, &event) != 0)
        fail("could not poll");
    connecting++;
}

static bool
begins(const struct client *client, size_t head, const char *text)
{
    return client->start_len >= head + strlen(text) &&
           memcmp(client->start + head, text, strlen(text)) == 0;
}

static void
count_frame(struct client *client, size_t head)
{
    client->start[client->start_len] = '\0';
    if (begins(client, head, "{\"t\":\"msg\"")) {
        if (++client->messages == wanted)
            done++;
    } else if (begins(client, head, "{\"t\":\"connected\"")) {
        resumed += strstr((char *)client->start + head, "\"resumed\":true") != NULL;
    } else if (begins(client, head, "{\"t\":\"gap\"")) {
        gaps++;
    } else if ((client->start[0] & 0x0f) == 1) {
        fprintf(stderr, "clients: unexpected frame: %s\n", client->start + head);
        exit(1);
    }
}

/* The bytes of a frame's header, or 0: they are incomplete. */
static size_t
frame_head(const struct client *client, size_t *ret_len)
{
    const unsigned char *at = client->start;
    const size_t head = client->start_len < 2   ? 2
                        : (at[1] & 0x7f) == 126 ? 4
                        : (at[1] & 0x7f) == 127 ? 10
                                                : 2;

    if (client->start_len < head)
        return 0;
    *ret_len = at[1] & 0x7f;
    if (head > 2) {
        *ret_len = 0;
        for (size_t i = 2; i < head; i++)
            *ret_len = *ret_len << 8 | at[i];
    }
    return head;
}

/* Handles bytes of the present frame. Returns their number. */
static size_t
handle_frame(struct client *client, const unsigned char *bytes, size_t count)
{
    size_t len, head, used = 0;

    if (client->skip > 0) {
        used = count < client->skip ? count : client->skip;
        client->skip -= used;
        if (client->skip == 0)
            client->start_len = 0;
        return used;
    }
    while (used < count && client->start_len < FRAME_START) {
        client->start[client->start_len++] = bytes[used++];
        head = frame_head(client, &len);
        if (head == 0 || (client->start_len < head + len && client->start_len < FRAME_START))
            continue;
        count_frame(client, head);
        client->skip = head + len - client->start_len;
        if (client->skip == 0)
            client->start_len = 0;
        break;
    }
    return used;
}

static size_t
handle_response(struct client *client, const unsigned char *bytes, size_t count)
{
    size_t used = 0;

    while (used < count) {
        if (client->start_len == FRAME_START)
            fail("invalid response to the upgrade");
        client->start[client->start_len++] = bytes[used++];
        if (client->start_len < 4 ||
            memcmp(client->start + client->start_len - 4, "\r\n\r\n", 4) != 0)
            continue;
        if (!begins(client, 0, "HTTP/1.1 101"))
            fail("the upgrade was rejected");
        client->start_len = 0;
        client->is_upgraded = true;
        connecting--;
        send_connect(client);
        break;
    }
    return used;
}

static void
read_client(struct client *client)
{
    static unsigned char bytes[READ_BYTES];
    const ssize_t count = recv(client->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    size_t at = 0;

    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count <= 0)
        fail("connection closed");
    while (at < (size_t)count)
        at += client->is_upgraded ? handle_frame(client, bytes + at, (size_t)count - at)
                                  : handle_response(client, bytes + at, (size_t)count - at);
}

int
main(int argc, char **argv)
{
    const int poll = epoll_create1(EPOLL_CLOEXEC);
    struct client **clients = NULL;
    size_t count = 0, opened = 0, room = 0;
    struct epoll_event events[256];
    struct rlimit limit;
    char *line = NULL;
    ssize_t len;
    double since;

    if (argc != 4 || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        fail("usage: clients PORT CURSOR MESSAGES < TOKENS");
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    cursor = argv[2];
    wanted = strtoul(argv[3], NULL, 10);
    while ((len = getline(&line, &room, stdin)) > 1) {
        clients = realloc(clients, (count + 1) * sizeof(struct client *));
        clients[count] = calloc(1, sizeof(struct client));
        clients[count++]->token = strndup(line, (size_t)len - 1);
    }
    since = now_s();
    while (done < count) {
        while (opened < count && connecting < CONNECTING_MAX)
            open_client(clients[opened++], atoi(argv[1]), poll);
        const int ready = epoll_wait(poll, events, 256, 1000);

        if (ready < 0 && errno != EINTR)
            fail("could not poll");
        for (int i = 0; i < ready; i++)
            read_client(events[i].data.ptr);
        if (now_s() - since > 600)
            fail("clients have not received their messages");
    }
    printf("%.3f %zu %zu\n", now_s() - since, resumed, gaps);
    return 0;
}
