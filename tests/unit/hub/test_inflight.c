/* test_inflight.c: the in-flight window is limited, and a recheck removes unconfirmed entries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/heads.h"
#include "hub/parts/inflight.h"

/* The id ends with `number`. */
static struct notification *
make_notification(unsigned char number, bool is_open_ended)
{
    unsigned char head[HEAD_FOR_U1];
    struct entry entry = {.id = {number, 0}, .shard = number, .is_open_ended = is_open_ended};

    head_for_u1(head);
    head[FRAME_AT_FLAGS + 1] = FRAME_ACK_REQUIRED;
    head[FRAME_NOTIFICATION_AT_ID + 15] = number;
    assert_int_equal(frame_parse_header((struct bytes){head, sizeof(head)}, &entry.frame), RC_OK);
    entry.data = (struct bytes){(const unsigned char *)"{}", 2};
    return notification_new(&entry, "e", &entry.id, 1);
}

static struct inflight_entry *
add(struct inflight *inflight, unsigned char number, bool is_open_ended)
{
    struct notification *notification = make_notification(number, is_open_ended);

    inflight_add(inflight, notification);
    notification_unref(notification);
    return &inflight->entries[inflight->count - 1];
}

static struct inflight_entry *
find(const struct inflight *inflight, unsigned char number)
{
    const unsigned char id[16] = {[15] = number};

    return inflight_find(inflight, id);
}

static void
test_the_window_is_limited_to_the_granted_size(void **state)
{
    struct inflight inflight = {.size = 5};

    (void)state;
    for (unsigned char i = 0; i < 5; i++) {
        assert_false(inflight_is_full(&inflight));
        assert_int_equal(add(&inflight, i, false)->shard, i);
    }
    assert_true(inflight_is_full(&inflight));
    assert_int_equal(inflight.room, 5);
    inflight_remove(&inflight, find(&inflight, 2));
    assert_null(find(&inflight, 2));
    for (unsigned char i = 0; i < 5; i++)
        assert_true(i == 2 || find(&inflight, i) != NULL);
    inflight_free(&inflight);
    assert_int_equal(inflight.size, 5);
    assert_null(find(&inflight, 1));
}

static void
test_only_a_missed_retry_of_a_written_entry_is_repeated(void **state)
{
    struct inflight inflight = {.size = 1};
    struct inflight_entry *entry = add(&inflight, 1, false);

    (void)state;
    assert_false(inflight_repeat(entry));
    entry->is_missed = true; /* still queued */
    assert_false(inflight_repeat(entry));
    entry->is_written = true;
    assert_false(inflight_repeat(entry));
    entry->is_missed = true;
    assert_true(inflight_repeat(entry));
    assert_false(entry->is_written);
    assert_false(inflight_repeat(entry));
    inflight_free(&inflight);
}

static void
test_a_recheck_removes_unconfirmed_entries(void **state)
{
    struct inflight inflight = {.size = 4};
    const unsigned char confirmed[16] = {[15] = 2}, unknown[16] = {[15] = 9};

    (void)state;
    (void)add(&inflight, 0, false);
    add(&inflight, 1, false)->is_written = true;
    add(&inflight, 2, false)->is_written = true;
    add(&inflight, 3, true)->is_written = true;
    inflight_recheck(&inflight);
    inflight_confirm(&inflight, confirmed);
    inflight_confirm(&inflight, unknown);
    assert_false(inflight_is_refuted(find(&inflight, 0)));
    assert_true(inflight_is_refuted(find(&inflight, 1)));
    assert_false(inflight_is_refuted(find(&inflight, 2)));
    assert_false(inflight_is_refuted(find(&inflight, 3))); /* its audience is open-ended */
    inflight_free(&inflight);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_window_is_limited_to_the_granted_size),
        cmocka_unit_test(test_only_a_missed_retry_of_a_written_entry_is_repeated),
        cmocka_unit_test(test_a_recheck_removes_unconfirmed_entries),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
