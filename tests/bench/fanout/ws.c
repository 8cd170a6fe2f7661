/*
 * ws.c: one client of the load: opens a WebSocket, then counts WebSocket frames by their headers.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "load.h"

#define READ_BYTES (256 * 1024)
#define CLAIRON_PATH "/v1/ws"
#define CLAIRON_PROTOCOL "clairon.v1.json"
#define SAMPLE_BYTES 700 /* contain a message's timestamp */

uint64_t messages_seen;
uint64_t bytes_seen;
size_t message_min;
uint32_t *ages;
size_t age_count;

/*
 * Blocks, so it is used only while connecting. Returns the payload of the next WebSocket frame,
 * zero-terminated.
 */
static size_t
read_frame(int fd, char *payload, size_t size)
{
    unsigned char head[4];
    size_t len;

    if (recv(fd, head, 2, MSG_WAITALL) != 2)
        fail("the server closed the connection at its first frame");
    len = head[1] & 0x7f;
    if (len == 126) {
        if (recv(fd, head + 2, 2, MSG_WAITALL) != 2)
            fail("no frame");
        len = (size_t)head[2] << 8 | head[3];
    }
    if (len >= size || recv(fd, payload, len, MSG_WAITALL) != (ssize_t)len)
        fail("no frame");
    payload[len] = '\0';
    return len;
}

/* Sends a masked text frame. The mask is 0, so the bytes are unchanged. */
static void
write_frame(int fd, const char *text)
{
    size_t len = strlen(text);
    unsigned char frame[4096] = {0x81};
    size_t at = 2;

    if (len < 126) {
        frame[1] = (unsigned char)(0x80 | len);
    } else {
        frame[1] = 0x80 | 126;
        frame[2] = (unsigned char)(len >> 8);
        frame[3] = (unsigned char)len;
        at = 4;
    }
    at += 4;
    memcpy(frame + at, text, len);
    write_all(fd, frame, at + len);
}

static void
send_upgrade(int fd, const char *path, const char *protocol)
{
    char text[1024];

    snprintf(
        text, sizeof(text),
        "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n%s%s%s\r\n",
        path, protocol != NULL ? "Sec-WebSocket-Protocol: " : "", protocol != NULL ? protocol : "",
        protocol != NULL ? "\r\n" : "");
    write_all(fd, text, strlen(text));
}

static void
await_upgrade(int fd)
{
    char text[1024];
    size_t len = 0;

    while (len < 4 || memcmp(text + len - 4, "\r\n\r\n", 4) != 0) {
        if (len + 1 == sizeof(text) || recv(fd, text + len, 1, 0) != 1)
            fail("no response to the upgrade");
        len++;
    }
    text[len] = '\0';
    if (strstr(text, " 101 ") == NULL) {
        fputs(text, stderr);
        errno = 0;
        fail("the upgrade was rejected");
    }
}

static void
upgrade(int fd, const char *path, const char *protocol)
{
    send_upgrade(fd, path, protocol);
    await_upgrade(fd);
}

static size_t
add_base64url(char *out, const void *bytes, size_t len)
{
    size_t count = (size_t)EVP_EncodeBlock((unsigned char *)out, bytes, (int)len);

    while (count > 0 && out[count - 1] == '=')
        count--;
    for (size_t i = 0; i < count; i++)
        out[i] = (char)(out[i] == '+' ? '-' : out[i] == '/' ? '_' : out[i]);
    return count;
}

/* Writes an HS256 token of this user. */
static void
write_token(char *out, const char *secret, const char *user)
{
    static const char header[] = "{\"alg\":\"HS256\"}";
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned digest_len = 0;
    char claims[USER_TEXT_MAX + 64];
    size_t len = add_base64url(out, header, sizeof(header) - 1);

    snprintf(claims, sizeof(claims), "{\"sub\":\"%s\",\"exp\":%ld}", user,
             (long)time(NULL) + 36000);
    out[len++] = '.';
    len += add_base64url(out + len, claims, strlen(claims));
    if (HMAC(EVP_sha256(), secret, (int)strlen(secret), (const unsigned char *)out, len, digest,
             &digest_len) == NULL)
        fail("could not make a token");
    out[len++] = '.';
    len += add_base64url(out + len, digest, digest_len);
    out[len] = '\0';
}

/* Sends the first frame to the relay: connect with a token. */
static void
send_connect(int fd, const struct options *options, int number)
{
    char user[USER_TEXT_MAX], line[2048];
    char token[1024];

    snprintf(user, sizeof(user), "u%d", number);
    write_token(token, options->secret, user);
    snprintf(line, sizeof(line), "{\"t\":\"connect\",\"r\":1,\"token\":\"%s\"}", token);
    write_frame(fd, line);
}

static void
await_clairon(int fd)
{
    char line[2048];

    read_frame(fd, line, sizeof(line));
    if (strstr(line, "\"connected\"") == NULL)
        fail(line);
}

static void
connect_socketio(int fd)
{
    char line[2048];

    read_frame(fd, line, sizeof(line)); /* 0{"sid":..} */
    write_frame(fd, "40");
    read_frame(fd, line, sizeof(line)); /* 40{"sid":..} */
    if (strncmp(line, "40", 2) != 0)
        fail(line);
}

void
client_open(struct client *client, const struct options *options, int number)
{
    char path[64];

    client->fd = tcp_connect(options->port);
    if (strcmp(options->kind, "nchan") == 0) {
        snprintf(path, sizeof(path), "/sub/%s%d", options->each ? "u" : "all",
                 options->each ? number : 0);
        upgrade(client->fd, path, NULL);
    } else if (strcmp(options->kind, "socketio") == 0) {
        upgrade(client->fd, "/socket.io/?EIO=4&transport=websocket", NULL);
        connect_socketio(client->fd);
    } else if (strcmp(options->kind, "clairon") == 0) {
        upgrade(client->fd, CLAIRON_PATH, CLAIRON_PROTOCOL);
        send_connect(client->fd, options, number);
        await_clairon(client->fd);
    } else {
        upgrade(client->fd, "/", NULL);
    }
}

/* Continues each client that has a reply. Returns the number of newly connected clients. */
static int
connect_step(int epoll, struct client *clients, const struct options *options, int timeout_ms)
{
    struct epoll_event events[64];
    int count = epoll_wait(epoll, events, 64, timeout_ms);
    int connected = 0;

    for (int i = 0; i < count; i++) {
        struct client *client = events[i].data.ptr;

        if (client->sent_connect) {
            await_clairon(client->fd);
            epoll_ctl(epoll, EPOLL_CTL_DEL, client->fd, NULL);
            connected++;
        } else {
            await_upgrade(client->fd);
            send_connect(client->fd, options, (int)(client - clients));
            client->sent_connect = true;
        }
    }
    return connected;
}

void
clients_open_at_once(struct client *clients, const struct options *options)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int connected = 0;

    for (int i = 0; i < options->clients; i++)
        clients[i].fd = tcp_connect(options->port);
    for (int i = 0; i < options->clients; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &clients[i]};

        send_upgrade(clients[i].fd, CLAIRON_PATH, CLAIRON_PROTOCOL);
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, clients[i].fd, &event) != 0)
            fail("epoll_ctl");
        connected += connect_step(epoll, clients, options, 0);
    }
    while (connected < options->clients)
        connected += connect_step(epoll, clients, options, 1000);
    close(epoll);
}

/* "2025-03-05T12:34:56.123456Z" in us since 1970; 0 if the string has another form. */
static int64_t
parse_time(const char *text)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

    if (rest == NULL || *rest != '.')
        return 0;
    return (int64_t)timegm(&tm) * 1000000 + strtol(rest + 1, NULL, 10);
}

static void
sample_age(const unsigned char *payload, size_t len)
{
    static const char NAME[] = "\"timestamp\":\"";
    static unsigned nth;
    const char *at;
    int64_t sent;

    if (nth++ % 16 != 0 || age_count == AGES_MAX)
        return;
    at = memmem(payload, len, NAME, sizeof(NAME) - 1);
    sent = at != NULL ? parse_time(at + sizeof(NAME) - 1) : 0;
    if (sent != 0)
        ages[age_count++] = (uint32_t)(wall_us() - sent);
}

/* True once the header is complete; `skip` is then the length of the payload. */
static bool
parse_header_byte(struct client *client, unsigned char byte)
{
    unsigned need = 2;
    uint64_t len;

    client->header[client->header_len++] = byte;
    if (client->header_len < 2)
        return false;
    len = client->header[1] & 0x7f;
    need += len == 126 ? 2 : len == 127 ? 8 : 0;
    if (client->header_len < need)
        return false;
    if (need > 2) {
        len = 0;
        for (unsigned i = 2; i < need; i++)
            len = len << 8 | client->header[i];
    }
    client->skip = len;
    client->skip_counts = (client->header[0] & 0x0f) < 8 && len >= message_min;
    client->header_len = 0;
    return true;
}

static void
count_frames(struct client *client, const unsigned char *at, const unsigned char *end)
{
    while (at < end) {
        if (client->skip == 0) {
            if (parse_header_byte(client, *at++) && ages != NULL && client->skip_counts)
                sample_age(at,
                           (size_t)(end - at) < SAMPLE_BYTES ? (size_t)(end - at) : SAMPLE_BYTES);
        } else {
            uint64_t len =
                (uint64_t)(end - at) < client->skip ? (uint64_t)(end - at) : client->skip;

            at += len;
            client->skip -= len;
            if (client->skip == 0 && client->skip_counts)
                messages_seen++;
        }
    }
}

int
client_read(struct client *client)
{
    static unsigned char bytes[READ_BYTES + 1];
    ssize_t n = recv(client->fd, bytes, READ_BYTES, MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN))
        return -1;
    if (n > 0) {
        bytes[n] = '\0'; /* parse_time needs the zero byte */
        bytes_seen += (uint64_t)n;
        count_frames(client, bytes, bytes + n);
    }
    return 0;
}
