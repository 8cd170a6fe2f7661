/* test_audience_name.c: audience names follow the rules of clairon.watch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/audience_name.h"

static void
valid_names_are_accepted(void **state)
{
    char name[AUDIENCE_NAME_MAX + 2] = "";

    (void)state;
    assert_true(audience_is_word("STRUCTURE"));
    assert_true(audience_is_word("_a9"));
    memset(name, 'x', AUDIENCE_NAME_MAX);
    assert_true(audience_is_word(name));
    name[AUDIENCE_NAME_MAX] = 'x';
    assert_false(audience_is_word(name));
}

static void
invalid_names_are_rejected(void **state)
{
    static const char *const names[] = {"", "9a", "a b", "a:b", "a\n", "caf\xc3\xa9", "*"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (audience_is_word(names[i]))
            fail_msg("\"%s\" was accepted", names[i]);
}

static void
reserved_names_are_case_insensitive(void **state)
{
    (void)state;
    assert_true(audience_is_reserved("USER"));
    assert_true(audience_is_reserved("All"));
    assert_false(audience_is_reserved("USERS"));
    assert_false(audience_is_reserved("ROLE"));
}

static bool
split(const char *kind, const char *target, struct audience_parts *parts)
{
    return audience_split((struct bytes){(const unsigned char *)kind, strlen(kind)},
                          (struct bytes){(const unsigned char *)target, strlen(target)}, parts);
}

static void
assert_part(const struct audience_parts *parts, size_t nth, const char *kind, const char *target)
{
    assert_int_equal(parts->kinds[nth].len, strlen(kind));
    assert_memory_equal(parts->kinds[nth].at, kind, strlen(kind));
    assert_int_equal(parts->targets[nth].len, strlen(target));
    assert_memory_equal(parts->targets[nth].at, target, strlen(target));
}

static void
test_composite_names_are_validated(void **state)
{
    (void)state;
    assert_true(audience_is_composite_name("STRUCTURE+ROLE"));
    assert_true(audience_is_composite_name("A+B+C+D"));
    assert_true(audience_is_composite_name("A+A"));
    assert_false(audience_is_composite_name("STRUCTURE"));
    assert_false(audience_is_composite_name("A+B+C+D+E"));
    assert_false(audience_is_composite_name("A+"));
    assert_false(audience_is_composite_name("+A"));
    assert_false(audience_is_composite_name("A++B"));
    assert_false(audience_is_composite_name("USER+ROLE"));
    assert_false(audience_is_composite_name("ROLE+all"));
    assert_false(audience_is_composite_name("A+b c"));
}

static void
test_composite_targets_are_split_and_unescaped(void **state)
{
    struct audience_parts parts;
    unsigned char text[AUDIENCE_COMPOSITE_MAX];
    char longest[3 + AUDIENCE_TARGET_MAX + 2];

    (void)state;
    assert_true(split("STRUCTURE+ROLE", "s1+admin", &parts));
    assert_int_equal(parts.count, 2);
    assert_part(&parts, 0, "STRUCTURE", "s1");
    assert_part(&parts, 1, "ROLE", "admin");
    assert_true(split("A+B", "a\\+b+c\\\\", &parts));
    assert_part(&parts, 0, "A", "a+b");
    assert_part(&parts, 1, "B", "c\\");
    assert_int_equal(audience_join_parts(&parts, text), 8);
    assert_memory_equal(text, "a\\+b+c\\\\", 8);
    assert_true(
        split("A+B", "a\\x+b", &parts)); /* a backslash before any other character is literal */
    assert_part(&parts, 0, "A", "a\\x");
    assert_int_equal(audience_join_parts(&parts, text), 6);
    assert_memory_equal(text, "a\\\\x+b", 6);

    assert_false(split("A+B", "a", &parts));
    assert_false(split("A+B", "a\\+b", &parts));
    assert_false(split("A+B", "a+b+c", &parts));
    assert_false(split("A+B+C", "a+b", &parts));
    assert_false(split("A+B", "a+", &parts));
    assert_false(split("A+B", "+b", &parts));
    assert_false(split("A+B", "", &parts));
    assert_false(split("A+B+C+D+E", "1+2+3+4+5", &parts));

    memset(longest, 'x', sizeof(longest));
    memcpy(longest, "a+", 2);
    longest[2 + AUDIENCE_TARGET_MAX] = '\0';
    assert_true(split("A+B", longest, &parts));
    longest[2 + AUDIENCE_TARGET_MAX] = 'x';
    longest[3 + AUDIENCE_TARGET_MAX] = '\0';
    assert_false(split("A+B", longest, &parts));
}

static bool
has_part(const char *name, const char *kind)
{
    return audience_has_part(name, (struct bytes){(const unsigned char *)kind, strlen(kind)});
}

static void
parts_of_a_name_are_found(void **state)
{
    (void)state;
    assert_true(has_part("STRUCTURE", "STRUCTURE"));
    assert_true(has_part("STRUCTURE+ROLE+TEAM", "STRUCTURE"));
    assert_true(has_part("STRUCTURE+ROLE+TEAM", "ROLE"));
    assert_true(has_part("STRUCTURE+ROLE+TEAM", "TEAM"));
    assert_false(has_part("STRUCTURE+ROLE", "STRUCT"));
    assert_false(has_part("STRUCTURE+ROLE", "ROLES"));
    assert_false(has_part("STRUCTURE+ROLE", "STRUCTURE+ROLE"));
    assert_false(has_part("STRUCTURE", ""));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_composite_names_are_validated),
        cmocka_unit_test(test_composite_targets_are_split_and_unescaped),
        cmocka_unit_test(valid_names_are_accepted),
        cmocka_unit_test(invalid_names_are_rejected),
        cmocka_unit_test(reserved_names_are_case_insensitive),
        cmocka_unit_test(parts_of_a_name_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
