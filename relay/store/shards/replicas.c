/* replicas.c: waits until enough replicas have received the stored notifications. */
#include "store/shards/replicas.h"

#include <ev.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/connection/reply.h"
#include "store/shards/shard_request.h"
#include "store/shards/store_private.h"

#define POLL_INTERVAL_S 0.1
#define WARN_AFTER_US 5000000
#define WARN_EVERY_US 60000000

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

/* RC_OK once all servers have enough replicas; the first failure ends the wait. */
static void
finish_replicated(struct store *store, enum rc rc)
{
    store_replicated *done = store->replicated;

    store->replicated = NULL;
    for (unsigned k = 0; k < store->shard_count; k++)
        replicas_close(&store->shards[k]);
    if (done != NULL)
        done(store->replicated_ctx, rc);
}

static void
finish_one(struct shard *shard)
{
    struct store *store = shard->store;

    replicas_close(shard);
    for (unsigned k = 0; k < store->shard_count; k++) {
        if (store->shards[k].replicas.is_waiting)
            return;
    }
    finish_replicated(store, RC_OK);
}

static void
warn(struct shard *shard, int count)
{
    struct replicas_wait *wait = &shard->replicas;
    int64_t now_us = clock_monotonic_us();

    if (now_us - wait->since_us < WARN_AFTER_US || now_us - wait->warned_us < WARN_EVERY_US)
        return;
    wait->warned_us = now_us;
    log_warn(shard->name, "too few replicas in sync: WAL is not confirmed to PostgreSQL",
             LOG_INT("replicas", count), LOG_INT("min_replicas", shard->store->min_replicas));
}

static void
on_info(void *ctx, const struct redisReply *reply)
{
    struct shard *shard = ctx;
    struct replicas_wait *wait = &shard->replicas;
    int count;

    wait->replies_left--;
    if (!wait->is_waiting || wait->replies_left > 0)
        return;
    if (reply == NULL || reply_text(reply) == NULL ||
        !shard_check_reply(shard, reply, "could not query the replicas")) {
        finish_replicated(shard->store, RC_IO);
        return;
    }
    if (wait->offset == REPLICAS_OFFSET_NONE)
        wait->offset = replicas_end(reply_text(reply));
    count = replicas_beyond(reply_text(reply), wait->offset);
    if (wait->offset != REPLICAS_OFFSET_NONE && count >= shard->store->min_replicas) {
        wait->warned_us = -WARN_EVERY_US;
        finish_one(shard);
        return;
    }
    warn(shard, count);
    ev_timer_set(&wait->again, POLL_INTERVAL_S, 0.0);
    ev_timer_start(shard->store->loop, &wait->again);
}

static enum rc
send_info(struct shard *shard)
{
    const char *argv[] = {"INFO", "replication"};

    enum rc rc = link_send(shard->link, on_info, shard, 2, argv, NULL);

    shard->replicas.replies_left += rc == RC_OK;
    return rc;
}

static void
on_again(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct shard *shard = timer->data;

    (void)loop;
    (void)events;
    if (send_info(shard) != RC_OK)
        finish_replicated(shard->store, RC_IO);
}

void
replicas_open(struct shard *shard)
{
    ev_timer_init(&shard->replicas.again, on_again, 0.0, 0.0);
    shard->replicas.again.data = shard;
    shard->replicas.warned_us = -WARN_EVERY_US;
}

void
replicas_close(struct shard *shard)
{
    shard->replicas.is_waiting = false;
    ev_timer_stop(shard->store->loop, &shard->replicas.again);
}

void
replicas_down(struct store *store)
{
    finish_replicated(store, RC_IO);
}

/* One link per server is enough: its replication offset covers all of its shards. */
static bool
begin(struct shard *shard)
{
    struct replicas_wait *wait = &shard->replicas;

    if (send_info(shard) != RC_OK)
        return false;
    wait->is_waiting = true;
    wait->offset = REPLICAS_OFFSET_NONE;
    wait->since_us = clock_monotonic_us();
    return true;
}

enum rc
store_replicate(struct store *store, store_replicated *done, void *ctx)
{
    if (store->replicated != NULL || !store->is_up)
        return RC_AGAIN;
    for (unsigned s = 0; s < store->topology.connections; s++) {
        if (!begin(&store->shards[topology_first_shard(&store->topology, s)])) {
            finish_replicated(store, RC_IO); /* no callback is set yet */
            return RC_AGAIN;
        }
    }
    store->replicated = done;
    store->replicated_ctx = ctx;
    return RC_OK;
}
