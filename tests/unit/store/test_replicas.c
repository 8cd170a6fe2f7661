/* test_replicas.c: a wait for replicas ends when they have what was stored before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "store/shards/shard.h"
#include "store/store.h"
#include "tests/unit/store/replies.h"

enum rc __wrap_link_send(struct link *link, link_reply *reply, void *ctx, int argc,
                         const char **argv, const size_t *lens);

/* The query in flight. */
static struct {
    link_reply *reply;
    void *ctx;
    unsigned sent;
} query;

enum rc
__wrap_link_send(struct link *link, link_reply *reply, void *ctx, int argc, const char **argv,
                 const size_t *lens)
{
    (void)link;
    (void)lens;
    assert_int_equal(argc, 2);
    assert_string_equal(argv[0], "INFO");
    query.reply = reply;
    query.ctx = ctx;
    query.sent++;
    return RC_OK;
}

static struct shard shard;
static struct store store;
static enum rc results[2];

static void
on_replicated(void *ctx, enum rc rc)
{
    *(enum rc *)ctx = rc;
}

static int
set_up(void **state)
{
    (void)state;
    memset(&shard, 0, sizeof(shard));
    memset(&store, 0, sizeof(store));
    store.loop = ev_default_loop(0);
    store.shards = &shard;
    store.shard_count = 1;
    store.min_replicas = 1;
    store.topology = (struct topology){.shards = 1, .connections = 1};
    shard.store = &store;
    replicas_open(&shard);
    query.sent = 0;
    results[0] = results[1] = RC_CLOSED; /* not a result of a wait */
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    replicas_close(&shard);
    return 0;
}

static void
begin(unsigned number, int64_t timeout_us)
{
    store_await_replicas(&store, 0, timeout_us, on_replicated, &results[number]);
}

/* The primary replies with its offset and that of its replica. */
static void
reply_offsets(int primary, int replica)
{
    char info[256];
    redisReply *reply;
    size_t len = (size_t)snprintf(info, sizeof(info),
                                  "# Replication\r\nslave0:ip=127.0.0.1,port=1,state=online,"
                                  "offset=%d,lag=0\r\nmaster_repl_offset:%d\r\n",
                                  replica, primary);

    reply = text(info, len);
    query.reply(query.ctx, reply);
    drop(reply);
}

/* The timer that sends the next query. */
static void
query_again(void)
{
    const unsigned before = query.sent;

    assert_true(ev_is_active(&shard.replicas.again));
    ev_timer_stop(store.loop, &shard.replicas.again);
    ev_invoke(store.loop, &shard.replicas.again, EV_TIMER);
    assert_int_equal(query.sent, before + 1);
}

#define LONG_US INT64_C(1000000000)

static void
test_a_wait_ends_at_the_offset_of_its_first_query(void **state)
{
    (void)state;
    begin(0, LONG_US);
    reply_offsets(500, 400);
    assert_int_equal(results[0], RC_CLOSED);
    query_again();
    reply_offsets(900, 499);
    assert_int_equal(results[0], RC_CLOSED);
    query_again();
    reply_offsets(1000, 500); /* what was stored later does not matter */
    assert_int_equal(results[0], RC_OK);
}

/* The reply may be from before the notification of the second wait was stored. */
static void
test_a_wait_does_not_use_a_query_from_before(void **state)
{
    (void)state;
    begin(0, LONG_US);
    begin(1, LONG_US);
    assert_int_equal(query.sent, 1);
    reply_offsets(500, 500);
    assert_int_equal(results[0], RC_OK);
    assert_int_equal(results[1], RC_CLOSED);
    query_again();
    reply_offsets(600, 599);
    assert_int_equal(results[1], RC_CLOSED);
    query_again();
    reply_offsets(600, 600);
    assert_int_equal(results[1], RC_OK);
}

static void
test_a_wait_times_out(void **state)
{
    (void)state;
    begin(0, 0);
    reply_offsets(500, 400);
    assert_int_equal(results[0], RC_AGAIN);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_wait_ends_at_the_offset_of_its_first_query),
        TEST(test_a_wait_does_not_use_a_query_from_before),
        TEST(test_a_wait_times_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
