/* test_merge.c: do the answers of several streams come as one row, and no entry before its turn? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/read/merge.h"
#include "wire/bytes.h"
#include "tests/unit/heads.h"
#include "tests/unit/store/replies.h"

#define STREAMS 3

/* What three streams answered. */
static redisReply *answers[STREAMS];
static struct shard_page pages[STREAMS];

/* Of a commit at `lsn`; 0: of none. */
static redisReply *
make_entry(unsigned ms, unsigned char lsn)
{
    unsigned char head[HEAD_FOR_ALL];
    redisReply *entry = array(2), *fields = array(6);
    char id[24];

    head_for_all(head);
    head[FRAME_AT_COMMIT_LSN + 7] = lsn;
    snprintf(id, sizeof(id), "%u-0", ms);
    entry->element[0] = text(id, strlen(id));
    entry->element[1] = fields;
    fields->element[0] = text("id", 2);
    fields->element[1] = text("00000000-0000-8000-8000-000000000001", 36);
    fields->element[2] = text("data", 4);
    fields->element[3] = text("{}", 2);
    fields->element[4] = text("route", 5);
    fields->element[5] = text(head, sizeof(head));
    return entry;
}

/* Something else that stands in a stream. */
static redisReply *
make_stray(unsigned ms)
{
    redisReply *entry = make_entry(ms, 0);

    entry->element[1]->elements = 2;
    for (size_t i = 2; i < 6; i++)
        drop(entry->element[1]->element[i]);
    return entry;
}

/*
 * Entries in order, ms and commit of each; a commit of 255: a stray. What is later than `end` is
 * not asked for.
 */
static void
answer_until(unsigned end, unsigned stream, bool is_cut, size_t count,
             const unsigned char (*entries)[2])
{
    answers[stream] = array(count);
    for (size_t i = 0; i < count; i++)
        answers[stream]->element[i] = entries[i][1] == 255
                                          ? make_stray(entries[i][0])
                                          : make_entry(entries[i][0], entries[i][1]);
    shard_page_begin(&pages[stream], stream, (struct entry_id){1, 0}, (struct entry_id){end, 0},
                     answers[stream], is_cut);
}

static void
answer(unsigned stream, bool is_cut, size_t count, const unsigned char (*entries)[2])
{
    answer_until(255, stream, is_cut, count, entries);
}

static int
tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < STREAMS; i++) {
        if (answers[i] != NULL)
            drop(answers[i]);
        answers[i] = NULL;
    }
    return 0;
}

/* Takes all there is: shard and ms of each, with blanks. */
static const char *
taken(unsigned count)
{
    static char told[256];
    struct shard_page *next;

    told[0] = '\0';
    while ((next = shard_pages_next(pages, count)) != NULL) {
        snprintf(told + strlen(told), sizeof(told) - strlen(told), "%u:%u ",
                 (unsigned)next->entry.shard, (unsigned)next->entry.id.ms);
        shard_page_take(next);
    }
    return told;
}

static void
test_one_stream_is_as_it_is(void **state)
{
    (void)state;
    answer(0, true, 3, (const unsigned char[][2]){{10, 9}, {11, 3}, {12, 0}});
    assert_string_equal(taken(1), "0:10 0:11 0:12 ");
    assert_int_equal(pages[0].reached.ms, 12);
    assert_int_equal(shard_page_seen(&pages[0]), 3);
}

static void
test_the_older_commit_goes_first(void **state)
{
    (void)state;
    answer(0, false, 2, (const unsigned char[][2]){{20, 2}, {21, 5}});
    answer(1, false, 3, (const unsigned char[][2]){{10, 1}, {11, 3}, {12, 4}});
    answer(2, false, 0, NULL);
    assert_string_equal(taken(3), "1:10 0:20 1:11 1:12 0:21 ");
}

static void
test_without_a_commit_the_older_id_does(void **state)
{
    (void)state;
    answer(0, false, 2, (const unsigned char[][2]){{10, 0}, {30, 1}});
    answer(1, false, 2, (const unsigned char[][2]){{20, 7}, {21, 0}});
    assert_string_equal(taken(2), "0:10 0:30 1:20 1:21 ");
}

static void
test_commits_are_in_order_whatever_stands_between(void **state)
{
    (void)state;
    answer(0, false, 2, (const unsigned char[][2]){{10, 0}, {11, 5}});
    answer(1, false, 1, (const unsigned char[][2]){{9, 6}});
    assert_string_equal(taken(2), "0:10 0:11 1:9 ");
    tear_down(NULL);
    answer(0, false, 3, (const unsigned char[][2]){{10, 0}, {12, 255}, {30, 9}});
    answer(1, false, 3, (const unsigned char[][2]){{5, 1}, {20, 2}, {40, 0}});
    assert_string_equal(taken(2), "1:5 0:10 1:20 0:30 1:40 ");
}

static void
test_what_may_be_behind_what_comes_from_no_commit_waits(void **state)
{
    (void)state;
    answer(0, true, 2, (const unsigned char[][2]){{10, 0}, {30, 0}});
    answer(1, false, 2, (const unsigned char[][2]){{5, 3}, {6, 0}});
    assert_string_equal(taken(2), "0:10 0:30 ");
}

static void
test_what_is_beyond_the_end_is_not_there(void **state)
{
    (void)state;
    answer_until(11, 0, true, 4, (const unsigned char[][2]){{10, 1}, {11, 4}, {12, 2}, {13, 255}});
    answer_until(9, 1, true, 1, (const unsigned char[][2]){{20, 2}});
    assert_string_equal(taken(2), "0:10 0:11 ");
    assert_int_equal(shard_page_seen(&pages[0]), 2);
    assert_int_equal(pages[0].foreign_entries, 0);
    assert_int_equal(pages[0].reached.ms, 11);
    assert_int_equal(shard_page_seen(&pages[1]), 0);
    assert_int_equal(pages[1].reached.ms, 1);
}

static void
test_what_may_be_later_waits(void **state)
{
    (void)state;
    answer(0, false, 3, (const unsigned char[][2]){{10, 1}, {11, 4}, {12, 5}});
    answer(1, true, 2, (const unsigned char[][2]){{20, 2}, {21, 3}});
    assert_string_equal(taken(2), "0:10 1:20 1:21 ");
    assert_int_equal(pages[0].reached.ms, 10);
    assert_int_equal(shard_page_seen(&pages[0]), 1);
    assert_int_equal(pages[1].reached.ms, 21);
}

static void
test_strays_are_passed_over(void **state)
{
    (void)state;
    answer(0, true, 4, (const unsigned char[][2]){{10, 255}, {11, 1}, {12, 255}, {13, 255}});
    assert_int_equal(pages[0].reached.ms, 10);
    answer(1, false, 1, (const unsigned char[][2]){{14, 255}});
    assert_string_equal(taken(2), "0:11 ");
    assert_int_equal(pages[0].foreign_entries, 3);
    assert_int_equal(pages[0].reached.ms, 13);
    assert_int_equal(shard_page_seen(&pages[0]), 4);
    assert_int_equal(pages[1].reached.ms, 14);
}

static void
test_nothing_is_nothing(void **state)
{
    (void)state;
    answer(0, false, 0, NULL);
    assert_string_equal(taken(1), "");
    assert_int_equal(pages[0].reached.ms, 1);
    assert_int_equal(shard_page_seen(&pages[0]), 0);
}

static void
test_a_kept_answer_is_the_same(void **state)
{
    redisReply *kept;

    (void)state;
    answer(0, false, 2, (const unsigned char[][2]){{10, 1}, {11, 255}});
    kept = reply_keep(answers[0]);
    tear_down(NULL);
    shard_page_begin(&pages[0], 0, (struct entry_id){1, 0}, SHARD_PAGE_WHOLE, kept, false);
    assert_string_equal(taken(1), "0:10 ");
    assert_int_equal(pages[0].foreign_entries, 1);
    free(kept);
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_one_stream_is_as_it_is),
        TEST(test_the_older_commit_goes_first),
        TEST(test_without_a_commit_the_older_id_does),
        TEST(test_commits_are_in_order_whatever_stands_between),
        TEST(test_what_may_be_behind_what_comes_from_no_commit_waits),
        TEST(test_what_is_beyond_the_end_is_not_there),
        TEST(test_what_may_be_later_waits),
        TEST(test_strays_are_passed_over),
        TEST(test_nothing_is_nothing),
        TEST(test_a_kept_answer_is_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
