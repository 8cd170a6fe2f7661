/* test_batch.c: a batch's file is created when it saves work, and is closed with the batch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/heads.h"
#include "hub/notification.h"

/* A batch of `count` notifications, each slightly longer than `len`. */
static struct fanout_batch *
make_batch(unsigned count, size_t len)
{
    struct notification *notifications[BATCH_COUNT_MAX] = {NULL};
    unsigned char head[HEAD_FOR_ALL];
    struct entry entry = {.id = {1, 0}};
    unsigned char *data = malloc(len);
    struct fanout_batch *batch;

    head_for_all(head);
    assert_int_equal(frame_parse_header((struct bytes){head, sizeof(head)}, &entry.frame), RC_OK);
    entry.data = (struct bytes){data, len};
    for (unsigned i = 0; i < count; i++) {
        memset(data, (int)('a' + i), len);
        notifications[i] = notification_new(&entry, false, "e", &entry.id, 1);
    }
    batch = fanout_batch_new(notifications, count);
    for (unsigned i = 0; i < count; i++)
        notification_unref(notifications[i]);
    free(data);
    return batch;
}

/* Requests the batch's file for `sends` sockets; returns the last result. */
static int
file_after(struct fanout_batch *batch, unsigned sends)
{
    int file = -1;

    for (unsigned i = 0; i < sends; i++)
        file = fanout_batch_file(batch);
    return file;
}

static void
assert_same_bytes(const struct fanout_batch *batch, int file)
{
    unsigned char *bytes = malloc(batch->len + 1);

    assert_int_equal(pread(file, bytes, batch->len + 1, 0), batch->len);
    assert_memory_equal(bytes, batch->bytes, batch->len);
    free(bytes);
}

static void
test_many_sockets_share_a_file(void **state)
{
    const unsigned counts[] = {1, 3};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct fanout_batch *batch = make_batch(counts[i], BATCH_FILE_BYTES_MIN);
        int file;

        assert_int_equal(file_after(batch, BATCH_FILE_SENDS - 1), -1);
        file = fanout_batch_file(batch);
        assert_same_bytes(batch, file);
        assert_int_equal(fanout_batch_file(batch), file);
        fanout_batch_unref(batch);
        assert_int_equal(fcntl(file, F_GETFD), -1);
    }
}

static void
test_short_batches_have_no_file(void **state)
{
    struct fanout_batch *batch = make_batch(2, BATCH_FILE_BYTES_MIN / 4);

    (void)state;
    assert_int_equal(file_after(batch, 10 * BATCH_FILE_SENDS), -1);
    fanout_batch_unref(batch);
}

static void
test_the_number_of_files_is_limited(void **state)
{
    struct fanout_batch *batches[BATCH_FILES_MAX + 1];

    (void)state;
    for (size_t i = 0; i <= BATCH_FILES_MAX; i++) {
        batches[i] = make_batch(1, BATCH_FILE_BYTES_MIN);
        assert_int_equal(file_after(batches[i], BATCH_FILE_SENDS) >= 0, i < BATCH_FILES_MAX);
    }
    fanout_batch_unref(batches[0]);
    assert_int_equal(fanout_batch_file(batches[BATCH_FILES_MAX]), -1); /* the limit is reached */
    batches[0] = make_batch(1, BATCH_FILE_BYTES_MIN);
    assert_true(file_after(batches[0], BATCH_FILE_SENDS) >= 0);
    for (size_t i = 0; i <= BATCH_FILES_MAX; i++)
        fanout_batch_unref(batches[i]);
}

static void
test_a_batch_works_without_a_descriptor(void **state)
{
    struct fanout_batch *batch = make_batch(1, BATCH_FILE_BYTES_MIN);
    int first = dup(0);
    int last = first;

    (void)state;
    assert_true(first >= 0);
    while ((last = dup(0)) >= 0)
        ;
    assert_int_equal(file_after(batch, 2 * BATCH_FILE_SENDS), -1);
    for (int fd = first; close(fd) == 0; fd++)
        ;
    fanout_batch_unref(batch);
}

/* A notification for ALL. */
static struct notification *
make_notification(uint64_t xid, const char *topic)
{
    unsigned char head[HEAD_FOR_ALL + 1];
    struct entry entry = {.id = {1, 0}, .data = {(const unsigned char *)"1", 1}};

    head_for_all(head);
    bytes_put_u64(head + FRAME_NOTIFICATION_AT_XID, xid);
    bytes_put_u16(head + FRAME_NOTIFICATION_AT_TOPIC_LEN, 1);
    head[HEAD_FOR_ALL] = (unsigned char)topic[0];
    assert_int_equal(frame_parse_header((struct bytes){head, sizeof(head)}, &entry.frame), RC_OK);
    return notification_new(&entry, false, "e", &entry.id, 1);
}

static void
test_a_batch_spans_transactions_but_not_topics(void **state)
{
    struct notification *notifications[] = {make_notification(1, "t"), make_notification(2, "t"),
                                            make_notification(2, "u")};

    (void)state;
    assert_int_equal(fanout_batch_span(notifications, 3), 2);
    for (size_t i = 0; i < 3; i++)
        notification_unref(notifications[i]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_sockets_share_a_file),
        cmocka_unit_test(test_short_batches_have_no_file),
        cmocka_unit_test(test_the_number_of_files_is_limited),
        cmocka_unit_test(test_a_batch_works_without_a_descriptor),
        cmocka_unit_test(test_a_batch_spans_transactions_but_not_topics),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
