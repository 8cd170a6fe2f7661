/* link_failure.c: ends a broken connection of a link, and schedules the next attempt. */
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/connection/fault.h"
#include "store/connection/send_queue.h"
#include "store/servers/link_private.h"

#define LASTING_S 5 /* longer than most moves and failovers */

bool
link_is_redirected(const struct link *link, const char *error)
{
    return servers_can_move(link->servers) && fault_is_redirection(error);
}

static void
log_redirection(const struct link *link, const char *reason, const char *where)
{
    const int64_t waited_s = (clock_monotonic_us() - link->usable_us) / 1000000;

    if (waited_s < LASTING_S)
        log_info(link->name, "shard is moving to another server: waiting",
                 LOG_TEXT("reason", reason), LOG_TEXT("server", where));
    else
        log_warn(link->name, "shard is unavailable: waiting", LOG_TEXT("reason", reason),
                 LOG_TEXT("hint", "check the nodes: clairon doctor"), LOG_TEXT("server", where),
                 LOG_INT("waited_s", waited_s));
}

/* A failover breaks many connections, and each is retried: log one message per server. */
static void
log_failure(struct link *link, const char *reason, int64_t delay_ms)
{
    char where[URL_FORMAT_MAX];

    url_format(&link->address, where);
    if (!servers_is_new_failure(link->servers, &link->address))
        log_debug(link->name, "store connection failed", LOG_TEXT("error", reason),
                  LOG_TEXT("server", where), LOG_INT("retry_ms", delay_ms));
    else if (link_is_redirected(link, reason))
        log_redirection(link, reason, where);
    else
        log_warn(link->name, "store connection failed", LOG_TEXT("error", reason),
                 LOG_TEXT("hint", fault_hint(reason)), LOG_TEXT("server", where),
                 LOG_INT("retry_ms", delay_ms));
}

static void
report_failure(const struct link *link, const char *reason)
{
    char server[URL_FORMAT_MAX];

    if (link->events.on_failed == NULL)
        return;
    url_format(&link->address, server);
    link->events.on_failed(link->events.ctx, link->is_usable ? NULL : server, reason);
}

double
link_silent_s(const struct link *link)
{
    return (double)(clock_monotonic_us() - link->received_us) / 1e6;
}

void
link_fail(struct link *link, const char *reason)
{
    redisAsyncContext *redis = link->redis;
    bool was_up = link->state == LINK_UP;
    char kept[LINK_REASON_MAX];
    int64_t delay_ms;

    if (link->state == LINK_DOWN)
        return;
    link->was_silent_s =
        link_silent_s(link); /* the callbacks of pending requests would change it */
    snprintf(kept, sizeof(kept), "%s",
             reason != NULL ? reason : ""); /* `reason` may point into the context */
    if (link->is_usable)
        link->usable_us = clock_monotonic_us();
    else
        link->connect.failures++; /* a replica, which rejects writes, also counts as a failure */
    link->state = LINK_DOWN;
    link->is_busy = false;
    link->redis = NULL;
    connect_stop(&link->connect);
    if (reason != NULL && !link->closing)
        report_failure(link, kept);
    if (redis != NULL) {
        redis->data = NULL;
        redisAsyncFree(redis);
    }
    send_queue_end(link->queue);
    if (link->closing)
        return;
    delay_ms = backoff_next_ms(&link->backoff);
    if (reason != NULL) {
        log_failure(link, kept, delay_ms);
        servers_recheck(link->servers, &link->user);
    }
    ev_timer_stop(link->loop, &link->retry);
    ev_timer_set(&link->retry, (double)delay_ms / 1000.0, 0.0);
    ev_timer_start(link->loop, &link->retry);
    if (was_up)
        link->events.on_down(link->events.ctx, kept);
}
