/* test_digits.c: numbers are written as digits, like printf writes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "wire/bytes.h"
#include "wire/frame.h"

static void
check_decimal(uint64_t number)
{
    char text[BYTES_DECIMAL_MAX + 2], expected[BYTES_DECIMAL_MAX + 2];
    const int len = snprintf(expected, sizeof(expected), "%" PRIu64, number);

    memset(text, 'x', sizeof(text));
    assert_ptr_equal(bytes_decimal(number, text), text + len);
    assert_memory_equal(text, expected, (size_t)len);
    assert_int_equal(text[len], 'x');
}

static void
test_decimal_digits_of_each_length(void **state)
{
    uint64_t power = 1;

    (void)state;
    check_decimal(0);
    check_decimal(UINT64_MAX);
    for (int digits = 1; digits <= BYTES_DECIMAL_MAX; digits++) {
        check_decimal(power - 1);
        check_decimal(power);
        check_decimal(power + 1);
        power *= digits < BYTES_DECIMAL_MAX ? 10 : 1;
    }
}

static void
test_position_digits(void **state)
{
    char text[FRAME_POSITION_TEXT + 1];

    (void)state;
    frame_position_text(UINT64_C(0x0123456789abcdef), UINT64_C(0xfedcba9876543210), text);
    assert_string_equal(text, "0123456789abcdeffedcba9876543210");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decimal_digits_of_each_length),
        cmocka_unit_test(test_position_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
