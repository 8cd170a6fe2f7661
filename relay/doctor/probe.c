/* probe.c: a connection to the store that runs its own loop until a request is answered. */
#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "doctor/doctor_private.h"
#include "store/connection/connect.h"
#include "store/connection/reply.h"
#include "store/connection/send_queue.h"

struct probe {
    struct ev_loop *loop;
    struct url address;
    struct connect connect;
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
lose_probe(void *ctx, const char *reason)
{
    struct probe *probe = ctx;

    if (probe->lost[0] == '\0')
        snprintf(probe->lost, sizeof(probe->lost), "%s", reason);
    probe->is_waiting = false;
}

static void
on_probe_timeout(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    lose_probe(timer->data, PROBE_TIMED_OUT);
}

/* Runs the loop until a callback clears is_waiting. */
static void
await_probe(struct probe *probe)
{
    probe->is_waiting = probe->lost[0] == '\0';
    ev_timer_set(&probe->timeout, probe->timeout_s, 0.0);
    ev_timer_start(probe->loop, &probe->timeout);
    while (probe->is_waiting)
        ev_run(probe->loop, EVRUN_ONCE);
    ev_timer_stop(probe->loop, &probe->timeout);
}

static void
on_probe_connected(void *ctx)
{
    struct probe *probe = ctx;

    probe->is_waiting = false;
}

/* SUBSCRIBE has further replies, which are ignored. */
static void
on_probe_reply(redisAsyncContext *redis, void *reply, void *ctx)
{
    struct probe *probe = ctx;

    if (redis->data == NULL || !probe->is_waiting || reply == NULL)
        return; /* of a lost connection on_disconnected reports the reason */
    probe->reply = reply_keep(reply);
    probe->is_waiting = false;
}

const struct redisReply *
probe_request(struct probe *probe, int argc, const char **argv)
{
    free(probe->reply);
    probe->reply = NULL;
    if (probe->lost[0] == '\0' &&
        send_queue_send(probe->connect.queue, on_probe_reply, probe, argc, argv, NULL) != RC_OK)
        lose_probe(probe, "could not send a command");
    await_probe(probe);
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
open_probe(struct probe *probe)
{
    const struct url *address = &probe->address;
    const char *auth[3] = {"AUTH", address->user, address->password};
    const bool has_user = address->user[0] != '\0';
    char where[URL_FORMAT_MAX], database[16];
    const char *select[2] = {"SELECT", database};

    connect_start(&probe->connect);
    await_probe(probe);
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
                                      .queue = send_queue_new(probe->loop),
                                      .on_up = on_probe_connected,
                                      .on_down = lose_probe,
                                      .ctx = probe};
    ev_timer_init(&probe->timeout, on_probe_timeout, 0.0, 0.0);
    probe->timeout.data = probe;
    if (open_probe(probe))
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
    send_queue_free(probe->connect.queue);
    ev_loop_destroy(probe->loop);
    free(probe->reply);
    explicit_bzero(&probe->address, sizeof(probe->address));
    free(probe);
}
