/* test_store_redrive.c: a redrive renews the lifetime of a notification; traces are parsed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "store/admin/admin_private.h"
#include "store/admin.h"
#include "wire/frame.h"

#define SECOND INT64_C(1000000)
#define ROUTE_LEN (FRAME_NOTIFICATION_HEAD_SIZE + 8)

static void
put_i64(unsigned char *at, int64_t number)
{
    for (int i = 0; i < 8; i++)
        at[i] = (unsigned char)((uint64_t)number >> (56 - 8 * i));
}

static struct bytes
make_route(unsigned char route[ROUTE_LEN], int64_t commit_us, int64_t expires_us)
{
    memset(route, 0, ROUTE_LEN);
    route[FRAME_AT_KIND] = FRAME_KIND_NOTIFICATION;
    route[FRAME_AT_VERSION] = FRAME_VERSION;
    route[FRAME_NOTIFICATION_AT_AUDIENCE_LEN + 1] = 4;
    route[FRAME_NOTIFICATION_AT_TARGETS_LEN + 3] = 4;
    route[FRAME_NOTIFICATION_AT_TARGET_COUNT + 3] = 1;
    put_i64(route + FRAME_NOTIFICATION_AT_COMMIT_US, commit_us);
    put_i64(route + FRAME_NOTIFICATION_AT_EXPIRES_US, expires_us);
    memcpy(route + FRAME_NOTIFICATION_HEAD_SIZE, "USER\0\2u1", 8);
    return (struct bytes){route, ROUTE_LEN};
}

static struct bytes
text(const char *string)
{
    return (struct bytes){(const unsigned char *)string, strlen(string)};
}

static struct error_entry
entry_of(struct bytes route, struct bytes data, const char *reason)
{
    return (struct error_entry){.route = route, .data = data, .reason = text(reason)};
}

static void
test_lifetime_is_renewed(void **state)
{
    unsigned char route[ROUTE_LEN];
    struct redrive redrive, again;
    struct frame frame;
    const char *line =
        "{\"metadata\":{\"id\":\"x\",\"expiration\":\"2025-03-15T12:34:56.123456Z\"},\"payload\":"
        "{\"after\":{\"expiration\":\"2025-03-15T12:34:56.123456Z\"}}}";
    const char *renewed =
        "{\"metadata\":{\"id\":\"x\",\"expiration\":\"1970-01-01T00:02:40.000007Z\"},\"payload\":"
        "{\"after\":{\"expiration\":\"2025-03-15T12:34:56.123456Z\"}}}";

    struct error_entry entry =
        entry_of(make_route(route, 5 * SECOND, 65 * SECOND), text(line), "expired");

    (void)state;
    assert_int_equal(redrive_prepare(&entry, 100 * SECOND + 7, &redrive), RC_OK);
    assert_int_equal(redrive.expires_ms, 160000);
    assert_int_equal(redrive.data_len, strlen(renewed));
    assert_memory_equal(redrive.data, renewed, redrive.data_len);
    assert_int_equal(frame_parse_header((struct bytes){redrive.route, redrive.route_len}, &frame),
                     RC_OK);
    assert_int_equal(frame.as.notification.expires_us, 160 * SECOND + 7);
    /* A second redrive sets the same lifetime. */
    entry.route = (struct bytes){redrive.route, redrive.route_len};
    entry.data = (struct bytes){redrive.data, redrive.data_len};
    assert_int_equal(redrive_prepare(&entry, 1000 * SECOND, &again), RC_OK);
    assert_int_equal(again.expires_ms, 1060000);
    redrive_free(&again);
    redrive_free(&redrive);
}

static void
test_no_expiration_is_added(void **state)
{
    unsigned char route[ROUTE_LEN];
    struct redrive redrive;
    const char *line = "{\"metadata\":{\"id\":\"x\"},\"payload\":{\"expiration\":\"2025\"}}";

    struct error_entry entry = entry_of(make_route(route, 5, 0), text(line), "exhausted");

    (void)state;
    assert_int_equal(redrive_prepare(&entry, 100, &redrive), RC_OK);
    assert_int_equal(redrive.expires_ms, 0);
    assert_memory_equal(redrive.data, line, strlen(line));
    redrive_free(&redrive);
    /* With an open-ended audience, the document has no expiration. */
    entry.reason = text("expired");
    assert_int_equal(redrive_prepare(&entry, 5000, &redrive), RC_OK);
    assert_int_equal(redrive.expires_ms, 5 + INT64_C(24) * 3600 * 1000);
    assert_memory_equal(redrive.data, line, strlen(line));
    redrive_free(&redrive);
}

static void
test_invalid_route_is_rejected(void **state)
{
    unsigned char route[ROUTE_LEN];
    struct redrive redrive;
    struct bytes good = make_route(route, 5, 0), none = {NULL, 0};
    const struct error_entry bad[] = {entry_of(text("short"), text("{}"), ""),
                                      entry_of(none, text("{}"), ""), entry_of(good, none, "")};
    struct error_entry odd;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(redrive_prepare(&bad[i], 1, &redrive), RC_BAD);
    /* An expiration of another length is left unchanged. */
    odd = entry_of(make_route(route, 5, 9),
                   text("{\"metadata\":{\"id\":\"x\",\"expiration\":\"\"},\"payload\":"), "");
    assert_int_equal(redrive_prepare(&odd, 1, &redrive), RC_OK);
    assert_memory_equal(redrive.data, odd.data.at, odd.data.len);
    redrive_free(&redrive);
}

static redisReply
text_reply(const char *string)
{
    return (redisReply){
        .type = REDIS_REPLY_STRING, .str = (char *)(uintptr_t)string, .len = strlen(string)};
}

static void
test_trace_is_read(void **state)
{
    static const char ID[] = "01890a5d-ac96-8d4b-bcce-b302099a8057";
    redisReply data = text_reply("{\"metadata\":{\"id\":\"x\",\"timestamp\":\"2025-03-05T12:34:56."
                                 "123456Z\"},\"payload\":null}");
    redisReply entry = text_reply("1741178096200-3");
    redisReply events[] = {text_reply("stored 1741178096200 0 1741178096200-3 -"),
                           text_reply("sent 1741178096201 0 - a user"),
                           text_reply("nacked 1741178096201 0 500 a user"),
                           text_reply("errored 1741178096202 2 exhausted a user"), text_reply("")};
    redisReply *event_list[] = {&events[0], &events[1], &events[2], &events[3], &events[4]};
    redisReply event_array = {.type = REDIS_REPLY_ARRAY, .elements = 4, .element = event_list};
    redisReply user = text_reply("b\"c");
    redisReply *users[] = {&user};
    redisReply waiting = {.type = REDIS_REPLY_ARRAY, .elements = 1, .element = users};
    redisReply *all[] = {&data, &entry, &event_array, &waiting};
    redisReply reply = {.type = REDIS_REPLY_ARRAY, .elements = 4, .element = all};
    struct trace trace;
    struct buffer out;

    (void)state;
    assert_int_equal(trace_read(&reply, ID, &trace), RC_OK);
    buffer_init(&out, 4096);
    assert_int_equal(trace_write_json(&trace, "i", &out), RC_OK);
    assert_string_equal(
        out.bytes, "{\"id\":\"i\",\"notification\":{\"metadata\":{\"id\":\"x\",\"timestamp\":"
                   "\"2025-03-05T12:34:56.123456Z\"},\"payload\":null},"
                   "\"events\":[{\"at\":\"2025-03-05T12:34:56.123456Z\",\"stage\":\"committed\"},"
                   "{\"at\":\"2025-03-05T12:34:56.200Z\",\"stage\":\"stored\"},"
                   "{\"at\":\"2025-03-05T12:34:56.201Z\",\"stage\":\"sent\",\"attempt\":0,\"user\":"
                   "\"a user\"},"
                   "{\"at\":\"2025-03-05T12:34:56.202Z\",\"stage\":\"errored\",\"attempt\":2,"
                   "\"user\":\"a user\","
                   "\"reason\":\"exhausted\"}],\"waiting\":[\"b\\\"c\"]}");
    buffer_free(&out);
    trace_free(&trace);
    event_array.elements = 5; /* an empty line is ignored */
    assert_int_equal(trace_read(&reply, ID, &trace), RC_OK);
    trace_free(&trace);
    data.len = 0; /* trimmed, so the id provides the commit time */
    assert_int_equal(trace_read(&reply, ID, &trace), RC_OK);
    assert_int_equal(trace.event_count, 6);
    assert_memory_equal(trace.events[0].stage.at, "committed", 9);
    assert_string_equal(trace.events[0].at, "2023-06-30T03:34:18.518Z");
    trace_free(&trace);
    assert_int_equal(trace_read(&reply, "01890a5d-ac96-774b-bcce-b302099a8057", &trace), RC_OK);
    assert_int_equal(trace.event_count, 5); /* a random id has no time */
    trace_free(&trace);
    event_array.elements = 0; /* no events */
    assert_int_equal(trace_read(&reply, ID, &trace), RC_OK);
    assert_int_equal(trace.event_count, 1); /* only stored, from its stream entry */
    trace_free(&trace);
    reply.elements = 3;
    assert_int_equal(trace_read(&reply, ID, &trace), RC_BAD);
}

static void
test_id_contains_the_commit_time(void **state)
{
    (void)state;
    assert_int_equal(frame_uuid_ms("01890a5d-ac96-774b-bcce-b302099a8057"), 0x01890a5dac96);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lifetime_is_renewed),
        cmocka_unit_test(test_no_expiration_is_added),
        cmocka_unit_test(test_invalid_route_is_rejected),
        cmocka_unit_test(test_trace_is_read),
        cmocka_unit_test(test_id_contains_the_commit_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
