/* test_publication.c: a valid publish request over HTTP is converted to a frame. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "wire/frame.h"
#include "wire/publication.h"

#define NOW INT64_C(1741178096123456) /* 2025-03-05T12:34:56.123456Z */

static char error[WIRE_ERROR_MAX];

static enum rc
parse(const char *body, struct publication *ret_publication)
{
    const struct publication_origin origin = {.emitter = "app\"1",
                                              .topic_prefix = "srv.dev",
                                              .now_us = NOW,
                                              .random = {0xff, 1, 0xff, 3}};

    return publication_parse(body, strlen(body), &origin, ret_publication, error);
}

static void
publication_becomes_a_frame(void **state)
{
    struct publication publication = {0};
    struct frame frame;
    struct bytes targets, target;
    const unsigned char *head;

    (void)state;
    assert_int_equal(
        parse("{\"payload\":{\"b\":1,\"a\":\"\xc3\xa9\"},\"metadata\":{\"priority\":\"LOW\","
              "\"source\":\"s\",\"expiration\":\"2025-03-05T12:34:57.5Z\"},\"routing\":"
              "{\"audience\":{\"type\":\"TEAM\",\"targets\":[\"b\",\"a\",\"b\"]},"
              "\"retry\":{\"ack_required\":true,\"limit\":7,\"backoff\":\"FIXED\"}}}",
              &publication),
        RC_OK);
    assert_string_equal(publication.id, "0195664d-49fb-7f01-bf03-000000000000");
    assert_string_equal(
        publication.data.bytes,
        "{\"metadata\":{\"id\":\"0195664d-49fb-7f01-bf03-000000000000\",\"priority\":\"LOW\","
        "\"type\":\"NOTIFICATION\",\"emitter\":\"app\\\"1\",\"source\":\"s\",\"topic\":"
        "\"srv.dev.s\",\"operation\":\"notify\",\"timestamp\":\"2025-03-05T12:34:56.123456Z\","
        "\"expiration\":\"2025-03-05T12:34:57.500000Z\"},\"payload\":{\"b\":1,\"a\":\"\xc3\xa9\"},"
        "\"routing\":{\"audience\":{\"type\":\"TEAM\",\"targets\":[\"b\",\"a\"]},\"retry\":"
        "{\"ack_required\":true,\"enabled\":true,\"attempts\":0,\"limit\":7,\"backoff\":"
        "\"FIXED\"}}}");
    assert_int_equal(
        frame_parse_header(
            (struct bytes){(const unsigned char *)publication.head.bytes, publication.head.len},
            &frame),
        RC_OK);
    assert_int_equal(frame.flags, FRAME_ACK_REQUIRED | FRAME_RETRY_ENABLED);
    assert_int_equal(frame.as.notification.priority, FRAME_PRIORITY_LOW);
    assert_int_equal(frame.as.notification.type, FRAME_TYPE_NOTIFICATION);
    assert_int_equal(frame.as.notification.operation, FRAME_OPERATION_NOTIFY);
    head = frame.as.notification.head.at;
    assert_int_equal(head[FRAME_NOTIFICATION_AT_BACKOFF], FRAME_BACKOFF_FIXED);
    assert_int_equal(bytes_get_u16(head + FRAME_NOTIFICATION_AT_RETRY_LIMIT), 7);
    assert_int_equal(frame.as.notification.commit_us, NOW);
    assert_int_equal(frame.as.notification.expires_us, INT64_C(1741178097500000));
    assert_memory_equal(frame.as.notification.topic.at, "srv.dev.s", 9);
    assert_int_equal(frame.as.notification.target_count, 2);
    targets = frame.as.notification.targets;
    assert_int_equal(frame_next_target(&targets, &target), RC_OK);
    assert_memory_equal(target.at, "b", 1);
    publication_free(&publication);
}

static void
frame_and_document_can_be_parsed(void **state)
{
    struct publication publication = {0};
    struct buffer packet;
    struct frame frame;
    size_t len = 0;

    (void)state;
    assert_int_equal(
        parse("{\"payload\":{},\"routing\":{\"audience\":{\"type\":\"ALL\"}}}", &publication),
        RC_OK);
    buffer_init(&packet, 65536);
    assert_int_equal(buffer_add(&packet, publication.head.bytes, publication.head.len), RC_OK);
    assert_int_equal(buffer_add(&packet, publication.data.bytes, publication.data.len), RC_OK);
    assert_int_equal(
        frame_parse((struct bytes){(const unsigned char *)packet.bytes, packet.len}, &frame, &len),
        RC_OK);
    assert_int_equal(len, packet.len);
    assert_int_equal(frame.flags, 0);
    assert_int_equal(frame.as.notification.data.len, publication.data.len);
    buffer_free(&packet);
    publication_free(&publication);
}

static void
web_push_is_kept_apart(void **state)
{
#define TO_U1 "\"payload\":{},\"routing\":{\"audience\":{\"type\":\"USER\",\"targets\":[\"u1\"]}}"
    static const char *const cases[][2] = {
        {"{" TO_U1 ",\"web_push\":{}}", "web_push.title is required"},
        {"{" TO_U1 ",\"web_push\":7}", "web_push is not a JSON object"},
        {"{" TO_U1 ",\"web_push\":null}", "web_push is not a JSON object"},
        {"{" TO_U1 ",\"web_push\":{\"title\":\"t\"},\"metadata\":{\"type\":\"REALTIME\"}}",
         "web_push is not possible with metadata.type REALTIME"},
        {"{\"payload\":{},\"routing\":{\"audience\":{\"type\":\"ALL\"}},\"web_push\":{\"title\":"
         "\"t\"}}",
         "web_push is not possible with routing.audience.type ALL"},
    };
    struct publication publication = {0};

    (void)state;
    assert_int_equal(parse("{" TO_U1 ",\"web_push\":{ \"title\" : \"t\" },"
                           "\"metadata\":{\"priority\":\"HIGH\"}}",
                           &publication),
                     RC_OK);
    assert_string_equal(publication.web_push, "{\"title\":\"t\"}");
    assert_string_equal(publication.urgency, "high");
    assert_null(strstr(publication.data.bytes, "web_push"));
    /* the header ends with it, for escalations */
    assert_int_equal(publication.head.bytes[FRAME_AT_FLAGS] & (FRAME_WEB_PUSH >> 8),
                     FRAME_WEB_PUSH >> 8);
    assert_memory_equal(publication.head.bytes + publication.head.len - 15,
                        "\0\015{\"title\":\"t\"}", 15);
    publication_free(&publication);
    assert_int_equal(parse("{" TO_U1 "}", &publication), RC_OK);
    assert_null(publication.web_push);
    publication_free(&publication);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(parse(cases[i][0], &publication), RC_BAD);
        assert_memory_equal(error, cases[i][1], strlen(cases[i][1]));
    }
#undef TO_U1
}

/* Checks that the document of this request contains `payload`. */
static void
assert_payload(const char *body, const char *payload)
{
    struct publication publication = {0};

    assert_int_equal(parse(body, &publication), RC_OK);
    assert_non_null(strstr(publication.data.bytes, payload));
    publication_free(&publication);
}

static void
payload_values_are_kept_verbatim(void **state)
{
#define TO_ALL "\"routing\":{\"audience\":{\"type\":\"ALL\"}}"
    (void)state;
    assert_payload("{\"payload\":{\"price\":1.10,\"b\":0.1,\"c\":1E5,\"d\":-0.0,"
                   "\"e\":0.12345678901234567890}," TO_ALL "}",
                   ",\"payload\":{\"price\":1.10,\"b\":0.1,\"c\":1E5,\"d\":-0.0,"
                   "\"e\":0.12345678901234567890},\"routing\"");
    assert_payload(" { " TO_ALL ",\n\"metadata\" : { \"source\" : \"payload\" }, \"payload\"\t:\r\n"
                   "{ \"a \\\" }\" : [ 1 , { \"payload\" : {} } ] , \"b\\\\\" : \"]\" } } ",
                   ",\"payload\":{\"a \\\" }\":[1,{\"payload\":{}}],\"b\\\\\":\"]\"},\"routing\"");
    assert_payload("{" TO_ALL ",\"pay\\u006coad\":{\"a\": 1.5}}",
                   ",\"payload\":{\"a\":1.5},\"routing\"");
#undef TO_ALL
}

/* Parses a publication to `count` users with ids of `len` bytes, and as many repeats. */
static enum rc
parse_targets(unsigned count, unsigned len, struct publication *ret_publication)
{
    struct buffer body;
    enum rc rc;

    buffer_init(&body, 8 * 1024 * 1024);
    assert_int_equal(buffer_addf(&body, "{\"payload\":{},\"routing\":{\"audience\":"
                                        "{\"type\":\"USER\",\"targets\":["),
                     RC_OK);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(buffer_addf(&body, "%s\"%0*u\"", i > 0 ? "," : "", (int)len, i), RC_OK);
    assert_int_equal(buffer_addf(&body, ",\"%0*u\"]}}}", (int)len, 0), RC_OK);
    rc = parse(body.bytes, ret_publication);
    buffer_free(&body);
    return rc;
}

/* Parses a publication with these members in routing. */
static enum rc
parse_routing(const char *members, struct publication *ret_publication)
{
    char body[512];

    snprintf(body, sizeof(body),
             "{\"payload\":{},\"routing\":{\"audience\":{\"type\":\"ALL\"},%s}}", members);
    return parse(body, ret_publication);
}

#define ACK "\"retry\":{\"ack_required\":true},"

static void
receipts_and_escalations_are_in_the_header(void **state)
{
    struct publication publication = {0};
    const unsigned char *head;

    (void)state;
    assert_int_equal(
        parse_routing(ACK "\"receipts\":\"user\",\"escalate_after\":[0.5,2592000]", &publication),
        RC_OK);
    head = (const unsigned char *)publication.head.bytes;
    assert_int_equal(head[FRAME_AT_FLAGS + 1] & FRAME_RECEIPTS, FRAME_RECEIPTS);
    assert_int_equal(head[FRAME_NOTIFICATION_AT_RECEIPTS], FRAME_RECEIPTS_USER);
    assert_int_equal(bytes_get_u32(head + FRAME_NOTIFICATION_AT_ESCALATIONS), 500);
    assert_int_equal(bytes_get_u32(head + FRAME_NOTIFICATION_AT_ESCALATIONS + 4), 2592000000u);
    publication_free(&publication);
    assert_int_equal(parse_routing(ACK "\"receipts\":\"none\"", &publication), RC_OK);
    assert_int_equal(publication.head.bytes[FRAME_AT_FLAGS + 1] & FRAME_RECEIPTS, 0);
    publication_free(&publication);
}

static void
ack_timeout_is_in_the_header(void **state)
{
    static const char *const VALUES[] = {"0", "-1", "0.0001", "2592001", "\"1\"", "[1]", "null"};
    struct publication publication = {0};
    const unsigned char *head;
    char members[128];

    (void)state;
    assert_int_equal(
        parse_routing("\"retry\":{\"ack_required\":true,\"ack_timeout\":1.5}", &publication),
        RC_OK);
    head = (const unsigned char *)publication.head.bytes;
    assert_int_equal(bytes_get_u16(head + FRAME_AT_FLAGS) & FRAME_ACK_TIMED, FRAME_ACK_TIMED);
    assert_int_equal(bytes_get_u32(head + FRAME_NOTIFICATION_AT_ACK_TIMEOUT), 1500);
    publication_free(&publication);
    assert_int_equal(parse_routing(ACK "\"receipts\":\"none\"", &publication), RC_OK);
    head = (const unsigned char *)publication.head.bytes;
    assert_int_equal(bytes_get_u16(head + FRAME_AT_FLAGS) & FRAME_ACK_TIMED, 0);
    publication_free(&publication);
    for (size_t i = 0; i < sizeof(VALUES) / sizeof(VALUES[0]); i++) {
        snprintf(members, sizeof(members), "\"retry\":{\"ack_timeout\":%s}", VALUES[i]);
        assert_int_equal(parse_routing(members, &publication), RC_BAD);
    }
}

static void
invalid_escalations_are_rejected(void **state)
{
    static const char *const VALUES[] = {"0",       "-1",    "0.0001",   "2592001", "[]",   "[1,1]",
                                         "[1,2,3]", "[2,1]", "[1,\"\"]", "true",    "null", "{}"};
    struct publication publication = {0};
    char members[128];

    (void)state;
    for (size_t i = 0; i < sizeof(VALUES) / sizeof(VALUES[0]); i++) {
        snprintf(members, sizeof(members), ACK "\"escalate_after\":%s", VALUES[i]);
        assert_int_equal(parse_routing(members, &publication), RC_BAD);
    }
    assert_int_equal(parse_routing("\"escalate_after\":1", &publication), RC_BAD);
    assert_int_equal(parse_routing("\"receipts\":\"user\"", &publication), RC_BAD);
    assert_int_equal(parse_routing(ACK "\"receipts\":\"all\"", &publication), RC_BAD);
}

static void
targets_have_a_largest_size(void **state)
{
    struct publication publication = {0};

    (void)state;
    assert_int_equal(parse_targets(1028, 255, &publication), RC_OK); /* 262 140 bytes */
    publication_free(&publication);
    assert_int_equal(parse_targets(1029, 255, &publication), RC_BAD);
    assert_string_equal(error, "routing.audience.targets has 262395 bytes; the maximum is 262144");
    assert_int_equal(parse_targets(10000, 5, &publication), RC_BAD);
    assert_string_equal(error, "routing.audience.targets must be an array of 1 to 10000 targets");
    assert_int_equal(parse_targets(9999, 5, &publication), RC_OK);
    publication_free(&publication);
}

static void
recipients_are_sent_a_long_list_as_its_length(void **state)
{
    struct publication publication = {0};
    struct frame frame;

    (void)state;
    assert_int_equal(parse_targets(100, 3, &publication), RC_OK);
    assert_non_null(strstr(publication.data.bytes, "\"targets\":[\"000\",\"001\","));
    assert_null(strstr(publication.data.bytes, "\"recipients\""));
    publication_free(&publication);
    assert_int_equal(parse_targets(101, 3, &publication), RC_OK);
    assert_non_null(
        strstr(publication.data.bytes,
               "\"audience\":{\"type\":\"USER\",\"targets\":[],\"recipients\":101},\"retry\""));
    assert_int_equal(
        frame_parse_header(
            (struct bytes){(const unsigned char *)publication.head.bytes, publication.head.len},
            &frame),
        RC_OK);
    assert_int_equal(frame.as.notification.target_count, 101);
    publication_free(&publication);
}

static void
invalid_requests_are_rejected_without_leaks(void **state)
{
    static const char *const BODIES[] = {
        "",
        "[]",
        "{}",
        "{\"payload\":{}}",
        "{\"payload\":{},\"routing\":{}}",
        "{\"payload\":{},\"routing\":{\"audience\":{\"type\":\"USER\",\"targets\":[\"a\",1]}}}"};

    (void)state;
    for (size_t i = 0; i < sizeof(BODIES) / sizeof(BODIES[0]); i++) {
        struct publication publication = {0};

        error[0] = '\0';
        assert_int_equal(parse(BODIES[i], &publication), RC_BAD);
        assert_true(strlen(error) > 0);
        assert_null(publication.targets);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(publication_becomes_a_frame),
        cmocka_unit_test(frame_and_document_can_be_parsed),
        cmocka_unit_test(web_push_is_kept_apart),
        cmocka_unit_test(payload_values_are_kept_verbatim),
        cmocka_unit_test(receipts_and_escalations_are_in_the_header),
        cmocka_unit_test(ack_timeout_is_in_the_header),
        cmocka_unit_test(invalid_escalations_are_rejected),
        cmocka_unit_test(targets_have_a_largest_size),
        cmocka_unit_test(recipients_are_sent_a_long_list_as_its_length),
        cmocka_unit_test(invalid_requests_are_rejected_without_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
