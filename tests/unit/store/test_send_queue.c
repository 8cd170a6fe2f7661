/* test_send_queue.c: a command is encoded as hiredis expects it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ev.h>
#include <string.h>

#include "store/connection/send_queue.h"

int __wrap_redisAsyncFormattedCommand(redisAsyncContext *redis, redisCallbackFn *on_reply,
                                      void *ctx, const char *command, size_t len);

static char sent[256]; /* the command, and the byte after it */

int
__wrap_redisAsyncFormattedCommand(redisAsyncContext *redis, redisCallbackFn *on_reply, void *ctx,
                                  const char *command, size_t len)
{
    (void)redis;
    (void)on_reply;
    (void)ctx;
    assert_in_range(len, 1, sizeof(sent) - 1);
    memcpy(sent, command, len + 1);
    return REDIS_OK;
}

/* hiredis searches the arguments of a SUBSCRIBE up to the zero byte. */
static void
test_command_ends_with_a_zero_byte(void **state)
{
    static const char expected[] = "*2\r\n$9\r\nSUBSCRIBE\r\n$14\r\n+switch-master\r\n";
    const char *argv[] = {"SUBSCRIBE", "+switch-master"};
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    struct send_queue *queue = send_queue_new(loop);
    redisAsyncContext redis = {.c = {.fd = -1}};

    (void)state;
    send_queue_use(queue, &redis);
    assert_int_equal(send_queue_send(queue, NULL, NULL, 2, argv, NULL), RC_OK);
    assert_memory_equal(sent, expected, sizeof(expected));
    redis.ev.cleanup(redis.ev.data);
    send_queue_end(queue);
    send_queue_free(queue);
    ev_loop_destroy(loop);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_command_ends_with_a_zero_byte)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
