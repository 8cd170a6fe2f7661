/*
 * test_subscription.c: a PushSubscription is parsed with an error for each field, and endpoints
 * match exactly the listed origins.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/subscription.h"

#define ENDPOINT "https://push.example.net/push/JzLQ3raZJfFBR0aqvOMsLrt54w4rJUsV"
#define POINT                                                                                      \
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
#define AUTH "BTBZMqHH6r4Tts7J_aSIgg"
#define KEYS "\"keys\":{\"p256dh\":\"" POINT "\",\"auth\":\"" AUTH "\"}"
#define ORIGINS "https://push.example.net, https://*.push.example.org"

static void
is_parsed(void **state)
{
    static const char text[] =
        "{\"endpoint\":\"" ENDPOINT "\",\"expirationTime\":null," KEYS ",\"key\":\"" POINT "\"}";
    static const char plain[] = "{\"endpoint\":\"" ENDPOINT "\"," KEYS ",\"later\":[1]}";
    char error[WIRE_ERROR_MAX] = "";
    struct subscription subscription = {0};

    (void)state;
    assert_int_equal(subscription_parse(text, strlen(text), ORIGINS, &subscription, error), RC_OK);
    assert_string_equal(subscription.endpoint, ENDPOINT);
    assert_int_equal(subscription.origin_len, strlen("https://push.example.net"));
    assert_int_equal(subscription.keys.point[0], 4);
    assert_int_equal(subscription.keys.auth[0], 0x05);
    assert_string_equal(subscription.key, POINT);
    subscription_free(&subscription);
    assert_int_equal(subscription_parse(plain, strlen(plain), ORIGINS, &subscription, error),
                     RC_OK);
    assert_string_equal(subscription.key, "");
    subscription_free(&subscription);
}

static void
is_kept_in_the_store(void **state)
{
    static const char text[] = "{\"endpoint\":\"" ENDPOINT "\"," KEYS ",\"key\":\"" POINT "\"}";
    static const char *const wrong[] = {"",
                                        "https://a.example",
                                        "https://a.example 17 x y z",
                                        ENDPOINT " 999 " POINT " " AUTH " ",
                                        ENDPOINT " 24 " POINT " " AUTH,
                                        ENDPOINT " 24 " POINT " " AUTH " " POINT " x",
                                        ENDPOINT " 24 " POINT " " AUTH " " POINT "x"};
    char error[WIRE_ERROR_MAX] = "", first[SUBSCRIPTION_ID_TEXT + 1];
    char second[SUBSCRIPTION_ID_TEXT + 1];
    struct subscription saved = {0}, read = {0};
    struct buffer out;

    (void)state;
    assert_int_equal(subscription_parse(text, strlen(text), ORIGINS, &saved, error), RC_OK);
    buffer_init(&out, 4096);
    assert_int_equal(subscription_write(&saved, &out), RC_OK);
    assert_string_equal(out.bytes, ENDPOINT " 24 " POINT " " AUTH " " POINT);
    assert_int_equal(subscription_read(out.bytes, out.len, &read), RC_OK);
    assert_string_equal(read.endpoint, saved.endpoint);
    assert_int_equal(read.origin_len, saved.origin_len);
    assert_memory_equal(&read.keys, &saved.keys, sizeof(read.keys));
    assert_string_equal(read.key, saved.key);
    subscription_free(&read);
    subscription_free(&saved);
    buffer_free(&out);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(subscription_read(wrong[i], strlen(wrong[i]), &read), RC_BAD);
    subscription_id("https://a.example/1", first);
    subscription_id("https://a.example/2", second);
    assert_int_equal(strlen(first), SUBSCRIPTION_ID_TEXT);
    assert_string_not_equal(first, second);
}

static void
each_error_names_the_field(void **state)
{
    static const struct {
        const char *text;
        const char *error;
    } cases[] = {
        {"", "body is not JSON: "},
        {"[]", "body must be a JSON object"},
        {"{\"endpoint\":\"a\",\"endpoint\":\"b\"}", "body is not JSON: "},
        {"{" KEYS "}", "endpoint must be a URL of 1 to 2048 bytes"},
        {"{\"endpoint\":\"\"," KEYS "}", "endpoint must be a URL of 1 to 2048 bytes"},
        {"{\"endpoint\":\"https://push.example.net/a b\"," KEYS "}",
         "endpoint must be a URL of 1 to 2048 bytes"},
        {"{\"endpoint\":\"https://other.example.net/\"," KEYS "}",
         "endpoint is not of a push service in webpush.origins"},
        {"{\"endpoint\":\"" ENDPOINT "\",\"expirationTime\":\"x\"," KEYS "}",
         "expirationTime must be a number or null"},
        {"{\"endpoint\":\"" ENDPOINT "\"}", "keys must be an object"},
        {"{\"endpoint\":\"" ENDPOINT "\",\"keys\":{\"auth\":\"" AUTH "\"}}",
         "keys.p256dh must be an uncompressed point of P-256 in base64url"},
        /* not on the curve: its last bit differs */
        {"{\"endpoint\":\"" ENDPOINT "\",\"keys\":{\"p256dh\":\"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-"
         "JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyP"
         "js7Vd8pZGH6SRpkNtoIAiw8\",\"auth\":\"" AUTH "\"}}",
         "keys.p256dh must be an uncompressed point of P-256 in base64url"},
        {"{\"endpoint\":\"" ENDPOINT "\",\"keys\":{\"p256dh\":\"" POINT "\"}}",
         "keys.auth must be 16 bytes in base64url"},
        {"{\"endpoint\":\"" ENDPOINT "\",\"keys\":{\"p256dh\":\"" POINT "\",\"auth\":\"BTBZ\"}}",
         "keys.auth must be 16 bytes in base64url"},
        {"{\"endpoint\":\"" ENDPOINT "\"," KEYS ",\"key\":\"AA\"}",
         "key must be a VAPID public key in base64url"},
        {"{\"endpoint\":\"" ENDPOINT "\"," KEYS ",\"key\":7}",
         "key must be a VAPID public key in base64url"},
    };
    struct subscription subscription = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char error[WIRE_ERROR_MAX] = "";

        assert_int_equal(
            subscription_parse(cases[i].text, strlen(cases[i].text), ORIGINS, &subscription, error),
            RC_BAD);
        assert_memory_equal(error, cases[i].error, strlen(cases[i].error));
        assert_null(subscription.endpoint);
    }
}

static void
long_endpoint_is_rejected(void **state)
{
    char text[4096], path[SUBSCRIPTION_ENDPOINT_MAX], error[WIRE_ERROR_MAX] = "";
    size_t room = SUBSCRIPTION_ENDPOINT_MAX - strlen("https://push.example.net/");
    struct subscription subscription = {0};

    (void)state;
    for (size_t extra = 0; extra < 2; extra++) {
        memset(path, 'a', sizeof(path));
        path[room + extra] = '\0';
        snprintf(text, sizeof(text), "{\"endpoint\":\"https://push.example.net/%s\"," KEYS "}",
                 path);
        assert_int_equal(subscription_parse(text, strlen(text), ORIGINS, &subscription, error),
                         extra == 0 ? RC_OK : RC_BAD);
        subscription_free(&subscription);
    }
}

static void
origins_are_matched(void **state)
{
    static const struct {
        const char *origins, *endpoint;
        bool matches;
    } cases[] = {
        {"https://a.example", "https://a.example/x", true},
        {"https://a.example", "https://a.example", true},
        {"https://a.example", "https://a.example?x", true},
        {"https://a.example", "https://a.example#x", true},
        {"https://b.example,https://a.example", "https://a.example/x", true},
        {" https://b.example\t, https://a.example ,", "https://a.example/x", true},
        {"", "https://a.example/x", false},
        {"https://a.example", "a.example/x", false},
        {"https://a.example", "http://a.example/x", false},
        {"http://a.example", "http://a.example/x", true},
        {"http://a.example", "https://a.example/x", false},
        {"https://a.example", "https://A.example/x", false},
        {"https://a.example", "HTTPS://a.example/x", false},
        {"https://a.example", "https://a.example./x", false},
        {"https://a.example", "https://a.example:443/x", false},
        {"https://a.example:8443", "https://a.example:8443/x", true},
        {"https://a.example:8443", "https://a.example/x", false},
        {"https://a.example", "https://user@a.example/x", false},
        {"https://a.example", "https://a.example@evil.example/x", false},
        {"https://a.example", "https://a.example:x@evil.example/x", false},
        {"https://a.example", "https://a.example.evil.example/x", false},
        {"https://a.example", "https://evil.example/https://a.example/", false},
        {"https://a.example", "https://a.example\\@evil.example/", false},
        {"https://[::1]:99", "https://[::1]:99/x", true},
        {"https://*.example", "https://a.example/x", true},
        {"https://*.example", "https://a.b.example/x", true},
        {"https://*.example", "https://a-1.b_2.example/x", true},
        {"https://*.example", "https://example/x", false},
        {"https://*.example", "https://.example/x", false},
        {"https://*.example", "https://a..example/x", false},
        {"https://*.example", "https://aexample/x", false},
        {"https://*.example", "https://a.example:443/x", false},
        {"https://*.example", "http://a.example/x", false},
        {"https://*.example", "https://u@a.example/x", false},
        {"https://*.example", "https://evil/.example", false},
        {"https://*.example", "https://evil?.example", false},
        {"https://*.example", "https://evil#.example", false},
        {"https://*.example", "https://evil\\.example/", false},
        {"https://*.example", "https://evil:1.example/", false},
        {"https://*.example", "https://evil%2f.example/", false},
        {"https://*.example", "https://*.example/", false},
        {"https://*.example", "https://A.example/x", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t len = subscription_match_origin(cases[i].origins, cases[i].endpoint);

        if ((len > 0) != cases[i].matches)
            fail_msg("%s in %s", cases[i].endpoint, cases[i].origins);
        if (len > 0)
            assert_true(cases[i].endpoint[len] == '\0' ||
                        strchr("/?#", cases[i].endpoint[len]) != NULL);
    }
}

static void
hosts_of_a_wildcard_share_its_item(void **state)
{
    static const char origins[] = "https://a.example, https://*.b.example,https://c.example";

    (void)state;
    assert_int_equal(subscription_origin_item(origins, "https://a.example/x"), 1);
    assert_int_equal(subscription_origin_item(origins, "https://x.b.example/x"), 2);
    assert_int_equal(subscription_origin_item(origins, "https://y.z.b.example/y"), 2);
    assert_int_equal(subscription_origin_item(origins, "https://c.example"), 3);
    assert_int_equal(subscription_origin_item(origins, "https://d.example/x"), 0);
}

static void
endpoint_to_delete(void **state)
{
    static const char text[] = "{\"endpoint\":\"https://gone.example/x\"}";
    char error[WIRE_ERROR_MAX] = "", *endpoint = NULL;

    (void)state;
    assert_int_equal(subscription_parse_endpoint(text, strlen(text), &endpoint, error), RC_OK);
    assert_string_equal(endpoint, "https://gone.example/x");
    free(endpoint);
    endpoint = NULL;
    assert_int_equal(subscription_parse_endpoint("{}", 2, &endpoint, error), RC_BAD);
    assert_string_equal(error, "endpoint must be a URL of 1 to 2048 bytes");
    assert_null(endpoint);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_parsed),
        cmocka_unit_test(is_kept_in_the_store),
        cmocka_unit_test(each_error_names_the_field),
        cmocka_unit_test(origins_are_matched),
        cmocka_unit_test(hosts_of_a_wildcard_share_its_item),
        cmocka_unit_test(long_endpoint_is_rejected),
        cmocka_unit_test(endpoint_to_delete),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
