/* test_attach.c: a new session sends after its attach, and is closed if it cannot start. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/uio.h>

#include <cmocka.h>

#include "base/clock.h"
#include "hub/hub_private.h"
#include "store/shards/shard.h"
#include "wire/ws_frame.h"

static unsigned calls;
static int closed_code;
static int64_t closed_in_ms;

static enum rc
count_send(void *socket, const struct session_pieces *pieces, size_t *ret_written)
{
    (void)socket;
    calls++;
    *ret_written = 0;
    for (int i = 0; i < pieces->count; i++)
        *ret_written += pieces->at[i].iov_len;
    return RC_OK;
}

static void
count_close(void *socket, int code, const char *reason, int64_t in_ms)
{
    (void)socket;
    (void)reason;
    closed_code = code;
    closed_in_ms = in_ms;
    calls++;
}

static const struct session_transport TRANSPORT = {.send = count_send, .close = count_close};
static struct store store = {.shard_count = 1};
static struct hub hub;

/* The store is unavailable: each request to it fails immediately. */
static struct session *
begin(void)
{
    static const char *const TOPICS[] = {"orders.*"};
    static const struct session_group GROUPS[] = {{"STRUCTURE", "s1"}};
    static const struct config CONFIG = {.delivery = {.window = 10},
                                         .gate = {.slow_bytes = 4096, .slow_age_ms = 30000}};
    static struct stats stats;
    const struct session_request request = {
        .user = "u1", .groups = GROUPS, .group_count = 1, .topics = {TOPICS, 1}};

    hub = (struct hub){.config = &CONFIG, .store = &store, .stats = &stats, .shards = 1};
    calls = 0;
    hub.loop = ev_default_loop(0);
    hub.scratch = calloc(1, WS_TEXT_HEAD_MAX + SESSION_CONTROL_MAX);
    replay_buffer_open(&hub.replay_buffer, 1);
    turn_start(&hub);
    return hub_attach(&hub, &request, &TRANSPORT, &hub);
}

static void
end(struct session *session)
{
    session_detach(session);
    (void)hub_send_some(&hub, 10);
    turn_stop(&hub);
    replay_buffer_close(&hub.replay_buffer);
    free(hub.scratch);
}

static void
socket_is_used_after_the_attach(void **state)
{
    struct session *session = begin();

    (void)state;
    session_send_control(session, SESSION_LINE_CONTROL, "{}", 2, NULL);
    assert_int_equal(calls, 0);
    (void)hub_send_some(&hub, 10);
    assert_int_equal(calls, 1);
    end(session);
}

static void
session_that_cannot_start_is_closed(void **state)
{
    struct session *session = begin();

    (void)state;
    unserved_sweep(&hub);
    assert_int_equal(calls, 0);
    session->client.attached_us = clock_monotonic_us() - 6000000;
    unserved_sweep(&hub);
    assert_int_equal(calls, 1);
    assert_int_equal(closed_code, 4201);
    assert_in_range(closed_in_ms, 5000, 15000);
    /* A session that is already connected waits for the store. */
    session->state = SESSION_LIVE;
    unserved_sweep(&hub);
    assert_int_equal(calls, 1);
    end(session);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(socket_is_used_after_the_attach),
        cmocka_unit_test(session_that_cannot_start_is_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
