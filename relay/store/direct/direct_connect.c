/* direct_connect.c: sends a command to a shard's server, and waits for failovers and slot moves. */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "store/connection/reply.h"
#include "store/direct/direct_private.h"

#define DIRECT_TIMEOUT_S 10
#define RETRY_FOR_US 15000000 /* a failover takes several seconds */
#define RETRY_MIN_MS 50
#define RETRY_MAX_MS 1000

struct direct_connection *
direct_connection(struct direct *direct, unsigned shard)
{
    return &direct->connections[topology_connection_of(&direct->locator.topology, shard)];
}

static void
disconnect(struct direct *direct, unsigned shard)
{
    struct direct_connection *connection = direct_connection(direct, shard);

    node_close(connection->node);
    *connection = (struct direct_connection){.node = NULL};
}

/* True if the last request of `node` may succeed later or on another server. */
bool
direct_may_retry(const struct direct *direct, const struct node *node)
{
    return direct->locator.kind != URLS_SINGLE && (node_is_lost(node) || node_is_redirected(node));
}

/* A former primary replies to reads, but its data is outdated. */
static enum rc
check_role(struct direct *direct, struct node *node)
{
    const char *argv[] = {"INFO", "replication"};
    const char *info = reply_text(node_request(node, 2, argv, NULL));

    if (info != NULL && strstr(info, "role:master") != NULL)
        return RC_OK;
    if (info != NULL)
        (void)direct_fail(direct, "the primary became a replica");
    else
        (void)direct_fail(direct, node_error(node));
    return info != NULL || direct_may_retry(direct, node) ? RC_AGAIN : RC_IO;
}

static enum rc
open_node(struct direct *direct, unsigned shard, const struct url *address)
{
    struct direct_connection *connection = direct_connection(direct, shard);
    const bool can_move = direct->locator.kind != URLS_SINGLE;
    enum rc rc =
        node_open(direct->config, address, DIRECT_TIMEOUT_S, &connection->node, direct->error);

    if (rc != RC_OK)
        return rc == RC_IO && can_move ? RC_AGAIN : RC_IO;
    if (can_move)
        rc = check_role(direct, connection->node);
    if (rc == RC_OK && direct->locator.kind == URLS_CLUSTER)
        rc = direct_check_place(direct, shard, connection->node, address->host);
    if (rc != RC_OK)
        disconnect(direct, shard);
    return rc;
}

enum rc
direct_connect(struct direct *direct, unsigned shard)
{
    const unsigned connection = topology_connection_of(&direct->locator.topology, shard);
    struct url address;
    enum rc rc;

    if (direct->connections[connection].node != NULL)
        return RC_OK;
    rc = locator_find(&direct->locator, connection, &address, direct->error);
    if (rc == RC_OK)
        rc = open_node(direct, shard, &address);
    explicit_bzero(&address, sizeof(address));
    return rc;
}

/* True if an earlier missing shard has the same server, which did not reply. */
static bool
shares_lost_server(const struct direct *direct, unsigned shard)
{
    const struct locator *locator = &direct->locator;

    for (unsigned k = 0; k < shard; k++) {
        if (direct->is_missing[k] && !direct->is_scattered[k] && locator->is_known[k] &&
            locator->is_known[shard] &&
            slots_is_same_node(&locator->servers[k], &locator->servers[shard]))
            return true;
    }
    return false;
}

/* Returns RC_AGAIN if shards are still missing. */
static enum rc
connect_missing(struct direct *direct)
{
    enum rc rc = RC_OK;

    for (unsigned k = 0; k < direct->shard_count; k++) {
        if (!direct->is_missing[k])
            continue;
        if (!shares_lost_server(direct, k)) {
            enum rc connected = direct_connect(direct, k);

            if (connected == RC_IO)
                return RC_IO;
            direct->is_missing[k] = connected != RC_OK;
        }
        if (direct->is_missing[k])
            rc = RC_AGAIN;
    }
    return rc;
}

static enum rc
try_command(struct direct *direct, unsigned shard, const struct node_command *command,
            const struct redisReply **ret_reply)
{
    enum rc rc = direct_connect(direct, shard);
    struct node *node = direct_connection(direct, shard)->node;

    if (rc != RC_OK)
        return rc;
    node_send(node, command);
    *ret_reply = node_read(node);
    if (*ret_reply != NULL)
        return RC_OK;
    (void)direct_fail(direct, node_error(node));
    return direct_may_retry(direct, node) ? RC_AGAIN : RC_IO;
}

static void
sleep_ms(long ms)
{
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};

    (void)nanosleep(&pause, NULL);
}

/* Before another attempt: the servers of the shards may have changed. */
static void
pause_attempts(struct direct *direct, long *pause_ms)
{
    locator_invalidate(&direct->locator);
    sleep_ms(*pause_ms);
    *pause_ms = *pause_ms * 2 < RETRY_MAX_MS ? *pause_ms * 2 : RETRY_MAX_MS;
}

enum rc
direct_reach(struct direct *direct, bool waits)
{
    const int64_t end_us = clock_monotonic_us() + (waits ? RETRY_FOR_US : 0);
    long pause_ms = RETRY_MIN_MS;
    enum rc rc;

    while ((rc = connect_missing(direct)) == RC_AGAIN && clock_monotonic_us() < end_us)
        pause_attempts(direct, &pause_ms);
    return rc == RC_IO ? RC_IO : RC_OK;
}

const struct redisReply *
direct_run(struct direct *direct, unsigned shard, const struct node_command *command)
{
    const int64_t end_us = clock_monotonic_us() + RETRY_FOR_US;
    const struct redisReply *reply = NULL;
    long pause_ms = RETRY_MIN_MS;

    trace_free(&direct->trace); /* the trace points into the last reply */
    while (try_command(direct, shard, command, &reply) == RC_AGAIN &&
           clock_monotonic_us() < end_us) {
        disconnect(direct, shard);
        pause_attempts(direct, &pause_ms);
    }
    return reply;
}
