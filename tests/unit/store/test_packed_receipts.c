/* test_packed_receipts.c: the receipts of stream entries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "store/read/packed_receipts.h"
#include "store/receipts.h"
#include "tests/unit/store/replies.h"

#define ID "0190f5c8-0000-8000-8000-000000000001"
#define OTHER "0190f5c8-0000-8000-8000-000000000002"
#define PAIR                                                                                       \
    "{\"id\":\"\1:\2:acked:1\",\"notification\":\"\1\",\"user_id\":\"\2\",\"at\":\4,"              \
    "\"delivered_at\":\3}"
#define OWN "{\"id\":\"\1::acked:1\",\"notification\":\"\1\"}"

/* The receipts of one entry, as "number/count id data;". */
static char seen[4096];

static const char *
unpacked(size_t count, const char *const *fields)
{
    const struct bytes entry = {(const unsigned char *)"1-1", 3};
    struct unpacked_receipts all = {0};
    struct store_receipt items[16];
    redisReply *reply = array(count);

    for (size_t i = 0; i < count; i++)
        reply->element[i] = text(fields[i], strlen(fields[i]));
    unpacked_receipts_add(&all, entry, reply);
    assert_in_range(all.count, 1, 16);
    unpacked_receipts_read(&all, items);
    seen[0] = '\0';
    for (size_t i = 0; i < all.count; i++) {
        size_t len = strlen(seen);

        assert_true(bytes_equal(items[i].entry, entry));
        snprintf(seen + len, sizeof(seen) - len, "%u/%u %.*s %.*s;", items[i].number,
                 items[i].count, (int)items[i].id.len, (const char *)items[i].id.at,
                 (int)items[i].data.len, (const char *)items[i].data.at);
    }
    unpacked_receipts_free(&all);
    freeReplyObject(reply);
    return seen;
}

#define UNPACKED(...)                                                                              \
    unpacked(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *[]){__VA_ARGS__})

static void
test_an_entry_has_one_receipt(void **state)
{
    (void)state;
    assert_string_equal(UNPACKED("id", "x:u:acked:1", "data", "{}"), "0/1 x:u:acked:1 {};");
    assert_string_equal(UNPACKED("data", "{}", "id", "x"), "0/1 x {};");
}

static void
test_a_packed_entry_has_several(void **state)
{
    (void)state;
    assert_string_equal(
        UNPACKED("n", "3", "t", PAIR, "a", "1796068299123", ID, "u", "d", "1796068299005", "", "v",
                 "t", OWN, "", ""),
        "0/3 " ID ":u:acked:1 {\"id\":\"" ID ":u:acked:1\",\"notification\":\"" ID
        "\",\"user_id\":\"u\",\"at\":\"2026-11-30T19:51:39.123000Z\",\"delivered_at\":null};"
        "1/3 " ID ":v:acked:1 {\"id\":\"" ID ":v:acked:1\",\"notification\":\"" ID
        "\",\"user_id\":\"v\",\"at\":\"2026-11-30T19:51:39.123000Z\",\"delivered_at\":"
        "\"2026-11-30T19:51:39.005000Z\"};"
        "2/3 " ID "::acked:1 {\"id\":\"" ID "::acked:1\",\"notification\":\"" ID "\"};");
}

static void
test_a_template_has_two_receipts(void **state)
{
    (void)state;
    assert_string_equal(
        UNPACKED("n", "4", "t", OWN "\5" OWN, ID, "u", OTHER, "u"),
        "0/4 " ID "::acked:1 {\"id\":\"" ID "::acked:1\",\"notification\":\"" ID "\"};1/4 " ID
        "::acked:1 {\"id\":\"" ID "::acked:1\",\"notification\":\"" ID "\"};2/4 " OTHER
        "::acked:1 {\"id\":\"" OTHER "::acked:1\",\"notification\":\"" OTHER "\"};3/4 " OTHER
        "::acked:1 {\"id\":\"" OTHER "::acked:1\",\"notification\":\"" OTHER "\"};");
}

static void
test_names_are_escaped(void **state)
{
    (void)state;
    assert_string_equal(
        UNPACKED("n", "1", "t", "{\"id\":\"\2\",\"notification\":\"\"}", ID, "a\"\\\n\1\xff"),
        "0/1 a\\\"\\\\\\n\\u0001\xef\xbf\xbd "
        "{\"id\":\"a\\\"\\\\\\n\\u0001\xef\xbf\xbd\",\"notification\":\"\"};");
}

static void
test_a_damaged_entry_has_no_data(void **state)
{
    (void)state;
    assert_string_equal(UNPACKED("n", "0"), "0/1  ;");
    assert_string_equal(UNPACKED("n", "1", ID, "u"), "0/1  ;");
    assert_string_equal(UNPACKED("n", "1", "t", OWN, "", "u"), "0/1  ;");
    assert_string_equal(UNPACKED("n", "1", "t", "{}", ID, "u"), "0/1  ;");
    assert_string_equal(UNPACKED("n", "1", "t", "\6", ID, "u"), "0/1  ;");
    assert_string_equal(UNPACKED("n", "1", "t", OWN "\5" OWN "\5" OWN, ID, "u"), "0/1  ;");
    assert_string_equal(UNPACKED("n", "1", "t", OWN, "d", "", ID, "u"), "0/1  ;");
    assert_string_equal(UNPACKED("n", "2", "t", OWN, ID, "u", "a", "1796068299123000", ID, "u"),
                        "0/1  ;");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_entry_has_one_receipt),
        cmocka_unit_test(test_a_packed_entry_has_several),
        cmocka_unit_test(test_a_template_has_two_receipts),
        cmocka_unit_test(test_names_are_escaped),
        cmocka_unit_test(test_a_damaged_entry_has_no_data),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
