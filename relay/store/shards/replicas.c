/* replicas.c: waits until enough replicas have received the stored notifications. */
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"

#include <ev.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/store.h"
#include "store/timeouts.h"

/* A wait for the replicas of one server. */
struct replicas_waiter {
    struct replicas_waiter *prev;
    struct replicas_waiter *next;
    store_replicated *done;
    void *ctx;
    int64_t since_us;
    int64_t end_us;
    long long offset; /* replication offset that the replicas must reach */
    bool is_queried;  /* a query was sent after the wait began */
};

/*
 * WAIT would block the later commands of its connection, and KeyDB 6.3.4 crashes on a client that
 * disconnects while it blocks with a timeout. So the offsets are read from INFO: replicas report
 * them every second.
 */
long long
replicas_end(const char *info)
{
    const char *at = strstr(info, "\nmaster_repl_offset:");

    return at != NULL ? strtoll(strchr(at, ':') + 1, NULL, 10) : REPLICAS_OFFSET_NONE;
}

/* slave0:ip=127.0.0.1,port=6380,state=online,offset=1234,lag=0 */
int
replicas_beyond(const char *info, long long offset)
{
    int count = 0;

    for (const char *line = strstr(info, "\nslave"); line != NULL;
         line = strstr(line + 1, "\nslave")) {
        size_t len = strcspn(line + 1, "\r\n") + 1;
        const char *at = strstr(line, ",offset=");
        const char *online = strstr(line, ",state=online");

        if (at == NULL || online == NULL || at > line + len || online > line + len)
            continue;
        if (strtoll(at + strlen(",offset="), NULL, 10) >= offset)
            count++;
    }
    return count;
}

int
store_min_replicas(const struct store *store)
{
    return store->min_replicas;
}

static void
end_waiter(struct shard *shard, struct replicas_waiter *waiter, enum rc rc)
{
    DL_DELETE(shard->replicas.waiters, waiter);
    waiter->done(waiter->ctx, rc);
    free(waiter);
}

static void
end_all(struct shard *shard, enum rc rc)
{
    while (shard->replicas.waiters != NULL)
        end_waiter(shard, shard->replicas.waiters, rc);
}

/* The primary's offset in the first reply to a query that follows the wait's begin is the goal. */
static void
set_goals(struct shard *shard, const char *info)
{
    struct replicas_waiter *waiter;

    DL_FOREACH (shard->replicas.waiters, waiter)
        if (waiter->is_queried && waiter->offset == REPLICAS_OFFSET_NONE)
            waiter->offset = replicas_end(info);
}

/* Ends the first wait that is over. Its callback may begin or cancel others. */
static bool
end_next(struct shard *shard, const char *info, int64_t now_us)
{
    struct replicas_waiter *waiter;

    DL_FOREACH (shard->replicas.waiters, waiter) {
        bool is_reached = waiter->offset != REPLICAS_OFFSET_NONE &&
                          replicas_beyond(info, waiter->offset) >= shard->store->min_replicas;

        if (is_reached || now_us >= waiter->end_us) {
            end_waiter(shard, waiter, is_reached ? RC_OK : RC_AGAIN);
            return true;
        }
    }
    return false;
}

static void
warn(struct shard *shard, const char *info)
{
    struct replicas_wait *wait = &shard->replicas;
    int64_t now_us = clock_monotonic_us();
    unsigned suppressed;

    if (now_us - wait->waiters->since_us < REPLICAS_WARN_AFTER_US ||
        !throttle_allows(&wait->warning, now_us, &suppressed))
        return;
    log_warn(shard->name, "too few replicas in sync: notifications are not confirmed",
             LOG_INT("replicas", replicas_beyond(info, wait->waiters->offset)),
             LOG_INT("min_replicas", shard->store->min_replicas),
             LOG_UINT("suppressed", suppressed));
}

static void
on_info(void *ctx, const struct redisReply *reply)
{
    struct shard *shard = ctx;
    struct replicas_wait *wait = &shard->replicas;
    int64_t now_us;

    wait->is_queried = false;
    if (wait->waiters == NULL)
        return;
    if (!shard_check_reply(shard, reply, "could not query the replicas") ||
        reply_text(reply) == NULL) {
        end_all(shard, RC_IO);
        return;
    }
    now_us = clock_monotonic_us();
    set_goals(shard, reply_text(reply));
    while (end_next(shard, reply_text(reply), now_us))
        continue;
    if (wait->waiters == NULL || wait->is_queried)
        return; /* a callback began a wait, which has sent the next query */
    warn(shard, reply_text(reply));
    ev_timer_set(&wait->again, REPLICAS_POLL_S, 0.0);
    ev_timer_start(shard->store->loop, &wait->again);
}

static enum rc
send_query(struct shard *shard)
{
    const char *argv[] = {"INFO", "replication"};
    struct replicas_waiter *waiter;

    if (link_send(shard->link, on_info, shard, 2, argv, NULL) != RC_OK)
        return RC_AGAIN;
    shard->replicas.is_queried = true;
    DL_FOREACH (shard->replicas.waiters, waiter)
        waiter->is_queried = true;
    return RC_OK;
}

static void
on_again(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct shard *shard = timer->data;

    (void)loop;
    (void)events;
    if (send_query(shard) != RC_OK)
        end_all(shard, RC_IO);
}

void
replicas_open(struct shard *shard)
{
    ev_timer_init(&shard->replicas.again, on_again, 0.0, 0.0);
    shard->replicas.again.data = shard;
}

void
replicas_close(struct shard *shard)
{
    end_all(shard, RC_IO);
    ev_timer_stop(shard->store->loop, &shard->replicas.again);
}

/*
 * The shard whose connection is used for the queries about a shard's server: in a cluster the first
 * shard on the same node, whose replication offset covers all of its shards.
 */
static struct shard *
first_on_server(struct store *store, unsigned number)
{
    struct shard *shard = &store->shards[topology_connection_of(&store->topology, number)];

    for (struct shard *other = store->shards; other < shard; other++)
        if (shard->is_up && other->is_up && shard->place.node[0] != '\0' &&
            strcmp(other->place.node, shard->place.node) == 0)
            return other;
    return shard;
}

/* While others wait, the next query is sent at the end of the interval. */
static enum rc
begin(struct shard *shard, int64_t end_us, store_replicated *done, void *ctx)
{
    const bool is_idle = !shard->replicas.is_queried && !ev_is_active(&shard->replicas.again);
    struct replicas_waiter *waiter;

    if (is_idle && send_query(shard) != RC_OK)
        return RC_AGAIN;
    waiter = memory_new(sizeof(*waiter));
    *waiter = (struct replicas_waiter){.done = done,
                                       .ctx = ctx,
                                       .since_us = clock_monotonic_us(),
                                       .end_us = end_us,
                                       .offset = REPLICAS_OFFSET_NONE,
                                       .is_queried = is_idle};
    DL_APPEND(shard->replicas.waiters, waiter);
    return RC_OK;
}

void
store_await_replicas(struct store *store, unsigned shard, int64_t timeout_us,
                     store_replicated *done, void *ctx)
{
    if (store->min_replicas == 0)
        done(ctx, RC_OK);
    else if (begin(first_on_server(store, shard), clock_monotonic_us() + timeout_us, done, ctx) !=
             RC_OK)
        done(ctx, RC_IO);
}

static void on_server_replicated(void *ctx, enum rc rc);

static void
cancel_all(struct store *store)
{
    struct replicas_waiter *waiter, *next;

    for (unsigned k = 0; k < store->shard_count; k++) {
        DL_FOREACH_SAFE (store->shards[k].replicas.waiters, waiter, next) {
            if (waiter->done != on_server_replicated)
                continue;
            DL_DELETE(store->shards[k].replicas.waiters, waiter);
            free(waiter);
        }
    }
}

/* RC_OK once all servers have enough replicas; the first failure ends the wait. */
static void
on_server_replicated(void *ctx, enum rc rc)
{
    struct store *store = ctx;
    store_replicated *done = store->replicated;

    if (rc == RC_OK && --store->replicating > 0)
        return;
    cancel_all(store);
    store->replicated = NULL;
    done(store->replicated_ctx, rc);
}

void
replicas_down(struct store *store)
{
    if (store->replicated != NULL)
        on_server_replicated(store, RC_IO);
}

enum rc
store_replicate(struct store *store, store_replicated *done, void *ctx)
{
    unsigned servers = 0;

    if (store->replicated != NULL || !store->is_up)
        return RC_AGAIN;
    for (unsigned c = 0; c < store->topology.connections; c++) {
        struct shard *shard = &store->shards[c];

        if (first_on_server(store, c) != shard)
            continue;
        if (begin(shard, INT64_MAX, on_server_replicated, store) != RC_OK) {
            cancel_all(store);
            return RC_AGAIN;
        }
        servers++;
    }
    store->replicating = servers;
    store->replicated = done;
    store->replicated_ctx = ctx;
    return RC_OK;
}
