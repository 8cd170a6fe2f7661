/* test_shard_dependency.c: the string of dependencies on other shards is parsed as written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "store/entry.h"

static void
test_strings_are_parsed_as_written(void **state)
{
    const struct position all[] = {
        {7, 1}, {0, 0}, {UINT64_MAX, UINT64_MAX}, {UINT64_C(0x3a00f28), 0x10001}};
    struct position needs[4] = {{8, 0}};
    char written[SHARD_DEPENDENCY_MAX];

    (void)state;
    shard_dependency_text(0, all, 4, written);
    assert_string_equal(written, "2:ffffffffffffffff.ffffffffffffffff 3:3a00f28.10001");
    shard_dependency_read((struct bytes){(const unsigned char *)written, strlen(written)}, needs,
                          4);
    shard_dependency_text(3, all, 4, written);
    assert_string_equal(written, "0:7.1");
    shard_dependency_read((struct bytes){(const unsigned char *)written, strlen(written)}, needs,
                          4);
    assert_int_equal(needs[0].lsn, 8); /* a smaller value has no effect */
    assert_int_equal(needs[1].lsn, 0);
    assert_true(needs[2].ordinal == UINT64_MAX);
    assert_int_equal(needs[3].ordinal, 0x10001);
}

static void
test_invalid_strings_are_ignored(void **state)
{
    static const char *const texts[] = {"",
                                        "1",
                                        "1:",
                                        "1:9",
                                        "1:9.",
                                        "x:9.9",
                                        "1:x.9",
                                        "10:9.9",
                                        ":9.9",
                                        "1:9.9x",
                                        " ",
                                        "1::9.9",
                                        "99999999999999999:9.9"};
    struct position needs[2];

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        memset(needs, 0, sizeof(needs));
        shard_dependency_read((struct bytes){(const unsigned char *)texts[i], strlen(texts[i])},
                              needs, 2);
        assert_int_equal(needs[0].lsn, 0);
        assert_int_equal(needs[1].lsn, strcmp(texts[i], "1:9.9x") == 0 ? 9 : 0);
    }
    shard_dependency_read((struct bytes){NULL, 0}, needs, 2);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strings_are_parsed_as_written),
        cmocka_unit_test(test_invalid_strings_are_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
