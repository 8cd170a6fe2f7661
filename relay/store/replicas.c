/* replicas.c: waits until replicas have what the store answered for. */
#include "store/replicas.h"

#include <ev.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/call.h"

#define ASK_AGAIN_S 0.1
#define WARN_AFTER_US 5000000
#define WARN_EVERY_US 60000000

/*
 * WAIT would do the same, but it holds up all that comes after it on its connection, and a client
 * that blocks with a time-out is what KeyDB 6.3.4 does not survive. Replicas tell their offset each
 * second without being asked.
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
finish(struct store *store, enum rc rc)
{
    struct replicas_wait *wait = &store->replicas;
    store_replicated *done = wait->done;

    wait->done = NULL;
    ev_timer_stop(store->loop, &wait->again);
    if (done != NULL)
        done(wait->ctx, rc);
}

static void
warn(struct store *store, int count)
{
    struct replicas_wait *wait = &store->replicas;
    int64_t now_us = clock_monotonic_us();

    if (now_us - wait->since_us < WARN_AFTER_US || now_us - wait->warned_us < WARN_EVERY_US)
        return;
    wait->warned_us = now_us;
    log_warn("store",
             "%d of [store] min_replicas = %d replicas have what is stored: until then nothing is "
             "confirmed, and PostgreSQL keeps its WAL",
             count, store->min_replicas);
}

static void
on_info(void *ctx, const redisReply *reply)
{
    struct store *store = ctx;
    struct replicas_wait *wait = &store->replicas;
    int count;

    if (wait->done == NULL)
        return;
    if (reply == NULL || reply->str == NULL ||
        !call_succeeded(store, reply, "ask for its replicas")) {
        finish(store, RC_IO);
        return;
    }
    if (wait->offset == REPLICAS_OFFSET_NONE)
        wait->offset = replicas_end(reply->str);
    count = replicas_beyond(reply->str, wait->offset);
    if (wait->offset != REPLICAS_OFFSET_NONE && count >= store->min_replicas) {
        wait->warned_us = -WARN_EVERY_US;
        finish(store, RC_OK);
        return;
    }
    warn(store, count);
    ev_timer_set(&wait->again, ASK_AGAIN_S, 0.0);
    ev_timer_start(store->loop, &wait->again);
}

static enum rc
ask(struct store *store)
{
    const char *argv[] = {"INFO", "replication"};
    const size_t lens[] = {4, 11};

    return link_send(store->link, on_info, store, 2, argv, lens);
}

static void
on_again(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct store *store = timer->data;

    (void)loop;
    (void)events;
    if (ask(store) != RC_OK)
        finish(store, RC_IO);
}

void
replicas_open(struct store *store)
{
    ev_timer_init(&store->replicas.again, on_again, 0.0, 0.0);
    store->replicas.again.data = store;
    store->replicas.warned_us = -WARN_EVERY_US;
}

void
replicas_down(struct store *store)
{
    finish(store, RC_IO);
}

enum rc
store_replicate(struct store *store, store_replicated *done, void *ctx)
{
    struct replicas_wait *wait = &store->replicas;

    if (wait->done != NULL || !store->is_up || ask(store) != RC_OK)
        return RC_AGAIN;
    wait->done = done;
    wait->ctx = ctx;
    wait->offset = REPLICAS_OFFSET_NONE;
    wait->since_us = clock_monotonic_us();
    return RC_OK;
}
