/* rows_clients.h: clients that request rows from one queue, and the results of its queries. */
#ifndef CLAIRON_TESTS_UNIT_ROWS_CLIENTS_H
#define CLAIRON_TESTS_UNIT_ROWS_CLIENTS_H

#include "rows/rows_private.h"

#define CLIENTS_MAX 40
#define WAIT_US 5000000
#define USER_BYTES 10000
#define NO_CLIENT SIZE_MAX

/* The results that a client has received, and the values that its callbacks return. */
struct client {
    struct rows_request *request;
    enum rows_status status;
    int64_t after_ms;
    unsigned results;
    uint64_t needs; /* the transaction that the snapshot must contain; 0: none */
    size_t ends;    /* the client whose request is ended after this one; NO_CLIENT if none */
};

static struct stats stats;
static struct rows_queue queue;
static struct client clients[CLIENTS_MAX];
static size_t held;
static struct rows_conditions conditions; /* of the next request */

static inline bool
on_accepts(void *ctx, const struct snapshot *snapshot)
{
    const struct client *client = ctx;

    return client->needs == 0 || snapshot_contains(snapshot, client->needs);
}

static inline void
end(struct client *client)
{
    if (client->request != NULL)
        rows_request_end(client->request);
    client->request = NULL;
}

static inline void
on_done(void *ctx, enum rows_status status, const struct rows_result *result, int64_t after_ms)
{
    struct client *client = ctx;

    assert_int_equal(status == ROWS_OK || status == ROWS_INVALID, result != NULL);
    client->status = status;
    client->after_ms = after_ms;
    client->results++;
    if (client->ends != NO_CLIENT)
        end(&clients[client->ends]);
}

static const struct rows_events EVENTS = {on_accepts, on_done};

static inline int
set_up(void **state)
{
    (void)state;
    memset(&stats, 0, sizeof(stats));
    memset(clients, 0, sizeof(clients));
    memset(&conditions, 0, sizeof(conditions));
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        clients[i].ends = NO_CLIENT;
    queue = (struct rows_queue){
        .stats = &stats,
        .limits = {.waiting = 30, .wait_us = WAIT_US, .connections = 4, .user_bytes = USER_BYTES}};
    return 0;
}

/* Ends all requests, after which no memory must remain. */
static inline int
tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        end(&clients[i]);
    assert_null(queue.users);
    assert_null(queue.turns);
    assert_null(queue.waiting);
    assert_null(queue.running);
    assert_int_equal(queue.waiting_count, 0);
    assert_int_equal(held, 0);
    rows_queue_close(&queue);
    return 0;
}

static inline enum rows_status
try_request(size_t i, const char *user, const char *source)
{
    const struct rows_wanted wanted = {source, "default", user, "{}", conditions};

    clients[i].results = 0;
    return rows_queue_add(&queue, &wanted, &EVENTS, &clients[i], 0, &clients[i].request);
}

static inline void
add_request(size_t i, const char *user, const char *source)
{
    assert_int_equal(try_request(i, user, source), ROWS_OK);
}

static inline struct rows_query *
next(const char *user)
{
    struct rows_query *query = rows_queue_next(&queue, 0);

    assert_non_null(query);
    assert_string_equal(rows_query_wanted(query)->user, user);
    return query;
}

static inline void
expect_none(void)
{
    assert_null(rows_queue_next(&queue, 0));
    assert_false(rows_queue_has_next(&queue, 0));
}

static inline struct rows_result *
new_result(const char *audience, const char *snapshot)
{
    struct rows_result *result = rows_result_new(10, USER_BYTES, &held);
    char header[300];

    snprintf(header, sizeof(header),
             "{\"key\":[\"id\"],\"snapshot\":\"%s\",\"audience\":\"%s\",\"judge\":[]}", snapshot,
             audience);
    assert_int_equal(rows_result_add(result, header, strlen(header)), RC_OK);
    return result;
}

static inline void
result_at(struct rows_query *query, const char *audience, const char *snapshot, int64_t now_us)
{
    struct rows_result *result = new_result(audience, snapshot);

    rows_queue_complete(&queue, query, result, now_us);
    rows_result_unref(result);
}

/* Two results of this size are below a user's limit; a third one may exceed it. */
static inline void
large_result(struct rows_query *query, const char *audience)
{
    static const char ROW[USER_BYTES * 2 / 5] = {'1'};
    struct rows_result *result = new_result(audience, "5:5:");

    assert_int_equal(rows_result_add(result, ROW, sizeof(ROW)), RC_OK);
    rows_queue_complete(&queue, query, result, 0);
    rows_result_unref(result);
}

static inline void
result(struct rows_query *query, const char *audience)
{
    result_at(query, audience, "5:5:", 0);
}

/* Completes a query of `t`, after which its audience is known. */
static inline void
make_audience_known(const char *audience)
{
    add_request(CLIENTS_MAX - 1, "first", "t");
    result(next("first"), audience);
    end(&clients[CLIENTS_MAX - 1]);
}

static inline void
expect_done(size_t i, enum rows_status status)
{
    assert_int_equal(clients[i].results, 1);
    assert_int_equal(clients[i].status, status);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
