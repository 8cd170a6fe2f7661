/* test_merge.c: pages of several streams are merged in the order of commits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/read/reader_private.h"
#include "wire/bytes.h"
#include "tests/unit/heads.h"
#include "tests/unit/store/replies.h"

#define STREAMS 3

/* The pages of three streams. */
static redisReply *replies[STREAMS];
static struct shard_page pages[STREAMS];

/* An entry of the commit at `lsn`, or without a commit if `lsn` is 0. */
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

/* A foreign entry. */
static redisReply *
make_foreign(unsigned ms)
{
    redisReply *entry = make_entry(ms, 0);

    entry->element[1]->elements = 2;
    for (size_t i = 2; i < 6; i++)
        drop(entry->element[1]->element[i]);
    return entry;
}

/* Without generations: the ids are those of the store. */
static const struct history history;

/* `entries` are pairs of ms and commit, in order; commit 255 is a foreign entry. */
static void
add_reply_until(unsigned end, unsigned stream, bool is_truncated, size_t count,
                const unsigned char (*entries)[2])
{
    replies[stream] = array(count);
    for (size_t i = 0; i < count; i++)
        replies[stream]->element[i] = entries[i][1] == 255
                                          ? make_foreign(entries[i][0])
                                          : make_entry(entries[i][0], entries[i][1]);
    shard_page_begin(&pages[stream], stream, &history, (struct entry_id){1, 0},
                     (struct entry_id){end, 0}, replies[stream], is_truncated);
}

static void
add_reply(unsigned stream, bool is_truncated, size_t count, const unsigned char (*entries)[2])
{
    add_reply_until(255, stream, is_truncated, count, entries);
}

static int
tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < STREAMS; i++) {
        if (replies[i] != NULL)
            drop(replies[i]);
        replies[i] = NULL;
    }
    return 0;
}

/* Merges all entries. Returns shard and ms of each, followed by a space. */
static const char *
merged(unsigned count)
{
    static char list[256];
    struct shard_page *next;

    list[0] = '\0';
    while ((next = shard_pages_next(pages, count)) != NULL) {
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%u:%u ",
                 (unsigned)next->entry.shard, (unsigned)next->entry.id.ms);
        shard_page_advance(next);
    }
    return list;
}

static void
test_one_stream_keeps_its_order(void **state)
{
    (void)state;
    add_reply(0, true, 3, (const unsigned char[][2]){{10, 9}, {11, 3}, {12, 0}});
    assert_string_equal(merged(1), "0:10 0:11 0:12 ");
    assert_int_equal(pages[0].reached.ms, 12);
    assert_int_equal(shard_page_seen(&pages[0]), 3);
}

static void
test_older_commit_is_first(void **state)
{
    (void)state;
    add_reply(0, false, 2, (const unsigned char[][2]){{20, 2}, {21, 5}});
    add_reply(1, false, 3, (const unsigned char[][2]){{10, 1}, {11, 3}, {12, 4}});
    add_reply(2, false, 0, NULL);
    assert_string_equal(merged(3), "1:10 0:20 1:11 1:12 0:21 ");
}

static void
test_without_commits_older_id_is_first(void **state)
{
    (void)state;
    add_reply(0, false, 2, (const unsigned char[][2]){{10, 0}, {30, 1}});
    add_reply(1, false, 2, (const unsigned char[][2]){{20, 7}, {21, 0}});
    assert_string_equal(merged(2), "0:10 0:30 1:20 1:21 ");
}

static void
test_commits_are_ordered_across_other_entries(void **state)
{
    (void)state;
    add_reply(0, false, 2, (const unsigned char[][2]){{10, 0}, {11, 5}});
    add_reply(1, false, 1, (const unsigned char[][2]){{9, 6}});
    assert_string_equal(merged(2), "0:10 0:11 1:9 ");
    tear_down(NULL);
    add_reply(0, false, 3, (const unsigned char[][2]){{10, 0}, {12, 255}, {30, 9}});
    add_reply(1, false, 3, (const unsigned char[][2]){{5, 1}, {20, 2}, {40, 0}});
    assert_string_equal(merged(2), "1:5 0:10 1:20 0:30 1:40 ");
}

static void
test_entry_without_commit_keeps_its_order(void **state)
{
    (void)state;
    add_reply(0, true, 2, (const unsigned char[][2]){{10, 0}, {30, 0}});
    add_reply(1, false, 2, (const unsigned char[][2]){{5, 3}, {6, 0}});
    assert_string_equal(merged(2), "0:10 0:30 ");
}

static void
test_entries_after_the_end_are_omitted(void **state)
{
    (void)state;
    add_reply_until(11, 0, true, 4,
                    (const unsigned char[][2]){{10, 1}, {11, 4}, {12, 2}, {13, 255}});
    add_reply_until(9, 1, true, 1, (const unsigned char[][2]){{20, 2}});
    assert_string_equal(merged(2), "0:10 0:11 ");
    assert_int_equal(shard_page_seen(&pages[0]), 2);
    assert_int_equal(pages[0].foreign_entries, 0);
    assert_int_equal(pages[0].reached.ms, 11);
    assert_int_equal(shard_page_seen(&pages[1]), 0);
    assert_int_equal(pages[1].reached.ms, 1);
}

static void
test_merge_stops_at_an_unread_stream(void **state)
{
    (void)state;
    add_reply(0, false, 3, (const unsigned char[][2]){{10, 1}, {11, 4}, {12, 5}});
    add_reply(1, true, 2, (const unsigned char[][2]){{20, 2}, {21, 3}});
    assert_string_equal(merged(2), "0:10 1:20 1:21 ");
    assert_int_equal(pages[0].reached.ms, 10);
    assert_int_equal(shard_page_seen(&pages[0]), 1);
    assert_int_equal(pages[1].reached.ms, 21);
}

static void
test_foreign_entries_are_skipped(void **state)
{
    (void)state;
    add_reply(0, true, 4, (const unsigned char[][2]){{10, 255}, {11, 1}, {12, 255}, {13, 255}});
    assert_int_equal(pages[0].reached.ms, 10);
    add_reply(1, false, 1, (const unsigned char[][2]){{14, 255}});
    assert_string_equal(merged(2), "0:11 ");
    assert_int_equal(pages[0].foreign_entries, 3);
    assert_int_equal(pages[0].reached.ms, 13);
    assert_int_equal(shard_page_seen(&pages[0]), 4);
    assert_int_equal(pages[1].reached.ms, 14);
}

static void
test_empty_stream_has_no_entries(void **state)
{
    (void)state;
    add_reply(0, false, 0, NULL);
    assert_string_equal(merged(1), "");
    assert_int_equal(pages[0].reached.ms, 1);
    assert_int_equal(shard_page_seen(&pages[0]), 0);
}

static void
test_copied_reply_is_equal(void **state)
{
    redisReply *kept;

    (void)state;
    add_reply(0, false, 2, (const unsigned char[][2]){{10, 1}, {11, 255}});
    kept = reply_keep(replies[0]);
    tear_down(NULL);
    shard_page_begin(&pages[0], 0, &history, (struct entry_id){1, 0}, SHARD_PAGE_WHOLE, kept,
                     false);
    assert_string_equal(merged(1), "0:10 ");
    assert_int_equal(pages[0].foreign_entries, 1);
    free(kept);
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_one_stream_keeps_its_order),
        TEST(test_older_commit_is_first),
        TEST(test_without_commits_older_id_is_first),
        TEST(test_commits_are_ordered_across_other_entries),
        TEST(test_entry_without_commit_keeps_its_order),
        TEST(test_entries_after_the_end_are_omitted),
        TEST(test_merge_stops_at_an_unread_stream),
        TEST(test_foreign_entries_are_skipped),
        TEST(test_empty_stream_has_no_entries),
        TEST(test_copied_reply_is_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
