/*
 * test_push_message.c: the text of a Web Push is parsed with an error for each member, its URL
 * stays at the application's origin, and its body fits into one record.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "wire/push_message.h"
#include "wire/push_encryption.h"

#define ID "0195cf3e-1111-7222-8333-444455556666"
#define APP "https://app.example/start/page?a=b#c"

static struct push_text
parse(const char *json)
{
    char error[WIRE_ERROR_MAX] = "";
    struct push_text text = {0};

    assert_int_equal(push_text_parse(json, strlen(json), &text, error), RC_OK);
    return text;
}

static void
text_is_parsed(void **state)
{
    struct push_text text =
        parse("{\"title\":\"New \\u00e9\",\"body\":\"b\",\"url\":\"/x\",\"icon\":\"/i\",\"badge\":"
              "\"/b\",\"lang\":\"fr\",\"dir\":\"ltr\",\"app_badge\":3,\"collapse\":\"c\"}");

    (void)state;
    assert_string_equal(text.title, "New \xc3\xa9");
    assert_string_equal(text.body, "b");
    assert_string_equal(text.url, "/x");
    assert_string_equal(text.icon, "/i");
    assert_string_equal(text.badge, "/b");
    assert_string_equal(text.lang, "fr");
    assert_string_equal(text.dir, "ltr");
    assert_string_equal(text.collapse, "c");
    assert_int_equal(text.app_badge, 3);
    push_text_free(&text);
    text = parse("{\"title\":\"t\",\"body\":null,\"app_badge\":null}");
    assert_null(text.body);
    assert_int_equal(text.app_badge, -1);
    push_text_free(&text);
}

static void
each_error_names_the_member(void **state)
{
    static const char *const cases[][2] = {
        {"", "web_push is not a JSON object: "},
        {"[]", "web_push must be an object"},
        {"{\"title\":\"a\",\"title\":\"b\"}", "web_push is not a JSON object: "},
        {"{}", "web_push.title is required"},
        {"{\"title\":null}", "web_push.title is required"},
        {"{\"title\":\"\"}", "web_push.title must be a string that is not empty"},
        {"{\"title\":7}", "web_push.title must be a string that is not empty"},
        {"{\"title\":\"t\",\"body\":{}}", "web_push.body must be a string that is not empty"},
        {"{\"title\":\"t\",\"dir\":\"up\"}", "web_push.dir must be auto, ltr or rtl"},
        {"{\"title\":\"t\",\"app_badge\":\"3\"}",
         "web_push.app_badge must be an integer from 0 to "},
        {"{\"title\":\"t\",\"app_badge\":-1}", "web_push.app_badge must be an integer from 0 to "},
        {"{\"title\":\"t\",\"silent\":true}", "web_push has an unknown member: silent; valid are "},
    };
    char large[PUSH_TEXT_MAX + 2], error[WIRE_ERROR_MAX] = "";
    struct push_text text = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(push_text_parse(cases[i][0], strlen(cases[i][0]), &text, error), RC_BAD);
        assert_memory_equal(error, cases[i][1], strlen(cases[i][1]));
        assert_null(text.title);
    }
    memset(large, ' ', sizeof(large));
    assert_int_equal(push_text_parse(large, PUSH_TEXT_MAX + 1, &text, error), RC_BAD);
    assert_string_equal(error, "web_push has 8193 bytes; the maximum is 8192");
}

static void
urls_are_resolved(void **state)
{
    static const char *const cases[][2] = {
        {NULL, APP},
        {"", APP},
        {"/x", "https://app.example/x"},
        {"/x?y#z", "https://app.example/x?y#z"},
        {"x", "https://app.example/start/x"},
        {"../x", "https://app.example/start/../x"},
        {"?q", "https://app.example/start/page?q"},
        {"#h", "https://app.example/start/page?a=b#h"},
        {"x:/y", NULL},
        {"https://app.example", "https://app.example"},
        {"https://app.example/z", "https://app.example/z"},
        {"HTTPS://App.Example/z", "HTTPS://App.Example/z"},
        {"./a:b", "https://app.example/start/./a:b"},
        {"http://app.example/", NULL},
        {"https://app.example:444/", NULL},
        {"https://app.example.evil/", NULL},
        {"https://app.exampl/", NULL},
        {"https://u@app.example/", NULL},
        {"https:/app.example/", NULL},
        {"https:x", NULL},
        {"//evil.example/", NULL},
        {"/\\evil.example/", NULL},
        {"\\\\evil.example/", NULL},
        {"/\t/evil.example/", NULL},
        {" //evil.example/", NULL},
        {"java\nscript:alert(1)", NULL},
        {"javascript:alert(1)", NULL},
        {"data:text/html,x", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buffer out;
        enum rc rc;

        buffer_init(&out, 4096);
        rc = push_url_resolve(APP, cases[i][0], &out);
        assert_int_equal(rc, cases[i][1] != NULL ? RC_OK : RC_BAD);
        if (cases[i][1] != NULL)
            assert_string_equal(out.bytes, cases[i][1]);
        buffer_free(&out);
    }
}

static void
base_without_a_path_gets_one(void **state)
{
    static const char *const cases[][2] = {{"x", "https://a.example/x"},
                                           {"/x", "https://a.example/x"},
                                           {"?x", "https://a.example/?x"},
                                           {"#x", "https://a.example/#x"}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buffer out;

        buffer_init(&out, 4096);
        assert_int_equal(push_url_resolve("https://a.example", cases[i][0], &out), RC_OK);
        assert_string_equal(out.bytes, cases[i][1]);
        buffer_free(&out);
    }
}

static void
long_url_is_rejected(void **state)
{
    char url[2048] = "/";
    struct buffer out;
    size_t room = PUSH_URL_MAX - strlen("https://app.example");

    (void)state;
    memset(url + 1, 'a', sizeof(url) - 2);
    buffer_init(&out, 4096);
    url[room + 1] = '\0';
    assert_int_equal(push_url_resolve(APP, url, &out), RC_LIMIT);
    url[room - 1] = '\0';
    assert_int_equal(push_url_resolve(APP, url, &out), RC_OK);
    assert_true(out.len <= PUSH_URL_MAX);
    buffer_free(&out);
}

static void
body_is_a_declarative_web_push(void **state)
{
    struct push_text text = parse(
        "{\"title\":\"T \\\"q\\\"\",\"body\":\"b\",\"url\":\"/x\",\"icon\":\"/i\",\"lang\":\"fr\","
        "\"app_badge\":0}");
    struct push_message message = {.text = &text, .id = ID, .user = "u1", .app_url = APP};
    char topic[PUSH_TOPIC_TEXT + 1];
    struct buffer out;

    (void)state;
    buffer_init(&out, WEB_PUSH_PLAIN_MAX);
    assert_int_equal(push_message_write(&message, &out, topic), RC_OK);
    assert_string_equal(
        out.bytes,
        "{\"web_push\":8030,\"notification\":{\"title\":\"T \\\"q\\\"\",\"body\":\"b\","
        "\"navigate\":\"https://app.example/x\",\"icon\":\"/i\",\"lang\":\"fr\",\"tag\":\"" ID
        "\",\"data\":{\"id\":\"" ID "\"}},\"app_badge\":0,\"mutable\":true}");
    assert_string_equal(topic, "0195cf3e111172228333444455556666");
    buffer_free(&out);
    push_text_free(&text);
}

static void
ticket_is_in_data_and_url(void **state)
{
    static const char *const cases[][2] = {
        {"{\"title\":\"t\",\"url\":\"/x\"}", "\"navigate\":\"https://app.example/x#clairon=T\""},
        {"{\"title\":\"t\",\"url\":\"/x#y\"}", "\"navigate\":\"https://app.example/x#y\""}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct push_text text = parse(cases[i][0]);
        struct push_message message = {
            .text = &text, .id = ID, .user = "u1", .app_url = APP, .ticket = "T"};
        char topic[PUSH_TOPIC_TEXT + 1];
        struct buffer out;

        buffer_init(&out, WEB_PUSH_PLAIN_MAX);
        assert_int_equal(push_message_write(&message, &out, topic), RC_OK);
        assert_non_null(strstr(out.bytes, cases[i][1]));
        assert_non_null(strstr(out.bytes, "\"data\":{\"id\":\"" ID "\",\"ticket\":\"T\"}"));
        buffer_free(&out);
        push_text_free(&text);
    }
}

static void
topic_of(const char *user, const char *json, char ret_topic[PUSH_TOPIC_TEXT + 1])
{
    struct push_text text = parse(json);
    struct push_message message = {.text = &text, .id = ID, .user = user, .app_url = APP};
    struct buffer out;

    buffer_init(&out, WEB_PUSH_PLAIN_MAX);
    assert_int_equal(push_message_write(&message, &out, ret_topic), RC_OK);
    assert_non_null(strstr(out.bytes, ret_topic)); /* the tag */
    buffer_free(&out);
    push_text_free(&text);
}

static void
collapse_identifies_user_and_value(void **state)
{
    static const char json[] = "{\"title\":\"t\",\"collapse\":\"grades\"}";
    char first[PUSH_TOPIC_TEXT + 1], second[PUSH_TOPIC_TEXT + 1];

    (void)state;
    topic_of("u1", json, first);
    assert_int_equal(strlen(first), PUSH_TOPIC_TEXT);
    assert_int_equal(
        strspn(first, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
        PUSH_TOPIC_TEXT);
    topic_of("u1", "{\"title\":\"other\",\"collapse\":\"grades\"}", second);
    assert_string_equal(first, second);
    topic_of("u2", json, second);
    assert_string_not_equal(first, second);
    topic_of("u1", "{\"title\":\"t\",\"collapse\":\"marks\"}", second);
    assert_string_not_equal(first, second);
}

static char *
repeat(const char *characters, size_t count)
{
    size_t len = strlen(characters);
    char *text = memory_new(count * len + 1);

    for (size_t i = 0; i < count; i++)
        memcpy(text + i * len, characters, len);
    return text;
}

static struct push_text
long_text(const char *characters, size_t title_count, size_t body_count)
{
    return (struct push_text){.app_badge = -1,
                              .title = repeat(characters, title_count),
                              .body = repeat(characters, body_count)};
}

/* Writes the message, and compares it with its JSON: each part is a start of the text. */
static void
check_cut(const char *characters, size_t title_count, size_t body_count, bool has_body)
{
    struct push_text text = long_text(characters, title_count, body_count);
    struct push_message message = {.text = &text, .id = ID, .user = "u1", .app_url = APP};
    char topic[PUSH_TOPIC_TEXT + 1];
    struct buffer out;
    json_t *root, *notification;
    const char *title, *body;

    buffer_init(&out, 8192);
    assert_int_equal(push_message_write(&message, &out, topic), RC_OK);
    assert_true(out.len <= WEB_PUSH_PLAIN_MAX && out.len > WEB_PUSH_PLAIN_MAX - 16);
    root = json_loadb(out.bytes, out.len, 0, NULL);
    notification = json_object_get(root, "notification");
    title = json_string_value(json_object_get(notification, "title"));
    body = json_string_value(json_object_get(notification, "body"));
    assert_non_null(title);
    assert_true(strncmp(text.title, title, strlen(title)) == 0);
    assert_int_equal(body != NULL, has_body);
    if (has_body) {
        assert_string_equal(title, text.title);
        assert_true(strncmp(text.body, body, strlen(body)) == 0);
    }
    assert_string_equal(json_string_value(json_object_get(notification, "tag")), ID);
    json_decref(root);
    buffer_free(&out);
    push_text_free(&text);
}

static void
long_texts_are_cut_at_a_character(void **state)
{
    static const char *const characters[] = {"a",  "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                                             "\"", "\x01",     "a\xe2\x82\xac"};

    (void)state;
    for (size_t i = 0; i < sizeof(characters) / sizeof(characters[0]); i++) {
        size_t count = 5000 / strlen(characters[i]);

        check_cut(characters[i], 10, count, true);
        check_cut(characters[i], count, 10, false);
        check_cut(characters[i], count, count, false);
    }
}

static void
long_members_leave_no_room(void **state)
{
    struct push_text text = long_text("a", 1, 1);
    struct push_message message = {.text = &text, .id = ID, .user = "u1", .app_url = APP};
    char topic[PUSH_TOPIC_TEXT + 1];
    struct buffer out;

    (void)state;
    text.icon = memory_new(5000);
    memset(text.icon, 'i', 4999);
    buffer_init(&out, WEB_PUSH_PLAIN_MAX);
    assert_int_equal(push_message_write(&message, &out, topic), RC_LIMIT);
    assert_int_equal(out.len, 0);
    buffer_free(&out);
    push_text_free(&text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_parsed),
        cmocka_unit_test(each_error_names_the_member),
        cmocka_unit_test(urls_are_resolved),
        cmocka_unit_test(base_without_a_path_gets_one),
        cmocka_unit_test(long_url_is_rejected),
        cmocka_unit_test(body_is_a_declarative_web_push),
        cmocka_unit_test(ticket_is_in_data_and_url),
        cmocka_unit_test(collapse_identifies_user_and_value),
        cmocka_unit_test(long_texts_are_cut_at_a_character),
        cmocka_unit_test(long_members_leave_no_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
