/* test_subscription.c: topics are added and removed within limits, and reported to the client. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "hub/session_private.h"

static void
add(struct subscription *subscription, const char *name)
{
    assert_int_equal(subscription_add(subscription, &name, 1), RC_OK);
}

static bool
has(const struct subscription *subscription, const char *topic)
{
    return subscription_has(subscription,
                            (struct bytes){(const unsigned char *)topic, strlen(topic)});
}

static void
is_reported_as(const struct subscription *subscription, bool has_request_id, const char *expected)
{
    struct buffer out;

    buffer_init(&out, SUBSCRIPTION_FRAME_MAX);
    assert_int_equal(subscription_write(subscription, has_request_id, 7, &out), RC_OK);
    assert_int_equal(out.len, strlen(expected));
    assert_memory_equal(out.bytes, expected, out.len);
    buffer_free(&out);
}

static void
test_a_subscription_starts_with_all_topics(void **state)
{
    struct subscription subscription = {.topics = NULL};

    (void)state;
    assert_true(subscription_is_all(&subscription));
    assert_true(has(&subscription, "a"));
    is_reported_as(&subscription, true, "{\"t\":\"subscribed\",\"r\":7,\"topics\":[\"*\"]}");
}

static void
test_the_first_topic_narrows_a_subscription(void **state)
{
    struct subscription subscription = {.topics = NULL};

    (void)state;
    add(&subscription, "b.*");
    assert_false(subscription_is_all(&subscription));
    assert_true(has(&subscription, "b.1"));
    assert_false(has(&subscription, "a"));
    add(&subscription, "a");
    assert_true(has(&subscription, "a"));
    is_reported_as(&subscription, false, "{\"t\":\"subscribed\",\"topics\":[\"a\",\"b.*\"]}");
    subscription_free(&subscription);
    assert_true(subscription_is_all(&subscription));
}

/* A client that unsubscribes from its only topic does not receive all other topics. */
static void
test_without_topics_nothing_is_sent(void **state)
{
    struct subscription subscription = {.topics = NULL};
    const char *name = "a";

    (void)state;
    add(&subscription, name);
    subscription_remove(&subscription, &name, 1);
    assert_false(subscription_is_all(&subscription));
    assert_false(has(&subscription, "a"));
    is_reported_as(&subscription, false, "{\"t\":\"subscribed\",\"topics\":[]}");
    subscription_free(&subscription);
}

static void
test_too_many_topics_change_nothing(void **state)
{
    struct subscription subscription = {.topics = NULL};
    static char texts[TOPICS_MAX + 1][16];
    const char *names[TOPICS_MAX + 1];

    (void)state;
    for (int i = 0; i <= TOPICS_MAX; i++) {
        snprintf(texts[i], sizeof(texts[i]), "t%d", i);
        names[i] = texts[i];
    }
    assert_int_equal(subscription_add(&subscription, names, TOPICS_MAX + 1), RC_LIMIT);
    assert_true(subscription_is_all(&subscription));
    assert_int_equal(subscription_add(&subscription, names, TOPICS_MAX), RC_OK);
    assert_int_equal(subscription_add(&subscription, names + TOPICS_MAX, 1), RC_LIMIT);
    assert_false(has(&subscription, texts[TOPICS_MAX]));
    assert_true(has(&subscription, texts[0]));
    subscription_free(&subscription);
}

static void
test_the_longest_topics_fit_the_frame(void **state)
{
    struct subscription subscription = {.topics = NULL};
    static char text[TOPICS_BYTES_MAX + 1];
    struct buffer out, small;

    (void)state;
    memset(text, '"', TOPICS_BYTES_MAX); /* two bytes each in JSON */
    add(&subscription, text);
    buffer_init(&out, SUBSCRIPTION_FRAME_MAX);
    assert_int_equal(subscription_write(&subscription, true, INT64_MIN, &out), RC_OK);
    assert_in_range(out.len, 2 * TOPICS_BYTES_MAX, SUBSCRIPTION_FRAME_MAX);
    buffer_init(&small, TOPICS_BYTES_MAX);
    assert_int_not_equal(subscription_write(&subscription, true, 1, &small), RC_OK);
    buffer_free(&out);
    buffer_free(&small);
    subscription_free(&subscription);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_subscription_starts_with_all_topics),
        cmocka_unit_test(test_the_first_topic_narrows_a_subscription),
        cmocka_unit_test(test_without_topics_nothing_is_sent),
        cmocka_unit_test(test_too_many_topics_change_nothing),
        cmocka_unit_test(test_the_longest_topics_fit_the_frame),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
