/* test_run.c: is a run's file made when it pays, the same bytes, and gone with the run? */
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
#include "hub/fanout/run.h"

/* One of `count` notes whose lines are a little longer than `len`. */
static struct run *
make_run(unsigned count, size_t len)
{
    struct note *notes[RUN_NOTES_MAX] = {NULL};
    unsigned char head[HEAD_FOR_ALL];
    struct entry entry = {.id = {1, 0}};
    unsigned char *data = malloc(len);
    struct run *run;

    head_for_all(head);
    assert_int_equal(frame_parse_head((struct bytes){head, sizeof(head)}, &entry.frame), RC_OK);
    entry.data = (struct bytes){data, len};
    for (unsigned i = 0; i < count; i++) {
        memset(data, (int)('a' + i), len);
        notes[i] = note_new(&entry, "e", &entry.id, 1);
    }
    run = run_new(notes, count);
    for (unsigned i = 0; i < count; i++)
        note_unref(notes[i]);
    free(data);
    return run;
}

/* What the last of `sends` sockets is told. */
static int
file_after(struct run *run, unsigned sends)
{
    int file = -1;

    for (unsigned i = 0; i < sends; i++)
        file = run_file(run);
    return file;
}

static void
assert_same_bytes(const struct run *run, int file)
{
    unsigned char *bytes = malloc(run->len + 1);

    assert_int_equal(pread(file, bytes, run->len + 1, 0), run->len);
    assert_memory_equal(bytes, run->bytes, run->len);
    free(bytes);
}

static void
test_many_sockets_share_a_file(void **state)
{
    const unsigned counts[] = {1, 3};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct run *run = make_run(counts[i], RUN_FILE_BYTES_MIN);
        int file;

        assert_int_equal(file_after(run, RUN_FILE_SENDS - 1), -1);
        file = run_file(run);
        assert_same_bytes(run, file);
        assert_int_equal(run_file(run), file);
        run_unref(run);
        assert_int_equal(fcntl(file, F_GETFD), -1);
    }
}

static void
test_short_runs_have_none(void **state)
{
    struct run *run = make_run(2, RUN_FILE_BYTES_MIN / 4);

    (void)state;
    assert_int_equal(file_after(run, 10 * RUN_FILE_SENDS), -1);
    run_unref(run);
}

static void
test_files_have_a_ceiling(void **state)
{
    struct run *runs[RUN_FILES_MAX + 1];

    (void)state;
    for (size_t i = 0; i <= RUN_FILES_MAX; i++) {
        runs[i] = make_run(1, RUN_FILE_BYTES_MIN);
        assert_int_equal(file_after(runs[i], RUN_FILE_SENDS) >= 0, i < RUN_FILES_MAX);
    }
    run_unref(runs[0]);
    assert_int_equal(run_file(runs[RUN_FILES_MAX]), -1); /* for this one it is too late */
    runs[0] = make_run(1, RUN_FILE_BYTES_MIN);
    assert_true(file_after(runs[0], RUN_FILE_SENDS) >= 0);
    for (size_t i = 0; i <= RUN_FILES_MAX; i++)
        run_unref(runs[i]);
}

static void
test_without_a_descriptor_it_goes_on(void **state)
{
    struct run *run = make_run(1, RUN_FILE_BYTES_MIN);
    int first = dup(0);
    int last = first;

    (void)state;
    assert_true(first >= 0);
    while ((last = dup(0)) >= 0)
        ;
    assert_int_equal(file_after(run, 2 * RUN_FILE_SENDS), -1);
    for (int fd = first; close(fd) == 0; fd++)
        ;
    run_unref(run);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_sockets_share_a_file),
        cmocka_unit_test(test_short_runs_have_none),
        cmocka_unit_test(test_files_have_a_ceiling),
        cmocka_unit_test(test_without_a_descriptor_it_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
