/* test_store_texts.c: stream ids and client cursors are parsed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "hub/notification.h"
#include "store/entry.h"

static void
test_entry_ids_are_parsed(void **state)
{
    struct entry_id id;
    char text[ENTRY_ID_TEXT_MAX];

    (void)state;
    assert_int_equal(entry_id_read("18446744073709551615-7", 22, &id), RC_OK);
    entry_id_text(id, text);
    assert_string_equal(text, "18446744073709551615-7");
    assert_int_equal(entry_id_read("18446744073709551616-7", 22, &id), RC_BAD);
    assert_int_equal(entry_id_read("1-", 2, &id), RC_BAD);
    assert_int_equal(entry_id_read("-1", 2, &id), RC_BAD);
    assert_int_equal(entry_id_read("1-1x", 4, &id), RC_BAD);
    assert_true(entry_id_less((struct entry_id){5, 9}, (struct entry_id){6, 0}));
    assert_false(entry_id_less((struct entry_id){6, 0}, (struct entry_id){6, 0}));
}

static void
test_client_cursors_are_parsed(void **state)
{
    char text[CLIENT_POS_MAX];
    const struct entry_id pos = {12, 3};
    struct cursor cursor = {.shared = {0, 0}};
    struct deferral deferral;

    (void)state;
    client_pos_text("00ff", &pos, 1, NULL, text);
    assert_string_equal(text, "00ff.12-3");
    assert_int_equal(client_pos_read(text, "00ff", 1, 0, &cursor, &deferral), RC_OK);
    assert_int_equal(cursor.shared.seq, 3);
    assert_int_equal(client_pos_read(text, "00fe", 1, 0, &cursor, &deferral), RC_CLOSED);
    assert_int_equal(client_pos_read(text, "00ff1", 1, 0, &cursor, &deferral), RC_CLOSED);
    assert_int_equal(client_pos_read("00ff12-3", "00ff", 1, 0, &cursor, &deferral), RC_BAD);
    assert_int_equal(client_pos_read("00ff.12", "00ff", 1, 0, &cursor, &deferral), RC_BAD);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entry_ids_are_parsed),
        cmocka_unit_test(test_client_cursors_are_parsed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
