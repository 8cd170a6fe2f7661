/* slot_counts.c: counts the keys of slots on the nodes of a cluster. */
#include "store/servers/slot_counts.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/memory.h"
#include "store/connection/query.h"
#include "store/connection/reply.h"

#define COUNT_TIMEOUT_S 1.0
#define COUNT_IDLE_S 1.0 /* then the connection is closed */

struct slot_count {
    struct slot_count *prev, *next;
    char slot[8];
    slot_counted *done; /* NULL: stopped */
    void *ctx;
    bool is_late; /* started after its connection: repeated once if the connection fails */
};

struct counting_node {
    struct counting_node *prev, *next;
    struct slot_counts *counts;
    struct url address;
    struct query *query;
    bool has_replied; /* further counts are sent immediately, otherwise after the first reply */
    struct slot_count *waiting; /* in the order of the replies */
    ev_timer idle;              /* runs while no count waits */
};

struct slot_counts {
    struct ev_loop *loop;
    const struct config *config;
    struct counting_node *nodes;
};

static void on_reply(void *ctx, const struct redisReply *reply, const char *error);

static void
free_node(struct counting_node *node)
{
    struct slot_count *count, *next;

    ev_timer_stop(node->counts->loop, &node->idle);
    query_stop(node->query);
    DL_FOREACH_SAFE (node->waiting, count, next)
        free(count);
    explicit_bzero(&node->address, sizeof(node->address));
    free(node);
}

static void
on_idle(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct counting_node *node = timer->data;

    (void)loop;
    (void)events;
    DL_DELETE(node->counts->nodes, node);
    free_node(node);
}

static void
set_words(const struct slot_count *count, const char *ret_words[QUERY_WORDS_MAX])
{
    ret_words[0] = "CLUSTER";
    ret_words[1] = "COUNTKEYSINSLOT";
    ret_words[2] = count->slot;
}

/* Connects, and sends the first count. */
static void
connect_to(struct counting_node *node)
{
    const struct slot_counts *counts = node->counts;
    const char *words[QUERY_WORDS_MAX];
    struct slot_count *count;

    DL_FOREACH (node->waiting, count)
        count->is_late = false;
    set_words(node->waiting, words);
    node->has_replied = false;
    node->query = query_start(counts->loop, counts->config, &node->address, words, COUNT_TIMEOUT_S,
                              on_reply, node);
}

/* Returns false if the connection was replaced by another one. */
static bool
send_count(struct counting_node *node, const struct slot_count *count)
{
    const char *words[QUERY_WORDS_MAX];

    set_words(count, words);
    if (query_send(node->query, words) == RC_OK)
        return true;
    query_stop(node->query);
    connect_to(node);
    return false;
}

static void
send_others(struct counting_node *node)
{
    const struct slot_count *count;

    node->has_replied = true;
    DL_FOREACH (node->waiting, count) {
        if (!send_count(node, count))
            return;
    }
}

static void
end_count(struct slot_count *count, long long keys, const char *error)
{
    if (count->done != NULL)
        count->done(count->ctx, keys, error);
    free(count);
}

/* Removes the counts that are not late. */
static struct slot_count *
pop_failed(struct counting_node *node)
{
    struct slot_count *failed = NULL, *count, *next;

    DL_FOREACH_SAFE (node->waiting, count, next) {
        if (!count->is_late) {
            DL_DELETE(node->waiting, count);
            DL_APPEND(failed, count);
        }
    }
    return failed;
}

/*
 * Late counts had less time than the timeout, or a connection that the node had closed. A count
 * that is started meanwhile may use another connection.
 */
static void
fail_node(struct counting_node *node, const char *error)
{
    struct slot_count *failed = pop_failed(node), *count, *next;

    node->query = NULL; /* freed by the caller */
    if (node->waiting != NULL) {
        connect_to(node);
    } else {
        DL_DELETE(node->counts->nodes, node);
        free_node(node);
    }
    DL_FOREACH_SAFE (failed, count, next)
        end_count(count, 0, error);
}

static void
on_reply(void *ctx, const struct redisReply *reply, const char *error)
{
    struct counting_node *node = ctx;
    struct slot_count *count = node->waiting;
    const bool is_first = !node->has_replied;

    if (reply == NULL) {
        fail_node(node, error);
        return;
    }
    DL_DELETE(node->waiting, count);
    end_count(count, reply_integer(reply), NULL);
    if (is_first)
        send_others(node);
    if (node->waiting == NULL) {
        ev_timer_set(&node->idle, COUNT_IDLE_S, 0.0); /* a stopped timer keeps only its rest */
        ev_timer_start(node->counts->loop, &node->idle);
    }
}

static struct counting_node *
new_node(struct slot_counts *counts, const struct url *address)
{
    struct counting_node *node = memory_new(sizeof(*node));

    node->counts = counts;
    node->address = *address;
    ev_timer_init(&node->idle, on_idle, 0.0, 0.0);
    node->idle.data = node;
    DL_APPEND(counts->nodes, node);
    return node;
}

static struct counting_node *
find_node(struct slot_counts *counts, const struct url *address)
{
    struct counting_node *node;

    DL_FOREACH (counts->nodes, node) {
        if (node->address.port == address->port && strcmp(node->address.host, address->host) == 0)
            return node;
    }
    return NULL;
}

struct slot_count *
slot_count_start(struct slot_counts *counts, const struct url *address, unsigned slot,
                 slot_counted *done, void *ctx)
{
    struct counting_node *node = find_node(counts, address);
    struct slot_count *count = memory_new(sizeof(*count));

    snprintf(count->slot, sizeof(count->slot), "%u", slot);
    count->done = done;
    count->ctx = ctx;
    count->is_late = true;
    if (node == NULL)
        node = new_node(counts, address);
    ev_timer_stop(counts->loop, &node->idle);
    DL_APPEND(node->waiting, count);
    if (node->query == NULL)
        connect_to(node);
    else if (node->has_replied)
        send_count(node, count);
    return count;
}

void
slot_count_stop(struct slot_count *count)
{
    if (count != NULL)
        count->done = NULL;
}

struct slot_counts *
slot_counts_open(struct ev_loop *loop, const struct config *config)
{
    struct slot_counts *counts = memory_new(sizeof(*counts));

    counts->loop = loop;
    counts->config = config;
    return counts;
}

void
slot_counts_close(struct slot_counts *counts)
{
    struct counting_node *node, *next;

    DL_FOREACH_SAFE (counts->nodes, node, next)
        free_node(node);
    free(counts);
}
