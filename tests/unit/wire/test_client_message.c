/* test_client_message.c: client messages are parsed, rejected, or close the connection. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "wire/client_message.h"

#define ID "AB0df00d-0000-7000-8000-00000000000a"

static char error[CLIENT_MESSAGE_ERROR_MAX];

static enum rc
parse(const char *line, struct client_message *ret_message)
{
    error[0] = '\0';
    return client_message_parse(line, strlen(line), ret_message, error);
}

/* Checks that the message is rejected without a close, and that the error contains `word`. */
static void
expect_rejected(const char *line, const char *word)
{
    struct client_message message;

    assert_int_equal(parse(line, &message), RC_BAD);
    if (strstr(error, word) == NULL)
        fail_msg("%s: \"%s\" does not contain %s", line, error, word);
    assert_null(message.token);
    assert_null(message.pos);
    assert_null(message.ids);
    assert_null(message.topics);
    assert_null(message.source);
    assert_null(message.rule);
    assert_null(message.snapshot.running);
    assert_false(rows_conditions_exist(&message.conditions));
    client_message_free(&message);
}

static void
connect_is_parsed(void **state)
{
    struct client_message message;

    (void)state;
    assert_int_equal(
        parse("{\"t\":\"connect\",\"r\":1,\"token\":\"a.b.c\",\"pos\":\"7-1\",\"win\":64}",
              &message),
        RC_OK);
    assert_int_equal(message.kind, CLIENT_MESSAGE_CONNECT);
    assert_true(message.has_request_id);
    assert_int_equal(message.request_id, 1);
    assert_string_equal(message.token, "a.b.c");
    assert_int_equal(message.token_len, 5);
    assert_string_equal(message.pos, "7-1");
    assert_int_equal(message.window, 64);
    client_message_free(&message);
    assert_int_equal(parse("{\"t\":\"connect\",\"pos\":null,\"later\":true}", &message), RC_OK);
    assert_false(message.has_request_id);
    assert_null(message.token);
    assert_null(message.pos);
    assert_int_equal(message.window, 0);
    client_message_free(&message);
    client_message_free(&message);
}

static void
ack_ids_are_lower_cased(void **state)
{
    struct client_message message;

    (void)state;
    assert_int_equal(parse("{\"t\":\"ack\",\"ids\":[\"" ID "\",\"" ID "\"]}", &message), RC_OK);
    assert_int_equal(message.kind, CLIENT_MESSAGE_ACK);
    assert_int_equal(message.id_count, 2);
    assert_string_equal(message.ids[0], "ab0df00d-0000-7000-8000-00000000000a");
    assert_string_equal(message.ids[1], message.ids[0]);
    client_message_free(&message);
}

static void
pong_ping_and_refresh_are_parsed(void **state)
{
    struct client_message message;

    (void)state;
    assert_int_equal(parse(" {\"t\":\"pong\"} ", &message), RC_OK);
    assert_int_equal(message.kind, CLIENT_MESSAGE_PONG);
    client_message_free(&message);
    assert_int_equal(parse("{\"t\":\"ping\"}", &message), RC_OK);
    assert_int_equal(message.kind, CLIENT_MESSAGE_PING);
    client_message_free(&message);
    assert_int_equal(parse("{\"t\":\"refresh\",\"r\":2,\"token\":\"x\"}", &message), RC_OK);
    assert_int_equal(message.kind, CLIENT_MESSAGE_REFRESH);
    assert_string_equal(message.token, "x");
    client_message_free(&message);
}

static void
invalid_json_closes_the_connection(void **state)
{
    static const char *const LINES[] = {"",
                                        " ",
                                        "hello",
                                        "{",
                                        "{\"t\":\"pong\"",
                                        "{\"t\":\"pong\"}}",
                                        "{t:1}",
                                        "{\"t\":\"pong\",}",
                                        "\"\xff\"",
                                        "{\"t\":\"\t\"}"};
    struct client_message message;

    (void)state;
    for (size_t i = 0; i < sizeof(LINES) / sizeof(LINES[0]); i++) {
        if (parse(LINES[i], &message) != RC_CLOSED)
            fail_msg("accepted as JSON: %s", LINES[i]);
        client_message_free(&message);
    }
    assert_int_equal(client_message_parse("{\"t\":\"pong\"}\0", 13, &message, error), RC_CLOSED);
}

static void
errors_name_the_invalid_field(void **state)
{
    (void)state;
    expect_rejected("[]", "object");
    expect_rejected("7", "object");
    expect_rejected("{}", "\"t\"");
    expect_rejected("{\"t\":7}", "\"t\"");
    expect_rejected("{\"t\":\"hello\"}", "\"t\"");
    expect_rejected("{\"t\":\"pong\",\"r\":\"1\"}", "\"r\"");
    expect_rejected("{\"t\":\"pong\",\"r\":1.5}", "\"r\"");
    expect_rejected("{\"t\":\"pong\",\"r\":9007199254740992}", "\"r\"");
    expect_rejected("{\"t\":\"pong\",\"tok\":1}", "\"tok\"");
    expect_rejected("{\"t\":\"barrier\"}", "\"r\"");
    expect_rejected("{\"t\":\"barrier\",\"r\":1,\"x\":7}", "\"x\"");
    expect_rejected("{\"t\":\"barrier\",\"r\":1,\"x\":\"\"}", "\"x\"");
    expect_rejected("{\"t\":\"barrier\",\"r\":1,\"x\":\"0\"}", "\"x\"");
    expect_rejected("{\"t\":\"barrier\",\"r\":1,\"x\":\"18446744073709551616\"}", "\"x\"");
    expect_rejected("{\"t\":\"connect\",\"token\":7}", "\"token\"");
    expect_rejected("{\"t\":\"connect\",\"token\":\"x\",\"pos\":7}", "\"pos\"");
    expect_rejected("{\"t\":\"connect\",\"token\":\"x\",\"win\":0}", "\"win\"");
    expect_rejected("{\"t\":\"connect\",\"token\":\"x\",\"win\":\"64\"}", "\"win\"");
    expect_rejected("{\"t\":\"connect\",\"pos\":\"p\",\"topics\":[]}", "\"topics\"");
    expect_rejected("{\"t\":\"refresh\"}", "\"token\"");
    expect_rejected("{\"t\":\"ack\"}", "\"ids\"");
    expect_rejected("{\"t\":\"ack\",\"ids\":[]}", "\"ids\"");
    expect_rejected("{\"t\":\"ack\",\"ids\":\"" ID "\"}", "\"ids\"");
    expect_rejected("{\"t\":\"ack\",\"ids\":[7]}", "index 0");
    expect_rejected("{\"t\":\"ack\",\"ids\":[\"" ID "\",\"" ID "0\"]}", "index 1");
    expect_rejected("{\"t\":\"ack\",\"ids\":[\"AB0df00d00000-7000-8000-00000000000a\"]}",
                    "index 0");
    expect_rejected("{\"t\":\"ack\",\"ids\":[\"gB0df00d-0000-7000-8000-00000000000a\"]}",
                    "index 0");
}

static void
invalid_nack_and_topics_are_rejected(void **state)
{
    (void)state;
    expect_rejected("{\"t\":\"nack\",\"ids\":[\"" ID "\"],\"delay\":-1}", "\"delay\"");
    expect_rejected("{\"t\":\"nack\",\"ids\":[\"" ID "\"],\"delay\":1.5}", "\"delay\"");
    expect_rejected("{\"t\":\"nack\",\"delay\":1}", "\"ids\"");
    expect_rejected("{\"t\":\"subscribe\",\"r\":3,\"topics\":[]}", "\"topics\"");
    expect_rejected("{\"t\":\"subscribe\",\"r\":3}", "\"topics\"");
    expect_rejected("{\"t\":\"subscribe\",\"topics\":\"a\"}", "\"topics\"");
    expect_rejected("{\"t\":\"subscribe\",\"topics\":[\"a\",7]}", "index 1");
    expect_rejected("{\"t\":\"subscribe\",\"topics\":[\"\"]}", "index 0");
    expect_rejected("{\"t\":\"subscribe\",\"topics\":[\"a*b\"]}", "index 0");
    expect_rejected("{\"t\":\"subscribe\",\"topics\":[\"*.a\"]}", "index 0");
    expect_rejected("{\"t\":\"subscribe\",\"topics\":[\"a\\n\"]}", "index 0");
    expect_rejected("{\"t\":\"unsubscribe\",\"topics\":[]}", "\"topics\"");
}

static void
rejected_messages_keep_their_request_id(void **state)
{
    struct client_message message;

    (void)state;
    assert_int_equal(parse("{\"r\":-5,\"t\":\"connect\",\"token\":\"x\",\"win\":-1}", &message),
                     RC_BAD);
    assert_true(message.has_request_id);
    assert_int_equal(message.request_id, -5);
    client_message_free(&message);
    assert_false(message.has_request_id);
    assert_int_equal(
        parse("{\"t\":\"rows\",\"r\":7,\"source\":\"t\",\"where\":{\"a\":[\"\\u0000\"]}}",
              &message),
        RC_BAD);
    assert_int_equal(message.request_id, 7);
    assert_string_equal(error, "NUL character in \"where.a\"");
    client_message_free(&message);
}

/* Valid JSON with duplicate names, numbers out of range or NUL characters. */
static void
valid_json_with_invalid_content_keeps_the_connection(void **state)
{
    (void)state;
    expect_rejected("{\"t\":\"pong\",\"t\":\"ack\"}", "duplicate");
    expect_rejected("{\"t\":\"pong\",\"r\":99999999999999999999}", "range");
    expect_rejected("{\"t\":\"pong\",\"r\":1e999}", "range");
    expect_rejected("{\"t\":\"po\\u0000ng\"}", "NUL character in \"t\"");
    expect_rejected("{\"t\":\"pong\",\"x\":[{\"a\":\"\\udc00\"}]}", "surrogate pair in \"x.a\"");
    expect_rejected("{\"t\":\"pong\",\"x\":{\"a\":1,\"a\":2}}", "duplicate field in \"x.a\"");
}

static void
id_count_and_nesting_are_limited(void **state)
{
    struct client_message message;
    struct buffer line;

    (void)state;
    buffer_init(&line, 64 * 1024);
    assert_int_equal(buffer_addf(&line, "{\"t\":\"ack\",\"ids\":[\"" ID "\""), RC_OK);
    for (int i = 1; i < CLIENT_MESSAGE_ACKS_MAX; i++)
        assert_int_equal(buffer_addf(&line, ",\"" ID "\""), RC_OK);
    assert_int_equal(buffer_addf(&line, "]}"), RC_OK);
    assert_int_equal(parse(line.bytes, &message), RC_OK);
    assert_int_equal(message.id_count, CLIENT_MESSAGE_ACKS_MAX);
    client_message_free(&message);
    line.len -= 2;
    assert_int_equal(buffer_addf(&line, ",\"" ID "\"]}"), RC_OK);
    expect_rejected(line.bytes, "\"ids\"");
    buffer_clear(&line);
    for (int i = 0; i < 30000; i++)
        assert_int_equal(buffer_add(&line, "[", 1), RC_OK);
    expect_rejected(line.bytes, "deep");
    buffer_free(&line);
}

static void
nack_is_parsed(void **state)
{
    struct client_message message;

    (void)state;
    assert_int_equal(parse("{\"t\":\"nack\",\"ids\":[\"" ID "\"],\"delay\":30000}", &message),
                     RC_OK);
    assert_int_equal(message.kind, CLIENT_MESSAGE_NACK);
    assert_int_equal(message.id_count, 1);
    assert_int_equal(message.delay_ms, 30000);
    client_message_free(&message);
    assert_int_equal(parse("{\"t\":\"nack\",\"ids\":[\"" ID "\"]}", &message), RC_OK);
    assert_int_equal(message.delay_ms, 0);
    client_message_free(&message);
}

static void
large_numbers_are_clamped(void **state)
{
    struct client_message message;

    (void)state;
    assert_int_equal(
        parse("{\"t\":\"nack\",\"ids\":[\"" ID "\"],\"delay\":9007199254740993}", &message), RC_OK);
    assert_int_equal(message.delay_ms, CLIENT_MESSAGE_DELAY_MAX);
    client_message_free(&message);
    assert_int_equal(parse("{\"t\":\"connect\",\"token\":\"x\",\"win\":4294967297}", &message),
                     RC_OK);
    assert_int_equal(message.window, CLIENT_MESSAGE_WINDOW_MAX);
    client_message_free(&message);
}

static void
topics_are_parsed(void **state)
{
    struct client_message message;

    (void)state;
    assert_int_equal(
        parse("{\"t\":\"subscribe\",\"r\":3,\"topics\":[\"a.b\",\"c.*\",\"*\"]}", &message), RC_OK);
    assert_int_equal(message.kind, CLIENT_MESSAGE_SUBSCRIBE);
    assert_int_equal(message.request_id, 3);
    assert_int_equal(message.topic_count, 3);
    assert_string_equal(message.topics[0], "a.b");
    assert_string_equal(message.topics[1], "c.*");
    assert_string_equal(message.topics[2], "*");
    client_message_free(&message);
    assert_int_equal(parse("{\"t\":\"unsubscribe\",\"topics\":[\"a.b\"]}", &message), RC_OK);
    assert_int_equal(message.kind, CLIENT_MESSAGE_UNSUBSCRIBE);
    client_message_free(&message);
    assert_int_equal(parse("{\"t\":\"connect\",\"topics\":[\"x\"]}", &message), RC_OK);
    assert_int_equal(message.topic_count, 1);
    client_message_free(&message);
}

static enum rc
parse_ack(const char *body)
{
    struct client_message message = {0};
    enum rc rc = client_message_parse_ack(body, strlen(body), &message, error);

    assert_int_equal(message.id_count, rc == RC_OK ? 1 : 0);
    client_message_free(&message);
    return rc;
}

static enum rc
parse_switch(const char *body, bool expected)
{
    bool on = !expected;
    enum rc rc = client_message_parse_switch(body, strlen(body), &on, error);

    assert_int_equal(on, rc == RC_OK ? expected : !expected);
    return rc;
}

static enum rc
parse_disconnect(const char *body, int64_t expected_s, const char *expected)
{
    int64_t until_s = -1;
    char *jti = NULL;
    enum rc rc = client_message_parse_cutoff(body, strlen(body), &until_s, &jti, error);

    assert_int_equal(until_s, rc == RC_OK ? expected_s : -1);
    if (rc == RC_OK && expected != NULL)
        assert_string_equal(jti, expected);
    else
        assert_null(jti);
    free(jti);
    return rc;
}

static void
the_end_of_a_cut_off_and_its_token_are_parsed(void **state)
{
    static const char *const bad[] = {"[]",
                                      "{",
                                      "{\"until\":1795230000}",
                                      "{\"until\":\"x\"}",
                                      "{\"until\":null}",
                                      "{\"jti\":\"\"}",
                                      "{\"jti\":1}",
                                      "{\"jti\":\"a\",\"other\":1}"};

    (void)state;
    assert_int_equal(parse_disconnect("", 0, NULL), RC_OK);
    assert_int_equal(parse_disconnect("{}", 0, NULL), RC_OK);
    assert_int_equal(parse_disconnect("{\"jti\":\"a\"}", 0, "a"), RC_OK);
    assert_int_equal(
        parse_disconnect("{\"until\":\"2026-11-21T03:00:00Z\",\"jti\":\"b\"}", 1795230000, "b"),
        RC_OK);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(parse_disconnect(bad[i], 0, NULL), RC_BAD);
}

static void
http_bodies_are_parsed(void **state)
{
    (void)state;
    assert_int_equal(parse_ack("{\"ids\":[\"" ID "\"]}"), RC_OK);
    assert_int_equal(parse_ack(" {\"ids\": [\"" ID "\"]}\n"), RC_OK);
    assert_int_equal(parse_ack("{\"ids\":[]}"), RC_BAD);
    assert_int_equal(parse_ack("{\"ids\":[\"x\"]}"), RC_BAD);
    assert_int_equal(parse_ack("{\"ids\":[\"" ID "\"],\"r\":1}"), RC_BAD);
    assert_int_equal(parse_ack("[\"" ID "\"]"), RC_BAD);
    assert_int_equal(parse_ack("{"), RC_BAD);
    assert_int_equal(parse_ack(""), RC_BAD);
    assert_int_equal(parse_switch("{\"on\":true}", true), RC_OK);
    assert_int_equal(parse_switch("{\"on\":false}", false), RC_OK);
    assert_int_equal(parse_switch("{\"on\":1}", true), RC_BAD);
    assert_int_equal(parse_switch("{}", true), RC_BAD);
    assert_int_equal(client_message_parse_ack(NULL, 0, NULL, error), RC_BAD);
}

static void
rows_are_parsed(void **state)
{
    struct client_message message;

    (void)state;
    assert_int_equal(parse("{\"t\":\"rows\",\"r\":5,\"source\":\"s.t\"}", &message), RC_OK);
    assert_int_equal(message.kind, CLIENT_MESSAGE_ROWS);
    assert_int_equal(message.request_id, 5);
    assert_string_equal(message.source, "s.t");
    assert_string_equal(message.rule, "default");
    assert_false(message.has_snapshot);
    client_message_free(&message);
    assert_null(message.source);
    assert_int_equal(parse("{\"t\":\"rows\",\"r\":5,\"source\":\"t\",\"rule\":\"mine\","
                           "\"snapshot\":\"5:9:7\"}",
                           &message),
                     RC_OK);
    assert_string_equal(message.rule, "mine");
    assert_true(message.has_snapshot);
    assert_false(snapshot_contains(&message.snapshot, 7));
    client_message_free(&message);
    client_message_free(&message);
}

#define ROWS(fields) "{\"t\":\"rows\",\"r\":5,\"source\":\"t\"," fields "}"

static void
conditions_of_rows_are_parsed(void **state)
{
    struct client_message message;

    (void)state;
    assert_int_equal(parse(ROWS("\"where\": {\"a\": [1.50, \"\\u00e9\", null], \"b\": "
                                "{\"from\": 1e2}}, \"order\": [\"-a\", \"b\"], "
                                "\"after\": [1, null], \"limit\": 50"),
                           &message),
                     RC_OK);
    assert_string_equal(message.conditions.where,
                        "{\"a\":[1.50,\"\\u00e9\",null],\"b\":{\"from\":1e2}}");
    assert_string_equal(message.conditions.order, "[\"-a\",\"b\"]");
    assert_string_equal(message.conditions.after, "[1,null]");
    assert_int_equal(message.conditions.limit, 50);
    assert_false(message.conditions.is_count);
    assert_true(rows_conditions_exist(&message.conditions));
    client_message_free(&message);
    assert_int_equal(parse(ROWS("\"count\":true,\"where\":{}"), &message), RC_OK);
    assert_true(message.conditions.is_count);
    assert_string_equal(message.conditions.where, "{}");
    client_message_free(&message);
    assert_false(rows_conditions_exist(&message.conditions));
}

static void
invalid_conditions_are_rejected(void **state)
{
    (void)state;
    expect_rejected(ROWS("\"where\":[]"), "\"where\" must be an object");
    expect_rejected(ROWS("\"where\":null"), "\"where\" must be an object");
    expect_rejected(ROWS("\"where\":\"{}\""), "\"where\" must be an object");
    expect_rejected(ROWS("\"where\":{\"a\":1,\"a\":2}"), "duplicate");
    expect_rejected(ROWS("\"where\":{\"a\":1e-9999}"), "number in \"where.a\" out of range");
    expect_rejected(ROWS("\"where\":{\"a\":[1,0e9999]}"), "number in \"where.a\" out of range");
    expect_rejected(ROWS("\"after\":[1,1e-9999]"), "number in \"after\" out of range");
    expect_rejected(ROWS("\"where\":{\"a\":{\"from\":1e999}}"),
                    "number in \"where.a.from\" out of range");
    expect_rejected(ROWS("\"order\":\"a\""), "\"order\" must be an array");
    expect_rejected(ROWS("\"order\":[1]"), "\"order\" must be an array");
    expect_rejected(ROWS("\"order\":{\"a\":1}"), "\"order\" must be an array");
    expect_rejected(ROWS("\"after\":{}"), "\"after\" must be an array");
    expect_rejected(ROWS("\"limit\":0"), "\"limit\" must be an integer from 1");
    expect_rejected(ROWS("\"limit\":1.5"), "\"limit\" must be an integer from 1");
    expect_rejected(ROWS("\"limit\":\"5\""), "\"limit\" must be an integer from 1");
    expect_rejected(ROWS("\"count\":false"), "\"count\" must be true");
    expect_rejected(ROWS("\"count\":1"), "\"count\" must be true");
    expect_rejected(ROWS("\"count\":true,\"limit\":5"), "\"count\" excludes");
    expect_rejected(ROWS("\"count\":true,\"order\":[\"a\"]"), "\"count\" excludes");
    expect_rejected(ROWS("\"count\":true,\"after\":[1]"), "\"count\" excludes");
    expect_rejected(ROWS("\"snapshot\":\"5:9:7\",\"where\":{}"), "\"snapshot\" excludes \"where\"");
}

/* The text of where, order and after together, without white space. */
static void
size_of_conditions_is_limited(void **state)
{
    char line[3 * ROWS_CONDITIONS_BYTES_MAX];
    struct client_message message;
    struct rows_conditions limit = {.limit = 101};

    (void)state;
    for (int extra = 0; extra < 2; extra++) {
        snprintf(line, sizeof(line), ROWS("\"where\":{\"a\":\"%0*d\"},%5000s\"order\":[\"%0*d\"]"),
                 ROWS_CONDITIONS_BYTES_MAX - 1000 - 8, 0, "", 1000 - 4 + extra, 0);
        if (extra == 0) {
            assert_int_equal(parse(line, &message), RC_OK);
            client_message_free(&message);
        } else {
            expect_rejected(line, "at most 8192 bytes together");
        }
    }
    snprintf(line, sizeof(line), ROWS("\"where\":{\"a\":\"%0*d\"}"), ROWS_CONDITIONS_BYTES_MAX, 0);
    expect_rejected(line, "at most 8192 bytes together");
    assert_int_equal(rows_conditions_check_limit(&limit, 101, error), RC_OK);
    assert_int_equal(rows_conditions_check_limit(&limit, 100, error), RC_BAD);
    assert_string_equal(error, "\"limit\" must be an integer from 1 to 100 (rows.max_rows)");
}

static void
arguments_of_conditions_are_parsed(void **state)
{
    struct rows_conditions conditions = {0};

    (void)state;
    assert_int_equal(rows_conditions_parse(&conditions, "limit", "5", 1, error), RC_OK);
    assert_int_equal(rows_conditions_parse(&conditions, "count", "true", 4, error), RC_OK);
    assert_int_equal(rows_conditions_parse(&conditions, "where", "{\"a\": 1}", 8, error), RC_OK);
    assert_int_equal(conditions.limit, 5);
    assert_true(conditions.is_count);
    assert_string_equal(conditions.where, "{\"a\":1}");
    rows_conditions_free(&conditions);
    assert_int_equal(rows_conditions_parse(&conditions, "order", "a", 1, error), RC_BAD);
    assert_non_null(strstr(error, "\"order\" is not valid JSON"));
    assert_int_equal(rows_conditions_parse(&conditions, "limit", "5,\"x\":1", 7, error), RC_BAD);
    assert_int_equal(rows_conditions_parse(&conditions, "limit", "", 0, error), RC_BAD);
    rows_conditions_free(&conditions);
}

static void
invalid_rows_are_rejected(void **state)
{
    char line[400];
    char name[258];

    (void)state;
    expect_rejected("{\"t\":\"rows\",\"source\":\"t\"}", "\"r\"");
    expect_rejected("{\"t\":\"rows\",\"r\":5}", "\"source\"");
    expect_rejected("{\"t\":\"rows\",\"r\":5,\"source\":\"\"}", "\"source\"");
    expect_rejected("{\"t\":\"rows\",\"r\":5,\"source\":7}", "\"source\"");
    expect_rejected("{\"t\":\"rows\",\"r\":5,\"source\":\"t\",\"rule\":null}", "\"rule\"");
    expect_rejected("{\"t\":\"rows\",\"r\":5,\"source\":\"t\",\"user\":\"u2\"}", "user");
    expect_rejected("{\"t\":\"rows\",\"r\":5,\"source\":\"t\",\"snapshot\":\"9:5:\"}",
                    "\"snapshot\"");
    expect_rejected("{\"t\":\"rows\",\"r\":5,\"source\":\"t\",\"snapshot\":null}", "\"snapshot\"");
    memset(name, 'x', sizeof(name));
    name[CLIENT_MESSAGE_SOURCE_MAX + 1] = '\0';
    snprintf(line, sizeof(line), "{\"t\":\"rows\",\"r\":5,\"source\":\"%s\"}", name);
    expect_rejected(line, "255 bytes");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connect_is_parsed),
        cmocka_unit_test(ack_ids_are_lower_cased),
        cmocka_unit_test(pong_ping_and_refresh_are_parsed),
        cmocka_unit_test(invalid_json_closes_the_connection),
        cmocka_unit_test(errors_name_the_invalid_field),
        cmocka_unit_test(invalid_nack_and_topics_are_rejected),
        cmocka_unit_test(rejected_messages_keep_their_request_id),
        cmocka_unit_test(valid_json_with_invalid_content_keeps_the_connection),
        cmocka_unit_test(id_count_and_nesting_are_limited),
        cmocka_unit_test(nack_is_parsed),
        cmocka_unit_test(large_numbers_are_clamped),
        cmocka_unit_test(topics_are_parsed),
        cmocka_unit_test(http_bodies_are_parsed),
        cmocka_unit_test(the_end_of_a_cut_off_and_its_token_are_parsed),
        cmocka_unit_test(rows_are_parsed),
        cmocka_unit_test(invalid_rows_are_rejected),
        cmocka_unit_test(conditions_of_rows_are_parsed),
        cmocka_unit_test(invalid_conditions_are_rejected),
        cmocka_unit_test(size_of_conditions_is_limited),
        cmocka_unit_test(arguments_of_conditions_are_parsed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
