/* test_client_message.c: which lines of a client are taken, refused, or the end of it? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "wire/client_message.h"

#define ID "AB0df00d-0000-7000-8000-00000000000a"

static char error[CLIENT_MESSAGE_ERROR_MAX];

static enum rc
parse(const char *line, struct client_message *ret_message)
{
    error[0] = '\0';
    return client_message_parse(line, strlen(line), ret_message, error);
}

/* The line is refused, the connection lives, and the sentence names the field. */
static void
refuses(const char *line, const char *word)
{
    struct client_message message;

    assert_int_equal(parse(line, &message), RC_BAD);
    if (strstr(error, word) == NULL)
        fail_msg("%s: \"%s\" does not name %s", line, error, word);
    assert_null(message.token);
    assert_null(message.pos);
    assert_null(message.ids);
    assert_null(message.topics);
    client_message_free(&message);
}

static void
reads_a_connect(void **state)
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
    assert_int_equal(parse("{\"t\":\"connect\",\"pos\":null}", &message), RC_OK);
    assert_false(message.has_request_id);
    assert_null(message.token);
    assert_null(message.pos);
    assert_int_equal(message.window, 0);
    client_message_free(&message);
    client_message_free(&message);
}

static void
reads_acks_in_lower_case(void **state)
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
reads_the_small_ones(void **state)
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
ends_what_does_not_speak_json(void **state)
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
            fail_msg("taken for JSON: %s", LINES[i]);
        client_message_free(&message);
    }
    assert_int_equal(client_message_parse("{\"t\":\"pong\"}\0", 13, &message, error), RC_CLOSED);
}

static void
names_the_wrong_field(void **state)
{
    (void)state;
    refuses("[]", "object");
    refuses("7", "object");
    refuses("{}", "\"t\"");
    refuses("{\"t\":7}", "\"t\"");
    refuses("{\"t\":\"hello\"}", "\"t\"");
    refuses("{\"t\":\"pong\",\"r\":\"1\"}", "\"r\"");
    refuses("{\"t\":\"pong\",\"r\":1.5}", "\"r\"");
    refuses("{\"t\":\"pong\",\"r\":9007199254740992}", "\"r\"");
    refuses("{\"t\":\"pong\",\"tok\":1}", "\"tok\"");
    refuses("{\"t\":\"connect\",\"token\":7}", "\"token\"");
    refuses("{\"t\":\"connect\",\"token\":\"x\",\"pos\":7}", "\"pos\"");
    refuses("{\"t\":\"connect\",\"token\":\"x\",\"win\":0}", "\"win\"");
    refuses("{\"t\":\"connect\",\"token\":\"x\",\"win\":\"64\"}", "\"win\"");
    refuses("{\"t\":\"connect\",\"pos\":\"p\",\"topics\":[]}", "\"topics\"");
    refuses("{\"t\":\"refresh\"}", "\"token\"");
    refuses("{\"t\":\"ack\"}", "\"ids\"");
    refuses("{\"t\":\"ack\",\"ids\":[]}", "\"ids\"");
    refuses("{\"t\":\"ack\",\"ids\":\"" ID "\"}", "\"ids\"");
    refuses("{\"t\":\"ack\",\"ids\":[7]}", "index 0");
    refuses("{\"t\":\"ack\",\"ids\":[\"" ID "\",\"" ID "0\"]}", "index 1");
    refuses("{\"t\":\"ack\",\"ids\":[\"AB0df00d00000-7000-8000-00000000000a\"]}", "index 0");
    refuses("{\"t\":\"ack\",\"ids\":[\"gB0df00d-0000-7000-8000-00000000000a\"]}", "index 0");
}

static void
says_what_it_cannot_do_yet(void **state)
{
    (void)state;
    refuses("{\"t\":\"nack\",\"ids\":[\"" ID "\"],\"delay\":-1}", "\"delay\"");
    refuses("{\"t\":\"nack\",\"ids\":[\"" ID "\"],\"delay\":1.5}", "\"delay\"");
    refuses("{\"t\":\"nack\",\"delay\":1}", "\"ids\"");
    refuses("{\"t\":\"subscribe\",\"r\":3,\"topics\":[]}", "\"topics\"");
    refuses("{\"t\":\"subscribe\",\"r\":3}", "\"topics\"");
    refuses("{\"t\":\"subscribe\",\"topics\":\"a\"}", "\"topics\"");
    refuses("{\"t\":\"subscribe\",\"topics\":[\"a\",7]}", "index 1");
    refuses("{\"t\":\"subscribe\",\"topics\":[\"\"]}", "index 0");
    refuses("{\"t\":\"subscribe\",\"topics\":[\"a*b\"]}", "index 0");
    refuses("{\"t\":\"subscribe\",\"topics\":[\"*.a\"]}", "index 0");
    refuses("{\"t\":\"subscribe\",\"topics\":[\"a\\n\"]}", "index 0");
    refuses("{\"t\":\"unsubscribe\",\"topics\":[]}", "\"topics\"");
}

static void
keeps_the_request_id_of_what_it_refuses(void **state)
{
    struct client_message message;

    (void)state;
    assert_int_equal(parse("{\"r\":-5,\"t\":\"connect\",\"token\":\"x\",\"win\":-1}", &message),
                     RC_BAD);
    assert_true(message.has_request_id);
    assert_int_equal(message.request_id, -5);
    client_message_free(&message);
    assert_false(message.has_request_id);
}

/* Grammatical, but beyond what a message may hold. */
static void
refuses_without_ending_what_json_allows(void **state)
{
    (void)state;
    refuses("{\"t\":\"pong\",\"t\":\"ack\"}", "duplicate");
    refuses("{\"t\":\"pong\",\"r\":99999999999999999999}", "range");
    refuses("{\"t\":\"pong\",\"r\":1e999}", "range");
    refuses("{\"t\":\"po\\u0000ng\"}", "NUL");
}

static void
has_ceilings(void **state)
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
    refuses(line.bytes, "\"ids\"");
    buffer_clear(&line);
    for (int i = 0; i < 30000; i++)
        assert_int_equal(buffer_add(&line, "[", 1), RC_OK);
    refuses(line.bytes, "deep");
    buffer_free(&line);
}

static void
reads_a_nack(void **state)
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
takes_too_much_for_the_most(void **state)
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
reads_topics(void **state)
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

static void
reads_bodies(void **state)
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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_connect),
        cmocka_unit_test(reads_acks_in_lower_case),
        cmocka_unit_test(reads_the_small_ones),
        cmocka_unit_test(ends_what_does_not_speak_json),
        cmocka_unit_test(names_the_wrong_field),
        cmocka_unit_test(says_what_it_cannot_do_yet),
        cmocka_unit_test(keeps_the_request_id_of_what_it_refuses),
        cmocka_unit_test(refuses_without_ending_what_json_allows),
        cmocka_unit_test(has_ceilings),
        cmocka_unit_test(reads_a_nack),
        cmocka_unit_test(takes_too_much_for_the_most),
        cmocka_unit_test(reads_topics),
        cmocka_unit_test(reads_bodies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
