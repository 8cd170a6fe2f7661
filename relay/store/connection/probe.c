/* probe.c: a connection to one server, which runs its own loop until a request is answered. */
#include "store/connection/probe.h"

#include <ev.h>
#include <hiredis/async.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/connection/connect.h"
#include "store/connection/fault.h"
#include "store/connection/reply.h"
#include "store/connection/send_queue.h"

struct probe {
    struct ev_loop *loop;
    struct url address;
    struct connect connect;
    redisAsyncContext *redis; /* its `data` is this probe; NULL: not connected */
    struct send_queue *queue;
    ev_timer timeout;
    double timeout_s;
    bool is_waiting;
    struct redisReply *reply;       /* the last reply */
    char lost[PROBE_ERROR_MAX / 2]; /* why the connection is lost; "": it is not */
    char error[PROBE_ERROR_MAX];
};

const char *
probe_error(const struct probe *probe)
{
    return probe->error;
}

bool
probe_is_redirected(const struct probe *probe)
{
    return reply_is_error(probe->reply) && fault_is_redirection(reply_text(probe->reply));
}

static void
lose(struct probe *probe, const char *reason)
{
    if (probe->lost[0] == '\0')
        snprintf(probe->lost, sizeof(probe->lost), "%s", reason);
    probe->is_waiting = false;
}

static void
on_timeout(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    lose(timer->data, "reply timed out");
}

/* Runs the loop until a callback clears is_waiting. */
static void
wait(struct probe *probe)
{
    probe->is_waiting = probe->lost[0] == '\0';
    ev_timer_set(&probe->timeout, probe->timeout_s, 0.0);
    ev_timer_start(probe->loop, &probe->timeout);
    while (probe->is_waiting)
        ev_run(probe->loop, EVRUN_ONCE);
    ev_timer_stop(probe->loop, &probe->timeout);
}

static void
on_probe_connected(const redisAsyncContext *redis, int status)
{
    struct probe *probe = redis->data;

    if (probe == NULL)
        return;
    if (status == REDIS_OK) {
        probe->is_waiting = false;
        return;
    }
    probe->redis = NULL; /* hiredis frees it after this callback */
    lose(probe, redis->errstr);
}

static void
on_probe_disconnected(const redisAsyncContext *redis, int status)
{
    struct probe *probe = redis->data;

    if (probe == NULL)
        return;
    probe->redis = NULL;
    lose(probe, status == REDIS_OK || redis->errstr == NULL ? "closed" : redis->errstr);
}

static void
on_probe_started(void *ctx, redisAsyncContext *redis, const char *reason)
{
    struct probe *probe = ctx;

    if (redis == NULL) {
        lose(probe, reason);
        return;
    }
    probe->redis = redis;
    redis->data = probe;
    send_queue_use(probe->queue, redis);
    redisAsyncSetConnectCallback(redis, on_probe_connected);
    redisAsyncSetDisconnectCallback(redis, on_probe_disconnected);
}

/* SUBSCRIBE has further replies, which are ignored. */
static void
on_probe_reply(redisAsyncContext *redis, void *reply, void *ctx)
{
    struct probe *probe = redis->data;

    (void)ctx;
    if (probe == NULL || !probe->is_waiting || reply == NULL)
        return; /* of a lost connection on_probe_disconnected reports the reason */
    probe->reply = reply_keep(reply);
    probe->is_waiting = false;
}

const struct redisReply *
probe_request(struct probe *probe, int argc, const char **argv)
{
    free(probe->reply);
    probe->reply = NULL;
    if (probe->lost[0] == '\0' &&
        send_queue_send(probe->queue, on_probe_reply, NULL, argc, argv, NULL) != RC_OK)
        lose(probe, "could not send a command");
    wait(probe);
    if (probe->reply == NULL)
        snprintf(probe->error, sizeof(probe->error), "the store does not reply: %s", probe->lost);
    else if (reply_is_error(probe->reply))
        snprintf(probe->error, sizeof(probe->error), "the store rejected the command: %s",
                 reply_text(probe->reply));
    else
        return probe->reply;
    return NULL;
}

/* Returns false if the server does not accept the connection. */
static bool
start(struct probe *probe)
{
    const struct url *address = &probe->address;
    const char *auth[3] = {"AUTH", address->user, address->password};
    const bool has_user = address->user[0] != '\0';
    char where[URL_FORMAT_MAX], database[16];
    const char *select[2] = {"SELECT", database};

    connect_start(&probe->connect);
    wait(probe);
    if (probe->lost[0] != '\0') {
        url_format(address, where);
        snprintf(probe->error, sizeof(probe->error), "could not connect to the store (%.200s): %s",
                 where, probe->lost);
        return false;
    }
    if (!has_user)
        auth[1] = address->password;
    if (address->password[0] != '\0' && probe_request(probe, has_user ? 3 : 2, auth) == NULL)
        return false;
    snprintf(database, sizeof(database), "%d", address->database);
    return address->database == PROBE_NO_DATABASE || probe_request(probe, 2, select) != NULL;
}

struct probe *
probe_open(const struct config *config, const struct url *address, double timeout_s,
           char error[PROBE_ERROR_MAX])
{
    struct probe *probe = memory_new(sizeof(*probe));

    probe->address = *address;
    probe->timeout_s = timeout_s;
    probe->loop = ev_loop_new(EVFLAG_AUTO);
    if (probe->loop == NULL)
        abort(); /* out of memory or descriptors */
    probe->connect = (struct connect){.loop = probe->loop,
                                      .config = config,
                                      .address = &probe->address,
                                      .done = on_probe_started,
                                      .ctx = probe};
    probe->queue = send_queue_new(probe->loop);
    ev_timer_init(&probe->timeout, on_timeout, 0.0, 0.0);
    probe->timeout.data = probe;
    if (start(probe))
        return probe;
    snprintf(error, PROBE_ERROR_MAX, "%s", probe->error);
    probe_close(probe);
    return NULL;
}

void
probe_close(struct probe *probe)
{
    if (probe == NULL)
        return;
    connect_stop(&probe->connect);
    if (probe->redis != NULL) {
        probe->redis->data = NULL;
        redisAsyncFree(probe->redis);
    }
    send_queue_end(probe->queue);
    send_queue_free(probe->queue);
    ev_loop_destroy(probe->loop);
    free(probe->reply);
    explicit_bzero(&probe->address, sizeof(probe->address));
    free(probe);
}
