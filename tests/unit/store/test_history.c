/* test_history.c: cursors are limited to the part of the stream that two histories share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "store/entry.h"

static struct history
history_of(const char *text)
{
    struct history history;

    assert_int_equal(
        history_read((struct bytes){(const unsigned char *)text, strlen(text)}, &history), RC_OK);
    return history;
}

static struct entry_id
id(uint32_t generation, uint64_t ms)
{
    return entry_id_of(generation, (struct entry_id){ms, 0});
}

static void
assert_id(struct entry_id found, struct entry_id expected)
{
    assert_int_equal(entry_id_generation(found), entry_id_generation(expected));
    assert_int_equal(entry_id_raw(found).ms, entry_id_raw(expected).ms);
    assert_int_equal(found.seq, expected.seq);
}

static void
test_entries_have_the_generation_that_contains_them(void **state)
{
    const struct history history = history_of("0 0-0 1025 100-0 2050");

    (void)state;
    assert_int_equal(history_current(&history), 2050);
    assert_id(history_label(&history, (struct entry_id){0, 0}), id(0, 0));
    assert_id(history_label(&history, (struct entry_id){1, 0}), id(1025, 1));
    assert_id(history_label(&history, (struct entry_id){100, 0}), id(1025, 100));
    assert_id(history_label(&history, (struct entry_id){101, 0}), id(2050, 101));
}

static void
test_ids_of_a_later_generation_are_higher(void **state)
{
    (void)state;
    assert_true(entry_id_less(id(1025, 900), id(2050, 101)));
    assert_int_equal(entry_id_score(id(1025, 900)), entry_id_score((struct entry_id){900, 0}));
    assert_id(entry_id_of_score(entry_id_score(id(1025, 900))), (struct entry_id){900, 0});
}

static void
test_a_cursor_is_limited_to_the_end_of_its_generation(void **state)
{
    const struct history history = history_of("0 0-0 1025 100-0 2050");
    struct entry_id cursor = id(1025, 900);

    (void)state;
    assert_id(history_position(&history, cursor), (struct entry_id){100, 0});
    assert_int_equal(history_limit(&history, &cursor), RC_OK);
    assert_id(cursor, id(1025, 100));
    cursor = id(1025, 99);
    assert_int_equal(history_limit(&history, &cursor), RC_OK);
    assert_id(cursor, id(1025, 99));
    cursor = id(2050, 900);
    assert_int_equal(history_limit(&history, &cursor), RC_OK);
    assert_id(cursor, id(2050, 900));
    cursor = id(0, 900);
    assert_int_equal(history_limit(&history, &cursor), RC_OK);
    assert_id(cursor, id(0, 0));
}

static void
test_a_cursor_of_another_history_is_rejected(void **state)
{
    const struct history history = history_of("0 0-0 1025 100-0 2050");
    struct entry_id of_same_count = id(2051, 101), of_later = id(3072, 101), zero = {0, 0};

    (void)state;
    assert_int_equal(history_limit(&history, &of_same_count), RC_CLOSED);
    assert_int_equal(history_limit(&history, &of_later), RC_AGAIN);
    assert_int_equal(history_limit(&history, &zero), RC_OK);
}

/* The server crashed before it had stored its generation, or the former primary returned. */
static void
test_a_lost_generation_is_translated_to_the_one_before(void **state)
{
    const struct history former = history_of("0 0-0 1025 100-0 2050");
    const struct history later = history_of("0 0-0 1025 90-0 2099"),
                         older = history_of("0 0-0 1025");
    struct entry_id cursor = id(2050, 120);

    (void)state;
    assert_int_equal(history_translate(&former, &later, &cursor), RC_OK);
    assert_id(cursor, id(1025, 90));
    cursor = id(2050, 120);
    assert_int_equal(history_translate(&former, &older, &cursor), RC_OK);
    assert_id(cursor, id(1025, 100));
    cursor = id(3072, 120);
    assert_int_equal(history_translate(&former, &older, &cursor), RC_AGAIN);
}

static void
test_invalid_histories_are_rejected(void **state)
{
    static const char *const texts[] = {"",       "x",           "0 ",      "0 1", "0 1-0",
                                        "0 1-0 ", "0 1-0 2 3-0", "1048576", "0  1"};
    struct history history;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (history_read((struct bytes){(const unsigned char *)texts[i], strlen(texts[i])},
                         &history) != RC_BAD)
            fail_msg("%s was accepted", texts[i]);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries_have_the_generation_that_contains_them),
        cmocka_unit_test(test_ids_of_a_later_generation_are_higher),
        cmocka_unit_test(test_a_cursor_is_limited_to_the_end_of_its_generation),
        cmocka_unit_test(test_a_cursor_of_another_history_is_rejected),
        cmocka_unit_test(test_a_lost_generation_is_translated_to_the_one_before),
        cmocka_unit_test(test_invalid_histories_are_rejected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
