/* test_topics.c: a subscription matches only its topics. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "hub/session_private.h"

static bool
shows(const struct topics *topics, const char *topic)
{
    return topics_match(topics, (struct bytes){(const unsigned char *)topic, strlen(topic)});
}

static void
add(struct topics **topics, const char *name)
{
    assert_int_equal(topics_add(topics, &name, 1), RC_OK);
}

static void
is_listed_as(const struct topics *topics, const char *expected)
{
    struct buffer out;

    buffer_init(&out, 65536);
    assert_int_equal(topics_write(topics, &out), RC_OK);
    assert_string_equal(out.bytes, expected);
    buffer_free(&out);
}

static void
all_topics_match_by_default(void **state)
{
    (void)state;
    assert_true(shows(NULL, "a.b"));
    assert_true(shows(NULL, ""));
    is_listed_as(NULL, "[\"*\"]");
}

static void
names_and_prefixes_match(void **state)
{
    struct topics *topics = NULL;

    (void)state;
    add(&topics, "srv.dev.orders");
    assert_true(shows(topics, "srv.dev.orders"));
    assert_false(shows(topics, "srv.dev.orders2"));
    assert_false(shows(topics, "srv.dev.order"));
    assert_false(shows(topics, ""));
    add(&topics, "srv.test.*");
    add(&topics, "srv.test.a.*"); /* already covered by srv.test.* */
    add(&topics, "srv.test.z");
    assert_true(shows(topics, "srv.test."));
    assert_true(shows(topics, "srv.test.a.b"));
    assert_true(shows(topics, "srv.test.zz"));
    assert_false(shows(topics, "srv.test"));
    assert_false(shows(topics, "srv.tess.x"));
    assert_true(shows(topics, "srv.dev.orders"));
    is_listed_as(topics, "[\"srv.dev.orders\",\"srv.test.*\",\"srv.test.a.*\",\"srv.test.z\"]");
    topics_free(topics);
}

static void
added_names_are_removed(void **state)
{
    static const char *const WIDE[] = {"a.*"};
    static const char *const REST[] = {"a.b.*", "x", "never added"};
    struct topics *topics = NULL;

    (void)state;
    add(&topics, "a.*");
    add(&topics, "a.b.*");
    add(&topics, "x");
    add(&topics, "x");
    topics_remove(&topics, WIDE, 1);
    assert_false(shows(topics, "a.c"));
    assert_true(shows(topics, "a.b.c"));
    assert_true(shows(topics, "x"));
    topics_remove(&topics, REST, 3);
    assert_false(shows(topics, "a.b.c"));
    assert_false(shows(topics, "x"));
    is_listed_as(topics, "[]");
    topics_free(topics);
}

static void
all_topics_are_removed_only_by_name(void **state)
{
    static const char *const ONE[] = {"a"};
    static const char *const EVERYTHING[] = {"*"};
    struct topics *topics = NULL;

    (void)state;
    topics_remove(&topics, ONE, 1);
    assert_true(shows(topics, "b"));
    topics_remove(&topics, EVERYTHING, 1);
    assert_false(shows(topics, "b"));
    add(&topics, "*");
    assert_true(shows(topics, "b"));
    topics_free(topics);
}

static void
number_and_length_are_limited(void **state)
{
    struct topics *topics = NULL;
    const char *names[SESSION_TOPICS_MAX + 1];
    char *texts = memory_new((SESSION_TOPICS_MAX + 1) * 16);
    char *long_one = memory_new(SESSION_TOPICS_BYTES_MAX + 2);
    const char *too_long = long_one;

    (void)state;
    for (size_t i = 0; i <= SESSION_TOPICS_MAX; i++) {
        names[i] = texts + i * 16;
        snprintf(texts + i * 16, 16, "topic-%zu", i);
    }
    memset(long_one, 'x', SESSION_TOPICS_BYTES_MAX + 1);
    assert_int_equal(topics_add(&topics, names, SESSION_TOPICS_MAX + 1), RC_LIMIT);
    assert_null(topics);
    assert_int_equal(topics_add(&topics, &too_long, 1), RC_LIMIT);
    assert_int_equal(topics_add(&topics, names, SESSION_TOPICS_MAX), RC_OK);
    assert_int_equal(topics_add(&topics, names, SESSION_TOPICS_MAX), RC_OK); /* duplicates */
    assert_int_equal(topics_add(&topics, names + SESSION_TOPICS_MAX, 1), RC_LIMIT);
    assert_true(shows(topics, "topic-255"));
    assert_false(shows(topics, "topic-256"));
    topics_free(topics);
    free(texts);
    free(long_one);
}

/* Each byte is escaped, so that it takes two. */
static void
longest_topics_fit_a_control_frame(void **state)
{
    struct topics *topics = NULL;
    char *longest = memory_new(SESSION_TOPICS_BYTES_MAX + 1);
    struct buffer out;

    (void)state;
    memset(longest, '"', SESSION_TOPICS_BYTES_MAX);
    add(&topics, longest);
    buffer_init(&out, 3 * SESSION_TOPICS_BYTES_MAX);
    assert_int_equal(topics_write(topics, &out), RC_OK);
    assert_in_range(out.len, 2 * SESSION_TOPICS_BYTES_MAX, 2 * SESSION_TOPICS_BYTES_MAX + 4);
    buffer_free(&out);
    topics_free(topics);
    free(longest);
}

/* A linear search for an equal name or a matching prefix. */
static bool
model_shows(char names[][8], size_t count, const char *topic)
{
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(names[i]);

        if (strcmp(names[i], topic) == 0 ||
            (names[i][len - 1] == '*' && strncmp(names[i], topic, len - 1) == 0))
            return true;
    }
    return false;
}

static void
random_text(char *text, size_t max, bool may_be_prefix)
{
    size_t len = 1 + (size_t)rand() % max;

    for (size_t i = 0; i < len; i++)
        text[i] = (char)('a' + rand() % 3);
    if (may_be_prefix && rand() % 3 == 0)
        text[len - 1] = '*';
    text[len] = '\0';
}

static void
matches_agree_with_a_linear_search(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < 300; round++) {
        struct topics *topics = NULL;
        char names[12][8];
        size_t count = 1 + (size_t)rand() % 12;

        for (size_t i = 0; i < count; i++) {
            random_text(names[i], 5, true);
            add(&topics, names[i]);
        }
        for (int i = 0; i < 200; i++) {
            char topic[8];

            random_text(topic, 6, false);
            assert_int_equal(shows(topics, topic), model_shows(names, count, topic));
        }
        topics_free(topics);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_topics_match_by_default),
        cmocka_unit_test(names_and_prefixes_match),
        cmocka_unit_test(added_names_are_removed),
        cmocka_unit_test(all_topics_are_removed_only_by_name),
        cmocka_unit_test(number_and_length_are_limited),
        cmocka_unit_test(longest_topics_fit_a_control_frame),
        cmocka_unit_test(matches_agree_with_a_linear_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
