/* publish.c: publishes messages to each type of server. */
#include <errno.h>
#include <hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "decoder/protocol/frame_format.h"
#include "load.h"

#define BODY_MAX (1024 * 1024)
#define ENVELOPE 64 /* {"t":"msg","pos":"..","n":} around the stored JSON */

static redisContext *store;
static int control = -1;
static char body[BODY_MAX];
static unsigned char route[FRAME_NOTIFICATION_HEAD_SIZE + 64];

void
publish_open(const struct options *options)
{
    if (options->store != NULL) {
        store = redisConnectUnix(options->store);
        if (store == NULL || store->err != 0)
            fail("could not connect to the store");
    } else {
        control = tcp_connect(options->control_port);
    }
    memset(body, 'x', sizeof(body));
}

static void
put_u16(unsigned char *at, size_t value)
{
    at[0] = (unsigned char)(value >> 8);
    at[1] = (unsigned char)value;
}

/*
 * Writes the route of a stream entry, in the format of decoder/protocol/frame_format.h: priority
 * NORMAL, one target or none.
 */
static size_t
make_route(const char *user)
{
    static uint64_t number;
    size_t user_len = user != NULL ? strlen(user) : 0;
    const char *audience = user != NULL ? "USER" : "ALL";
    size_t audience_len = strlen(audience);
    unsigned char *at = route + FRAME_NOTIFICATION_HEAD_SIZE;

    memset(route, 0, sizeof(route));
    number++;
    route[FRAME_AT_KIND] = FRAME_KIND_NOTIFICATION;
    route[FRAME_AT_VERSION] = FRAME_VERSION;
    memcpy(route + FRAME_NOTIFICATION_AT_ID, &number, sizeof(number));
    route[FRAME_NOTIFICATION_AT_PRIORITY] = FRAME_PRIORITY_NORMAL;
    put_u16(route + FRAME_NOTIFICATION_AT_AUDIENCE_LEN, audience_len);
    put_u16(route + FRAME_NOTIFICATION_AT_TARGETS_LEN + 2, user != NULL ? user_len + 2 : 0);
    put_u16(route + FRAME_NOTIFICATION_AT_TARGET_COUNT + 2, user != NULL);
    memcpy(at, audience, audience_len);
    at += audience_len;
    if (user != NULL) {
        put_u16(at, user_len);
        memcpy(at + 2, user, user_len);
        at += 2 + user_len;
    }
    return (size_t)(at - route);
}

/* Writes the JSON, `len` bytes, with the current time. */
static size_t
make_data(size_t len)
{
    static const char END[] = "\"}";
    int64_t at_us = wall_us();
    time_t at_s = (time_t)(at_us / 1000000);
    struct tm tm;
    int n;

    gmtime_r(&at_s, &tm);
    n = (int)strftime(body, 64, "{\"timestamp\":\"%Y-%m-%dT%H:%M:%S.", &tm);
    n += snprintf(body + n, 32, "%06dZ\",\"b\":\"", (int)(at_us % 1000000));
    body[n] = 'x';
    if (len < (size_t)n + 2)
        len = (size_t)n + 2;
    memcpy(body + len - 2, END, 2);
    return len;
}

static void
append(const char *user, size_t bytes)
{
    static const char *fixed[] = {"XADD", "clairon:stream", "*", "id"};
    static const char ID[] = "0190f5c8-1111-7000-8000-000000000001";
    size_t route_len = make_route(user);
    size_t data_len = make_data(bytes > ENVELOPE ? bytes - ENVELOPE : 1);
    const char *argv[] = {fixed[0], fixed[1], fixed[2], fixed[3],           ID,
                          "data",   body,     "route",  (const char *)route};
    size_t lens[] = {4, 14, 1, 2, sizeof(ID) - 1, 4, data_len, 5, route_len};

    if (redisAppendCommandArgv(store, 9, argv, lens) != REDIS_OK)
        fail("could not append");
    body[data_len - 2] = body[data_len - 1] = 'x';
}

static void
await_store(int count)
{
    for (int i = 0; i < count; i++) {
        redisReply *reply = NULL;

        if (redisGetReply(store, (void **)&reply) != REDIS_OK || reply->type == REDIS_REPLY_ERROR)
            fail("the store rejected an entry");
        freeReplyObject(reply);
    }
}

/* Limits the length of the stream, as retention does in production. */
static void
trim_store(int added)
{
    static int since;
    redisReply *reply;

    since += added;
    if (since < 20000)
        return;
    since = 0;
    reply = redisCommand(store, "XTRIM clairon:stream MAXLEN ~ 20000");
    if (reply == NULL)
        fail("could not trim");
    freeReplyObject(reply);
}

/* Sends one transaction without waiting for the reply, as the feed does. */
static int
append_burst(const struct options *options)
{
    bool at_once = options->burst > 1 && !options->each;
    int added = 0;

    if (at_once && redisAppendCommand(store, "MULTI") != REDIS_OK)
        fail("could not append");
    for (int i = 0; i < options->burst; i++) {
        for (int number = 0; number < (options->each ? options->clients : 1); number++) {
            char user[USER_TEXT_MAX];

            snprintf(user, sizeof(user), "u%d", number);
            append(options->each ? user : NULL, options->bytes);
            added++;
            if (options->each && added % 256 == 0)
                await_store(256);
        }
    }
    if (at_once && redisAppendCommand(store, "EXEC") != REDIS_OK)
        fail("could not append");
    return at_once ? added + 2 : added % 256;
}

static void
publish_by_store(const struct options *options, int bursts)
{
    int pending = 0;

    for (int i = 0; i < bursts; i++)
        pending += append_burst(options);
    await_store(pending);
    trim_store(bursts * options->burst * (options->each ? options->clients : 1));
}

static void
read_responses(int count)
{
    static char bytes[65536];
    int seen = 0;

    /* Counts closing braces, because each reply ends with its body {"messages": ..}. */
    while (seen < count) {
        ssize_t n = recv(control, bytes, sizeof(bytes), 0);

        if (n <= 0)
            fail("no response to a published message");
        for (ssize_t i = 0; i < n; i++)
            seen += bytes[i] == '}';
    }
}

static void
post(const char *channel, size_t bytes)
{
    char head[256];
    int n = snprintf(head, sizeof(head),
                     "POST /pub/%s HTTP/1.1\r\nHost: b\r\nAccept: text/json\r\n"
                     "Content-Type: text/plain\r\nContent-Length: %zu\r\n\r\n",
                     channel, bytes);
    static char request[BODY_MAX];

    memcpy(request, head, (size_t)n);
    memcpy(request + n, body, bytes);
    write_all(control, request, (size_t)n + bytes);
}

static void
publish_nchan(const struct options *options, int count)
{
    int ahead = options->patient ? 1 : 64;
    int requested = 0;

    for (int i = 0; i < count; i++) {
        for (int number = 0; number < (options->each ? options->clients : 1); number++) {
            char channel[USER_TEXT_MAX];

            snprintf(channel, sizeof(channel), options->each ? "u%d" : "all0", number);
            post(channel, options->bytes);
            if (++requested % ahead == 0)
                read_responses(ahead);
        }
    }
    read_responses(requested % ahead);
}

void
publish(const struct options *options, int bursts)
{
    char line[64];

    if (options->store != NULL) {
        publish_by_store(options, bursts);
        return;
    }
    if (strcmp(options->kind, "nchan") == 0) {
        publish_nchan(options, bursts * options->burst);
        return;
    }
    snprintf(line, sizeof(line), "%s %d %zu\n", options->each ? "each" : "all", options->burst,
             options->bytes);
    for (int i = 0; i < bursts; i++)
        write_all(control, line, strlen(line));
}
