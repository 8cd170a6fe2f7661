/* test_outbound.c: the outbound queue orders by priority, and a client resumes before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "tests/unit/heads.h"
#include "hub/session_private.h"

static size_t queued_bytes;

/* A notification for ALL whose cursor is its entry id. */
static struct notification *
make_notification(uint64_t ms, uint8_t priority)
{
    unsigned char head[HEAD_FOR_ALL];
    struct entry entry = {.id = {ms, 0}};

    head_for_all(head);
    head[FRAME_NOTIFICATION_AT_PRIORITY] = priority;
    assert_int_equal(frame_parse_header((struct bytes){head, sizeof(head)}, &entry.frame), RC_OK);
    entry.data = (struct bytes){(const unsigned char *)"{}", 2};
    return notification_new(&entry, false, "e", &entry.id, 1);
}

static void
insert(struct outbound *outbound, uint64_t ms, uint8_t priority)
{
    outbound_insert(outbound, outbound_index_for(outbound, priority),
                    make_notification(ms, priority), &queued_bytes);
}

static uint64_t
dequeue(struct outbound *outbound)
{
    struct notification *notification = outbound_dequeue(outbound, &queued_bytes);
    uint64_t ms = notification->id.ms;

    notification_unref(notification);
    return ms;
}

static void
test_priorities_overtake_in_stable_order(void **state)
{
    struct outbound outbound = {0};
    const uint64_t order[] = {3, 5, 2, 4, 1, 6};

    (void)state;
    insert(&outbound, 1, FRAME_PRIORITY_LOW);
    insert(&outbound, 2, FRAME_PRIORITY_NORMAL);
    insert(&outbound, 3, FRAME_PRIORITY_HIGH);
    insert(&outbound, 4, FRAME_PRIORITY_NORMAL);
    insert(&outbound, 5, FRAME_PRIORITY_HIGH);
    insert(&outbound, 6, FRAME_PRIORITY_LOW);
    assert_int_equal(outbound_count(&outbound), 6);
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        assert_int_equal(dequeue(&outbound), order[i]);
    assert_true(outbound_is_empty(&outbound));
}

static void
test_an_empty_queue_has_no_memory(void **state)
{
    struct outbound outbound = {0};

    (void)state;
    for (int round = 0; round < 3; round++) {
        insert(&outbound, 1, FRAME_PRIORITY_NORMAL);
        assert_non_null(outbound.notifications);
        assert_int_equal(dequeue(&outbound), 1);
        assert_null(outbound.notifications);
    }
    assert_int_equal(outbound_bytes(&outbound), 0);
    assert_int_equal(queued_bytes, 0);
    assert_null(outbound_nth(&outbound, 0));
}

/* The ring grows from any offset of its first element. */
static void
test_the_queue_grows_to_its_limit_in_order(void **state)
{
    struct outbound outbound = {0};
    uint64_t in = 0, out = 0;

    (void)state;
    while (outbound.count < OUTBOUND_MAX) {
        insert(&outbound, ++in, FRAME_PRIORITY_NORMAL);
        insert(&outbound, ++in, FRAME_PRIORITY_NORMAL);
        assert_int_equal(dequeue(&outbound), ++out);
    }
    while (!outbound_is_empty(&outbound))
        assert_int_equal(dequeue(&outbound), ++out);
    assert_int_equal(in, out);
}

static void
test_a_notification_in_several_queues_counts_once(void **state)
{
    struct outbound queues[3] = {{0}};
    struct notification *notification = make_notification(1, FRAME_PRIORITY_NORMAL);
    const size_t bytes = notification->shared.size;

    (void)state;
    for (int i = 0; i < 3; i++)
        outbound_insert(&queues[i], 0, notification_ref(notification), &queued_bytes);
    assert_int_equal(queued_bytes, bytes);
    assert_int_equal(outbound_bytes(&queues[2]), notification->text_len);
    outbound_clear(&queues[0], &queued_bytes);
    outbound_clear(&queues[1], &queued_bytes);
    assert_int_equal(queued_bytes, bytes);
    outbound_clear(&queues[2], &queued_bytes);
    assert_int_equal(queued_bytes, 0);
    assert_int_equal(notification->shared.refs, 1);
    notification_unref(notification);
}

static void
test_a_batch_is_counted_and_removed_as_a_whole(void **state)
{
    struct outbound outbound = {0};
    struct notification *notifications[] = {make_notification(5, FRAME_PRIORITY_NORMAL),
                                            make_notification(6, FRAME_PRIORITY_NORMAL)};
    struct fanout_batch *batch = fanout_batch_new(notifications, 2);
    struct cursor before;

    (void)state;
    outbound.batch = batch;
    assert_false(outbound_is_empty(&outbound));
    assert_int_equal(outbound_count(&outbound), 2);
    assert_int_equal(outbound_bytes(&outbound), batch->len);
    before = outbound_before(&outbound, 0, 0, (struct cursor){.shared = {9, 0}});
    assert_true(entry_id_less(before.shared, (struct entry_id){5, 0}));
    assert_ptr_equal(outbound_dequeue_batch(&outbound), batch);
    assert_null(outbound_dequeue_batch(&outbound));
    fanout_batch_unref(batch);
    notification_unref(notifications[0]);
    notification_unref(notifications[1]);
}

static void
test_a_client_resumes_before_unsent_notifications(void **state)
{
    struct outbound outbound = {0};
    const struct cursor cursor = {.shared = {9, 0}};
    struct cursor before;

    (void)state;
    assert_true(cursor_equal(outbound_before(&outbound, 0, 0, cursor), cursor));
    insert(&outbound, 4, FRAME_PRIORITY_HIGH);
    insert(&outbound, 7, FRAME_PRIORITY_LOW);
    before = outbound_before(&outbound, 0, 0, cursor);
    assert_true(entry_id_less(before.shared, (struct entry_id){4, 0}));
    before = outbound_before(&outbound, 1, 0, cursor);
    assert_true(entry_id_less(before.shared, (struct entry_id){7, 0}));
    assert_false(entry_id_less(before.shared, (struct entry_id){6, 0}));
    assert_true(cursor_equal(outbound_before(&outbound, 2, 0, cursor), cursor));
    outbound_clear(&outbound, &queued_bytes);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_priorities_overtake_in_stable_order),
        cmocka_unit_test(test_an_empty_queue_has_no_memory),
        cmocka_unit_test(test_the_queue_grows_to_its_limit_in_order),
        cmocka_unit_test(test_a_notification_in_several_queues_counts_once),
        cmocka_unit_test(test_a_batch_is_counted_and_removed_as_a_whole),
        cmocka_unit_test(test_a_client_resumes_before_unsent_notifications),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
