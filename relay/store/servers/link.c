/* link.c: one connection to the store: connects, supervises, reconnects. */
#include "store/servers/link.h"

#include <ev.h>
#include <hiredis/async.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/connection/fault.h"
#include "store/connection/reply.h"
#include "store/connection/send_queue.h"
#include "store/servers/link_private.h"
#include "store/servers/topology.h"

#define LINK_BACKOFF_BASE_MS 100
#define LINK_BACKOFF_CAP_MS 5000
#define LINK_MOVE_CAP_MS 1000 /* upper bound of the backoff if failovers are automatic */
#define LINK_WATCHDOG_S 1.0
/* after this time without a reply, checks whether the shard has moved */
#define LINK_SLOW_S 1.0
#define LINK_SEARCH_S 3.0      /* longer than the store's heartbeat interval */
#define LINK_PAUSED_US 5000000 /* the process did not run, so it missed heartbeats */

bool
link_is_up(const struct link *link)
{
    return link->state == LINK_UP;
}

bool
link_is_busy(const struct link *link)
{
    return link->is_busy;
}

double
link_was_silent_s(const struct link *link)
{
    return link->was_silent_s;
}

void
link_set_usable(struct link *link)
{
    backoff_reset(&link->backoff);
    link->is_usable = true;
    servers_confirm(link->servers, &link->user);
}

void
link_restart(struct link *link, const char *reason)
{
    if (link != NULL)
        link_fail(link, reason);
}

static void
on_connected(const redisAsyncContext *redis, int status)
{
    struct link *link = redis->data;

    if (link == NULL)
        return;
    if (status != REDIS_OK) {
        link->redis = NULL; /* hiredis frees it after this callback */
        link_fail(link, redis->errstr);
        return;
    }
    link->state = LINK_HANDSHAKE;
    link_begin_handshake(link);
}

static void
on_disconnected(const redisAsyncContext *redis, int status)
{
    struct link *link = redis->data;

    if (link == NULL)
        return; /* link_fail closed the connection */
    link->redis = NULL;
    link_fail(link, status == REDIS_OK || redis->errstr == NULL ? "closed" : redis->errstr);
}

static void
on_connection_started(void *ctx, redisAsyncContext *redis, const char *reason)
{
    struct link *link = ctx;

    if (redis == NULL) {
        link_fail(link, reason);
        return;
    }
    link->redis = redis;
    redis->data = link;
    reply_arena_use(link->arena, redis->c.reader, &link->pending);
    send_queue_use(link->queue, redis);
    redisAsyncSetConnectCallback(redis, on_connected);
    redisAsyncSetDisconnectCallback(redis, on_disconnected);
}

static void
link_connect(struct link *link)
{
    if (servers_find(link->servers, link->user.shard, &link->address) != RC_OK)
        return; /* on_found is called later */
    link->state = LINK_CONNECTING;
    link->is_usable = false;
    link->received_us = clock_monotonic_us();
    connect_start(&link->connect);
}

static bool
is_waiting(const struct link *link)
{
    return link->pending > 0 || link->state == LINK_CONNECTING;
}

/* The servers have replied. A working connection is kept unless the result is final. */
static void
on_found(void *ctx, bool is_final)
{
    struct link *link = ctx;
    bool works = link->state == LINK_UP && !link->user.searches &&
                 (!is_waiting(link) || link_silent_s(link) < LINK_SLOW_S);
    struct url address;
    char where[URL_FORMAT_MAX], reason[LINK_REASON_MAX];
    bool has_moved =
        servers_find(link->servers, link->user.shard, &address) == RC_OK &&
        (address.port != link->address.port || strcmp(address.host, link->address.host) != 0);

    if (!has_moved || (works && !is_final))
        return; /* the backoff timer starts another attempt */
    backoff_reset(&link->backoff);
    url_format(&address, where);
    snprintf(reason, sizeof(reason), "MOVED to %.200s", where);
    link_fail(link, reason);
    ev_timer_stop(link->loop, &link->retry);
    link_connect(link);
}

static void
on_retry(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct link *link = timer->data;

    (void)loop;
    (void)events;
    if (link->state == LINK_DOWN)
        link_connect(link);
    else if (link->state == LINK_HANDSHAKE)
        link_begin_handshake(link);
}

static void
on_ping(void *ctx, const struct redisReply *reply)
{
    (void)ctx;
    (void)reply; /* on_redis_reply has updated received_us */
}

/* A reply is overdue: the peer may be unreachable, and its replica may soon become the primary. */
static void
check_overdue(struct link *link)
{
    const struct link_events *events = &link->events;
    const bool is_ignored = events->ignores_timeout != NULL && events->ignores_timeout(events->ctx);

    if (is_ignored)
        link->received_us = clock_monotonic_us(); /* the wait begins when replies are expected */
    else if (link_silent_s(link) > link->timeout_s)
        link_fail(link, "reply timed out");
    else
        servers_recheck(link->servers, &link->user);
}

/* Meanwhile a shard may have moved, and its move may have been repaired only in part. */
static bool
was_paused(struct link *link)
{
    const int64_t now_us = clock_monotonic_us(), since_us = link->watchdog_us;

    link->watchdog_us = now_us;
    return servers_can_move(link->servers) && now_us - since_us > LINK_PAUSED_US;
}

static void
on_watchdog(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct link *link = timer->data;
    const bool is_outdated = was_paused(link);

    (void)loop;
    (void)events;
    if (link->state == LINK_DOWN)
        return;
    if (is_outdated) {
        link_fail(link, "the relay was paused");
        return;
    }
    if (is_waiting(link) && link_silent_s(link) > LINK_SEARCH_S) {
        check_overdue(link);
        return;
    }
    if (link->is_usable)
        servers_confirm(link->servers, &link->user);
    if (link->pending == 0 && link->state == LINK_UP)
        link_send_setup(link, on_ping, 1, "PING", NULL, NULL);
}

static void
write_none_key(struct link *link, const struct config *config)
{
    const struct topology topology = topology_of(config);
    char prefix[STORE_PREFIX_MAX];

    topology_shard_prefix(&topology, config->store.prefix, link->user.shard, prefix);
    key_write(link->none_key, prefix, KEY_NONE);
}

struct link *
link_open(struct ev_loop *loop, const struct config *config, const struct link_target *target,
          double timeout_s, const struct link_events *events)
{
    struct link *link = memory_new(sizeof(*link));
    bool can_move = servers_can_move(target->servers);

    link->loop = loop;
    link->name = target->name;
    link->events = *events;
    link->timeout_s = timeout_s;
    link->backoff = (struct backoff){LINK_BACKOFF_BASE_MS,
                                     can_move ? LINK_MOVE_CAP_MS : LINK_BACKOFF_CAP_MS, 0};
    link->servers = target->servers;
    link->user = (struct servers_user){.shard = target->shard, .on_found = on_found, .ctx = link};
    write_none_key(link, config);
    link->connect = (struct connect){.loop = loop,
                                     .config = config,
                                     .address = &link->address,
                                     .done = on_connection_started,
                                     .ctx = link};
    link->arena = reply_arena_new();
    link->queue = send_queue_new(loop);
    ev_timer_init(&link->retry, on_retry, 0.0, 0.0);
    link->retry.data = link;
    ev_timer_init(&link->watchdog, on_watchdog, LINK_WATCHDOG_S, LINK_WATCHDOG_S);
    link->watchdog.data = link;
    link->watchdog_us = link->usable_us = clock_monotonic_us();
    ev_timer_start(loop, &link->watchdog);
    servers_join(link->servers, &link->user);
    /* Connects from the loop: no callback runs before link_open returns. */
    ev_timer_start(loop, &link->retry);
    return link;
}

void
link_close(struct link *link)
{
    if (link == NULL)
        return;
    link->closing = true;
    link_fail(link, "closing");
    servers_leave(link->servers, &link->user);
    ev_timer_stop(link->loop, &link->retry);
    ev_timer_stop(link->loop, &link->watchdog);
    explicit_bzero(&link->address, sizeof(link->address));
    send_queue_free(link->queue);
    reply_arena_free(link->arena);
    free(link);
}
