/* test_inflight.c: the in-flight window is limited, and ended entries occupy no slot. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/heads.h"
#include "hub/session_private.h"

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

    inflight_add(inflight, notification, INFLIGHT_OPEN);
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
        assert_int_equal(inflight_free_slots(&inflight), 5 - i);
        assert_int_equal(add(&inflight, i, false)->shard, i);
    }
    assert_int_equal(inflight_free_slots(&inflight), 0);
    inflight_remove(&inflight, find(&inflight, 2));
    assert_null(find(&inflight, 2));
    for (unsigned char i = 0; i < 5; i++)
        assert_true(i == 2 || find(&inflight, i) != NULL);
    inflight_free(&inflight);
    assert_int_equal(inflight.size, 5);
    assert_null(find(&inflight, 1));
}

static void
test_ended_entries_occupy_no_slot(void **state)
{
    struct inflight inflight = {.size = 2};

    (void)state;
    for (unsigned char i = 0; i < 2; i++)
        (void)add(&inflight, i, false);
    inflight_end(&inflight, find(&inflight, 0), INFLIGHT_ACKED);
    assert_int_equal(inflight_free_slots(&inflight), 1);
    (void)add(&inflight, 2, false);
    inflight_sweep(&inflight); /* the ended one is not written yet */
    assert_non_null(find(&inflight, 0));
    find(&inflight, 0)->is_written = find(&inflight, 1)->is_written = true;
    inflight_sweep(&inflight);
    assert_null(find(&inflight, 0));
    assert_non_null(find(&inflight, 1));
    assert_int_equal(inflight_free_slots(&inflight), 0);
    inflight_free(&inflight);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_window_is_limited_to_the_granted_size),
        cmocka_unit_test(test_ended_entries_occupy_no_slot),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
