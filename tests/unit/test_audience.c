/* test_audience.c: does a word name an audience where clairon.watch would take it? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/audience.h"

static void
takes_words(void **state)
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
takes_nothing_else(void **state)
{
    static const char *const names[] = {"", "9a", "a b", "a:b", "a\n", "caf\xc3\xa9", "*"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (audience_is_word(names[i]))
            fail_msg("\"%s\" was taken", names[i]);
}

static void
knows_reserved_words_in_any_case(void **state)
{
    (void)state;
    assert_true(audience_is_reserved("USER"));
    assert_true(audience_is_reserved("All"));
    assert_false(audience_is_reserved("USERS"));
    assert_false(audience_is_reserved("ROLE"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_words),
        cmocka_unit_test(takes_nothing_else),
        cmocka_unit_test(knows_reserved_words_in_any_case),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
