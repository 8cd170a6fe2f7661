/* test_attach.c: a session does not use its socket while it starts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/uio.h>

#include <cmocka.h>

#include "hub/attach.h"
#include "hub/session/control.h"
#include "hub/session/hub_state.h"
#include "hub/turn.h"
#include "store/shards/store_private.h"
#include "wire/ws_frame.h"

static unsigned calls;

static enum rc
count_send(void *socket, const struct iovec *pieces, int count, size_t *ret_written)
{
    (void)socket;
    calls++;
    *ret_written = 0;
    for (int i = 0; i < count; i++)
        *ret_written += pieces[i].iov_len;
    return RC_OK;
}

static void
count_close(void *socket, int code, const char *reason)
{
    (void)socket;
    (void)code;
    (void)reason;
    calls++;
}

/* The store is down: each request to it fails immediately. */
static void
socket_is_used_after_the_attach(void **state)
{
    static const struct session_transport TRANSPORT = {.send = count_send, .close = count_close};
    static const char *const TOPICS[] = {"orders.*"};
    static const struct session_group GROUPS[] = {{"STRUCTURE", "s1"}};
    static const struct config CONFIG = {.delivery = {.window = 10},
                                         .gate = {.slow_bytes = 4096, .slow_age_ms = 30000}};
    const struct session_request request = {
        .user = "u1", .groups = GROUPS, .group_count = 1, .topics = {TOPICS, 1}};
    struct store store = {.shard_count = 1};
    struct stats stats = {0};
    struct hub hub = {.config = &CONFIG, .store = &store, .stats = &stats, .shards = 1};
    struct session *session;

    (void)state;
    calls = 0;
    hub.loop = ev_default_loop(0);
    hub.scratch = calloc(1, WS_TEXT_HEAD_MAX + SESSION_CONTROL_MAX);
    replay_buffer_open(&hub.replay_buffer, 1);
    turn_start(&hub);
    session = hub_attach(&hub, &request, &TRANSPORT, &hub);
    session_send_control(session, "{}", 2);
    assert_int_equal(calls, 0);
    (void)hub_send_some(&hub, 10);
    assert_int_equal(calls, 1);
    session_detach(session);
    (void)hub_send_some(&hub, 10);
    turn_stop(&hub);
    replay_buffer_close(&hub.replay_buffer);
    free(hub.scratch);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(socket_is_used_after_the_attach),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
