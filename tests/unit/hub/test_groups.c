/* test_groups.c: a session's memberships are replaced by replies and outdated by changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "hub/audience.h"

#define TEXT(text) ((struct bytes){(const unsigned char *)(text), sizeof(text) - 1})
#define KEY(text) (text), sizeof(text) - 1

/* only its address is used */
static struct session *const SESSION = (struct session *)&SESSION;

static void
test_a_reply_makes_memberships_current(void **state)
{
    struct session_groups groups = {.memberships = NULL};

    (void)state;
    assert_true(groups_are_current(&groups));
    groups_want(&groups, NULL);
    groups_want(&groups, NULL);
    assert_true(groups_are_wanted(&groups));
    groups_begin_request(&groups, NULL);
    assert_false(groups_are_wanted(&groups));
    assert_false(groups_are_current(&groups));
    groups_end_request(&groups, true, NULL);
    assert_true(groups_are_current(&groups));
}

static void
test_a_failed_request_is_repeated(void **state)
{
    struct session_groups groups = {.memberships = NULL};

    (void)state;
    groups_want(&groups, NULL);
    groups_begin_request(&groups, NULL);
    groups_end_request(&groups, false, NULL);
    assert_true(groups_are_wanted(&groups));
    groups_begin_request(&groups, NULL);
    assert_true(groups_outdate(&groups, NULL));
    groups_end_request(&groups, false, NULL);
    assert_true(groups_are_wanted(&groups));
}

static void
test_a_reply_that_may_predate_a_change_is_repeated(void **state)
{
    struct session_groups groups = {.memberships = NULL};

    (void)state;
    groups_want(&groups, NULL);
    groups_begin_request(&groups, NULL);
    assert_true(groups_outdate(&groups, NULL));
    assert_true(groups_outdate(&groups, NULL));
    assert_false(groups_are_current(&groups));
    groups_end_request(&groups, true, NULL);
    assert_true(groups_are_wanted(&groups));
    groups_begin_request(&groups, NULL);
    groups_end_request(&groups, true, NULL);
    assert_true(groups_are_current(&groups));
}

static void
test_only_a_pending_request_is_outdated(void **state)
{
    struct session_groups groups = {.memberships = NULL};

    (void)state;
    assert_false(groups_outdate(&groups, NULL));
    assert_true(groups_are_current(&groups));
    groups_want(&groups, NULL);
    assert_false(groups_outdate(&groups, NULL));
    assert_true(groups_are_wanted(&groups));
}

static void
test_granted_memberships_are_replaced(void **state)
{
    struct session_groups groups = {.memberships = NULL};
    struct audience *all = NULL;
    static char too_long[AUDIENCE_KEY_MAX];
    const struct bytes reply[] = {TEXT("STRUCTURE:s2"),
                                  TEXT("ROLE:admin"),
                                  {(const unsigned char *)too_long, sizeof(too_long)},
                                  TEXT("")};

    (void)state;
    groups_join(&groups, &all, SESSION, KEY("ROLE:admin"), false); /* from the token */
    groups_join(&groups, &all, SESSION, KEY("STRUCTURE:s1"), true);
    groups_replace(&groups, &all, SESSION, reply, 4);
    assert_int_equal(HASH_COUNT(all), 2);
    assert_false(groups_have(&groups, TEXT("STRUCTURE"), TEXT("s1")));
    assert_true(groups_have(&groups, TEXT("STRUCTURE"), TEXT("s2")));
    groups_replace(&groups, &all, SESSION, NULL, 0);
    assert_false(groups_have(&groups, TEXT("STRUCTURE"), TEXT("s2")));
    assert_true(groups_have(&groups, TEXT("ROLE"), TEXT("admin")));
    groups_leave(&groups, &all, KEY("ROLE:admin"));
    assert_true(groups_have(&groups, TEXT("ROLE"), TEXT("admin")));
    groups_clear(&groups, &all);
    assert_false(groups_have(&groups, TEXT("ROLE"), TEXT("admin")));
    assert_null(all);
}

static void
test_a_new_membership_is_detected(void **state)
{
    struct session_groups groups = {.memberships = NULL};
    struct audience *all = NULL;
    const struct bytes reply[] = {TEXT("ROLE:admin"), TEXT("STRUCTURE:s1")};

    (void)state;
    assert_false(groups_lack(&groups, reply, 0));
    groups_join(&groups, &all, SESSION, KEY("ROLE:admin"), true);
    assert_false(groups_lack(&groups, reply, 1));
    assert_true(groups_lack(&groups, reply, 2));
    groups_join(&groups, &all, SESSION, KEY("STRUCTURE:s1"), false);
    assert_true(groups_lack(&groups, reply, 2)); /* only from the token */
    groups_leave(&groups, &all, KEY("ROLE:admin"));
    assert_true(groups_lack(&groups, reply, 1));
    groups_clear(&groups, &all);
}

static void
test_a_composite_audience_requires_every_part(void **state)
{
    struct session_groups groups = {.memberships = NULL};
    struct audience *all = NULL;

    (void)state;
    groups_join(&groups, &all, SESSION, KEY("STRUCTURE:s1"), true);
    assert_false(groups_have(&groups, TEXT("STRUCTURE+ROLE"), TEXT("s1+admin")));
    groups_join(&groups, &all, SESSION, KEY("ROLE:admin"), true);
    assert_true(groups_have(&groups, TEXT("STRUCTURE+ROLE"), TEXT("s1+admin")));
    assert_false(groups_have(&groups, TEXT("STRUCTURE+ROLE"), TEXT("s2+admin")));
    groups_clear(&groups, &all);
}

static void
test_token_groups_are_written_as_json(void **state)
{
    struct session_groups groups = {.memberships = NULL};
    struct audience *all = NULL;
    struct buffer text;

    (void)state;
    buffer_init(&text, 1000);
    groups_join(&groups, &all, SESSION, KEY("ALL"), false);
    groups_join(&groups, &all, SESSION, KEY("USER:u1"), false);
    assert_int_equal(groups_write_token(&groups, &text), RC_OK);
    assert_string_equal(text.bytes, "{}");
    groups_join(&groups, &all, SESSION, KEY("STRUCTURE:s\"1"), false);
    groups_join(&groups, &all, SESSION, KEY("ROLE:a:b"), false);
    groups_join(&groups, &all, SESSION, KEY("STRUCTURE:s2"), false);
    groups_join(&groups, &all, SESSION, KEY("STRUCTURE:s3"), true);
    buffer_clear(&text);
    assert_int_equal(groups_write_token(&groups, &text), RC_OK);
    assert_string_equal(text.bytes, "{\"STRUCTURE\":[\"s2\",\"s\\\"1\"],\"ROLE\":[\"a:b\"]}");
    buffer_free(&text);
    groups_clear(&groups, &all);
}

static void
test_hash_depends_only_on_the_set(void **state)
{
    struct session_groups groups = {.memberships = NULL}, same = {.memberships = NULL};
    struct audience *all = NULL;

    (void)state;
    groups_join(&groups, &all, SESSION, KEY("A:1"), false);
    groups_join(&groups, &all, SESSION, KEY("B:2"), true);
    groups_join(&same, &all, SESSION, KEY("B:2"), false);
    assert_true(groups_hash(&groups) != groups_hash(&same));
    groups_join(&same, &all, SESSION, KEY("A:1"), true);
    assert_true(groups_hash(&groups) == groups_hash(&same));
    groups_clear(&groups, &all);
    groups_clear(&same, &all);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_reply_makes_memberships_current),
        cmocka_unit_test(test_a_failed_request_is_repeated),
        cmocka_unit_test(test_a_reply_that_may_predate_a_change_is_repeated),
        cmocka_unit_test(test_only_a_pending_request_is_outdated),
        cmocka_unit_test(test_granted_memberships_are_replaced),
        cmocka_unit_test(test_a_new_membership_is_detected),
        cmocka_unit_test(test_a_composite_audience_requires_every_part),
        cmocka_unit_test(test_token_groups_are_written_as_json),
        cmocka_unit_test(test_hash_depends_only_on_the_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
