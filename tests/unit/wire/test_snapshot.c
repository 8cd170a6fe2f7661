/*
 * test_snapshot.c: a snapshot is parsed strictly and contains exactly the transactions in its
 * string.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/snapshot.h"

static struct snapshot
parse(const char *text)
{
    struct snapshot snapshot = {0};

    assert_int_equal(snapshot_parse(text, strlen(text), &snapshot), RC_OK);
    return snapshot;
}

static void
transactions_are_compared(void **state)
{
    static const uint64_t contained[] = {1, 7420, 7422, 7423, 7425, 7429};
    static const uint64_t running[] = {7421, 7424, 7430, 7431, UINT64_MAX};
    struct snapshot snapshot = parse("7421:7430:7421,7424");

    (void)state;
    for (size_t i = 0; i < sizeof(contained) / sizeof(contained[0]); i++)
        assert_true(snapshot_contains(&snapshot, contained[i]));
    for (size_t i = 0; i < sizeof(running) / sizeof(running[0]); i++)
        assert_false(snapshot_contains(&snapshot, running[i]));
    snapshot_free(&snapshot);
}

static void
empty_list_means_all_finished(void **state)
{
    struct snapshot snapshot = parse("7421:7421:");

    (void)state;
    assert_true(snapshot_contains(&snapshot, 7420));
    assert_false(snapshot_contains(&snapshot, 7421));
    snapshot_free(&snapshot);
    snapshot = parse("5:9:");
    assert_true(snapshot_contains(&snapshot, 8));
    snapshot_free(&snapshot);
}

static void
ids_have_64_bits(void **state)
{
    struct snapshot snapshot =
        parse("18446744073709551613:18446744073709551615:18446744073709551614");

    (void)state;
    assert_true(snapshot_contains(&snapshot, UINT64_MAX - 2));
    assert_false(snapshot_contains(&snapshot, UINT64_MAX - 1));
    assert_false(snapshot_contains(&snapshot, UINT64_MAX));
    snapshot_free(&snapshot);
}

static void
long_list_is_searched(void **state)
{
    char text[32 * 1000];
    size_t len = (size_t)snprintf(text, sizeof(text), "1000:9000:");
    struct snapshot snapshot;

    (void)state;
    for (uint64_t xid = 1000; xid < 3000; xid += 2)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%u", xid > 1000 ? "," : "",
                                (unsigned)xid);
    snapshot = parse(text);
    assert_int_equal(snapshot.running_count, 1000);
    for (uint64_t xid = 1000; xid < 3000; xid++)
        assert_int_equal(snapshot_contains(&snapshot, xid), xid % 2 == 1);
    assert_true(snapshot_contains(&snapshot, 8999));
    snapshot_free(&snapshot);
}

static void
other_strings_are_rejected(void **state)
{
    static const char *const texts[] = {"",
                                        ":",
                                        "::",
                                        "1",
                                        "1:2",
                                        "1:2:,",
                                        "1:2:1,",
                                        "1:3:,1",
                                        "1:3:1,,2",
                                        "1:3:2,1",
                                        "2:1:",
                                        "0:1:",
                                        "01:2:",
                                        "+1:2:",
                                        "-1:2:",
                                        " 1:2:",
                                        "1:2: ",
                                        "1:2:3:",
                                        "5:9:4",
                                        "5:9:9",
                                        "1:2:x",
                                        "1:18446744073709551616:",
                                        "1:99999999999999999999999:"};
    struct snapshot snapshot = {.xmin = 42};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(snapshot_parse(texts[i], strlen(texts[i]), &snapshot), RC_BAD);
    assert_int_equal(snapshot.xmin, 42);
}

static void
length_is_limited(void **state)
{
    char *text = malloc(SNAPSHOT_TEXT_MAX + 1);
    struct snapshot snapshot;

    (void)state;
    memset(text, '1', SNAPSHOT_TEXT_MAX + 1);
    assert_int_equal(snapshot_parse(text, SNAPSHOT_TEXT_MAX + 1, &snapshot), RC_LIMIT);
    assert_int_equal(snapshot_parse(text, SNAPSHOT_TEXT_MAX, &snapshot), RC_BAD);
    free(text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transactions_are_compared),
        cmocka_unit_test(empty_list_means_all_finished),
        cmocka_unit_test(ids_have_64_bits),
        cmocka_unit_test(long_list_is_searched),
        cmocka_unit_test(other_strings_are_rejected),
        cmocka_unit_test(length_is_limited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
