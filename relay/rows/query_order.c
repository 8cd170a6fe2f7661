/* query_order.c: selects the waiting query that runs next. */
#include "rows/query_order.h"

#include <string.h>
#include <utlist.h>

#include "rows/known_rules.h"
#include "rows/request_state.h"

bool
query_order_may_receive(const struct rows_queue *queue, const struct rows_user *user)
{
    return user->held_bytes <= queue->limits.user_bytes;
}

static bool
has_same_key(const struct rows_query *a, const struct rows_query *b)
{
    return a->key_len == b->key_len && memcmp(a->key, b->key, a->key_len) == 0;
}

/*
 * A query waits while another query with its key runs. Before the audience of a rule is known, all
 * its queries wait for the first query, whose result contains the audience.
 */
static bool
waits_for(const struct rows_query *query, const struct rows_query *running)
{
    size_t len = known_rule_len(query->key);

    if (query->is_known || running->is_known)
        return has_same_key(query, running);
    return running->key_len >= len && memcmp(query->key, running->key, len) == 0;
}

/* A client that does not read its results must not delay other users who share the query. */
static bool
has_receiver(const struct rows_queue *queue, const struct rows_query *query)
{
    const struct rows_request *request;

    DL_FOREACH (query->requests, request) {
        if (query_order_may_receive(queue, request->user))
            return true;
    }
    return false;
}

bool
query_order_is_stuck(const struct rows_queue *queue, const char *source)
{
    const struct rows_query *running;

    DL_FOREACH (queue->running, running) {
        if (running->state == ROWS_QUERY_STUCK && strcmp(running->key, source) == 0)
            return true;
    }
    return false;
}

/* One connection remains for other tables even if all queries of a table are stuck. */
static bool
source_may_run(const struct rows_queue *queue, const char *source)
{
    const struct rows_query *running;
    size_t count = 0;

    DL_FOREACH (queue->running, running) {
        if (strcmp(running->key, source) == 0)
            count++;
    }
    return count == 0 || count + 1 < queue->limits.connections;
}

static bool
may_run(const struct rows_queue *queue, const struct rows_query *query, int64_t now_us)
{
    const struct rows_query *running;

    DL_FOREACH (queue->running, running) {
        if (waits_for(query, running))
            return false;
    }
    return query->not_before_us <= now_us && has_receiver(queue, query) &&
           source_may_run(queue, query->key) && !query_order_is_stuck(queue, query->key);
}

static struct rows_query *
first_of_user(const struct rows_queue *queue, const struct rows_user *user, int64_t now_us)
{
    struct rows_query *query;

    DL_FOREACH (user->waiting, query) {
        if (may_run(queue, query, now_us))
            return query;
    }
    return NULL;
}

struct rows_query *
query_order_next(const struct rows_queue *queue, int64_t now_us)
{
    struct rows_query *query = NULL;
    const struct rows_user *user;

    DL_FOREACH (queue->turns, user) {
        query = first_of_user(queue, user, now_us);
        if (query != NULL)
            break;
    }
    return query;
}
