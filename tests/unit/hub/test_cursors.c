/* test_cursors.c: no cursor passes an unread entry of a shard. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/heads.h"
#include "base/memory.h"
#include "hub/replay_buffer.h"

static struct entry_id
id(uint64_t ms, uint64_t seq)
{
    return (struct entry_id){ms, seq};
}

static struct cursor
at(uint64_t shared_ms, uint64_t own_ms)
{
    return (struct cursor){id(shared_ms, 0), id(own_ms, 0)};
}

static void
test_cursors_are_compared_and_advanced_by_shard(void **state)
{
    struct cursor cursor = at(10, 20);

    (void)state;
    assert_true(cursor_equal(cursor_min(at(10, 20), at(11, 3)), at(10, 3)));
    assert_true(cursor_equal(cursor_max(at(10, 20), at(11, 3)), at(11, 20)));
    assert_true(cursor_reaches(at(10, 20), at(10, 20)));
    assert_true(cursor_reaches(at(10, 20), at(9, 20)));
    assert_false(cursor_reaches(at(10, 20), at(11, 3)));
    assert_false(cursor_reaches(at(10, 20), at(9, 21)));
    assert_true(cursor_is_before(&cursor, 0, id(10, 1)));
    assert_false(cursor_is_before(&cursor, 0, id(10, 0)));
    assert_false(cursor_is_before(&cursor, 3, id(20, 0)));
    cursor_advance(&cursor, 0, id(9, 9));
    cursor_advance(&cursor, 3, id(21, 0));
    assert_true(cursor_equal(cursor, at(10, 21)));
}

static void
test_a_users_cursor_is_derived_from_all_heads(void **state)
{
    const struct entry_id heads[] = {id(1, 0), id(2, 0), id(3, 0)};
    struct entry_id spread[3];

    (void)state;
    assert_true(cursor_equal(cursor_from_heads(heads, 0), at(1, 0)));
    assert_true(cursor_equal(cursor_from_heads(heads, 2), at(1, 3)));
    cursor_to_heads(at(1, 3), 2, spread, 3);
    assert_true(entry_id_equal(spread[0], id(1, 0)));
    assert_true(entry_id_equal(spread[1], id(0, 0)));
    assert_true(entry_id_equal(spread[2], id(3, 0)));
}

/* Checks the cursor string for four shards, and that it is parsed to the same cursor. */
static void
check_text(const struct entry_id heads[4], const char *text)
{
    char made[CLIENT_POS_MAX];

    client_pos_text("00ff", heads, 4, NULL, made);
    assert_string_equal(made, text);
    for (unsigned own = 1; own < 4; own++) {
        struct cursor cursor = at(77, 77);
        struct deferral deferral = {.by_stream = true};

        assert_int_equal(client_pos_read(text, "00ff", 4, own, &cursor, &deferral), RC_OK);
        assert_true(cursor_equal(cursor, cursor_from_heads(heads, own)));
        assert_true(cursor_equal(deferral.from, cursor));
        assert_false(deferral.by_stream);
    }
}

static void
test_cursor_strings_are_parsed_as_written(void **state)
{
    const uint64_t max = UINT64_MAX;

    (void)state;
    check_text((struct entry_id[]){id(100, 7), id(136, 0), id(100, 0), id(99, 40)},
               "00ff.100-7.10.0.-1-14");
    check_text((struct entry_id[]){id(100, 7), id(0, 0), id(0, 0), id(0, 0)}, "00ff.100-7");
    check_text((struct entry_id[]){id(100, 7), id(0, 0), id(100, 1), id(0, 0)}, "00ff.100-7..0-1");
    check_text((struct entry_id[]){id(0, 0), id(max, max), id(0, 1), id(0, 0)},
               "00ff.0-0.68hqlcqv3-3w5e11264sgsfGmh33.0-1");
    check_text((struct entry_id[]){id(max, max), id(0, max), id(1, 0), id(0, 1)},
               "00ff.18446744073709551615-18446744073709551615.-68hqlcqv3-3w5e11264sgsfG0.-"
               "68hqlcqv2G0.-68hqlcqv3-1G0");
}

/* The generation of a shard is written if it differs from that of the shared stream. */
static void
test_cursor_strings_contain_generations(void **state)
{
    const uint64_t five = UINT64_C(5) << ENTRY_MS_BITS, six = UINT64_C(6) << ENTRY_MS_BITS;

    (void)state;
    check_text(
        (struct entry_id[]){id(five + 100, 7), id(five + 136, 0), id(six + 100, 1), id(0, 3)},
        "00ff.87960930222180-7.10.0-1G6.-2s-3G0");
}

static void
test_the_longest_cursor_fits(void **state)
{
    struct entry_id heads[STORE_SHARDS_MAX];
    char text[CLIENT_POS_MAX];
    struct cursor cursor;
    struct deferral deferral;

    (void)state;
    heads[0] = id(UINT64_MAX, UINT64_MAX);
    for (unsigned i = 1; i < STORE_SHARDS_MAX; i++)
        heads[i] = id((ENTRY_GENERATION_MAX - 1) << ENTRY_MS_BITS, UINT64_MAX - i);
    client_pos_text("0123456789abcdef", heads, STORE_SHARDS_MAX, NULL, text);
    assert_in_range(strlen(text), 480, CLIENT_POS_MAX - 1);
    assert_int_equal(
        client_pos_read(text, "0123456789abcdef", STORE_SHARDS_MAX, 15, &cursor, &deferral), RC_OK);
    assert_true(cursor_equal(cursor, cursor_from_heads(heads, 15)));
}

static void
check_deferral(struct entry_id own, const struct deferral *deferral, const char *text)
{
    const struct entry_id heads[] = {id(100, 7), own};
    char made[CLIENT_POS_MAX];
    struct cursor cursor;
    struct deferral read;

    client_pos_text("00ff", heads, 2, deferral, made);
    assert_string_equal(made, text);
    assert_int_equal(client_pos_read(text, "00ff", 2, 1, &cursor, &read), RC_OK);
    assert_true(cursor_equal(cursor, cursor_from_heads(heads, 1)));
    assert_true(cursor_equal(read.from, deferral->from));
    assert_int_equal(read.by_stream, deferral->by_stream);
}

static void
test_cursor_strings_contain_the_deferral(void **state)
{
    (void)state;
    check_deferral(id(0, 0), &(struct deferral){.from = {.shared = {99, 3}}}, "00ff.100-7~-1-3");
    check_deferral(id(0, 0), &(struct deferral){.from = {.shared = {99, 3}}, .by_stream = true},
                   "00ff.100-7!-1-3");
    check_deferral(id(110, 0), &(struct deferral){.from = {{64, 0}, {101, 0}}, .by_stream = true},
                   "00ff.100-7.a!-10~1");
    check_deferral(id(110, 0), &(struct deferral){.from = {{0, 0}, {0, 0}}}, "00ff.100-7.a~-2s");
}

static void
test_invalid_cursors_are_rejected(void **state)
{
    static const char *const wrong[] = {
        "",
        ".",
        "00ff",
        "00ff.",
        "00ff..",
        "00ff.1",
        "00ff.1-",
        "00ff.1-2-3",
        "00ff.1-2 ",
        "00ff.1-2.-",
        "00ff.1-2.--1",
        "00ff.1-2.1-",
        "00ff.1-2.1--1",
        "00ff.1-2.1-1-1",
        "00ff.1-2.A",
        "00ff.1-2.+1",
        "00ff.1-2. 1",
        "00ff.1-2.-2",                                  /* below zero */
        "00ff.1-2.3w5e11264sgsf",                       /* overflow */
        "00ff.1-2.3w5e11264sgsg",                       /* 64 bits exceeded by one */
        "00ff.1-2.zzzzzzzzzzzzzzzzzzzzzzzzzzzz",        /* many more shards */
        "00ff.18446744073709551616-0",                  /* 64 bits exceeded by one */
        "00ff.1-2....",                                 /* one shard too many */
        "00ff.1-2.1.1.1.1",                             /* one shard too many */
        "00ff.1-2.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1", /* many more shards */
        "00ff.1-2~",
        "00ff.1-2!",
        "00ff.1-2~~0",
        "00ff.1-2~0~",
        "00ff.1-2~0!0",
        "00ff.1-2!0!0",
        "00ff.1-2~0~0~0",
        "00ff.1-2~-2", /* below zero */
        "00ff.1-2~0.1",
        "00ff.1-2^1", /* a version that does not exist */
        "00ff~1~0",
    };
    struct cursor cursor = at(77, 77);
    struct deferral deferral;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(client_pos_read(wrong[i], "00ff", 4, 1, &cursor, &deferral), RC_BAD);
    assert_int_equal(client_pos_read("00fe.1-2.1", "00ff", 4, 1, &cursor, &deferral), RC_CLOSED);
    assert_int_equal(client_pos_read("2/00ff.1-2", "00ff", 4, 1, &cursor, &deferral), RC_CLOSED);
    assert_int_equal(client_pos_read("00f.1-2.1", "00ff", 4, 1, &cursor, &deferral), RC_CLOSED);
    assert_int_equal(client_pos_read("00ff.1-2.1", "00ff", 1, 0, &cursor, &deferral), RC_BAD);
    assert_true(cursor_equal(cursor, at(77, 77)));
    assert_int_equal(client_pos_read("00ff.1-2...", "00ff", 4, 3, &cursor, &deferral), RC_OK);
    assert_true(cursor_equal(cursor, (struct cursor){.shared = {1, 2}}));
}

/* On the heap, where a read beyond the string is noticed. */
static void
test_marks_before_the_dot_belong_to_the_epoch(void **state)
{
    static const char *const FOREIGN[] = {"X.1-0", "00Eff.1-0", "X1-2E.1-0", "E.1-0~1",
                                          "X.1-0X1-2"};
    struct cursor cursor = at(77, 77);
    struct deferral deferral;

    (void)state;
    for (size_t i = 0; i < sizeof(FOREIGN) / sizeof(FOREIGN[0]); i++) {
        char *text = memory_text(FOREIGN[i], strlen(FOREIGN[i]));

        assert_int_equal(client_pos_read(text, "00ff", 4, 1, &cursor, &deferral), RC_CLOSED);
        free(text);
    }
    assert_true(cursor_equal(cursor, at(77, 77)));
}

/* A notification for ALL. */
static struct notification *
make_notification(unsigned char shard, uint64_t ms)
{
    unsigned char head[HEAD_FOR_ALL];
    struct entry entry = {.id = {ms, 0}, .shard = shard};
    const struct entry_id heads[] = {id(1, 0), id(1, 0), id(1, 0)};

    head_for_all(head);
    assert_int_equal(frame_parse_header((struct bytes){head, sizeof(head)}, &entry.frame), RC_OK);
    entry.data = (struct bytes){(const unsigned char *)"{}", 2};
    return notification_new(&entry, false, "e", heads, 3);
}

static void
add(struct replay_buffer *buffer, unsigned char shard, uint64_t ms)
{
    struct notification *notification = make_notification(shard, ms);

    replay_buffer_add(buffer, notification);
    notification_unref(notification);
}

static struct replay_buffer *
open_replay_buffer(unsigned shards, uint64_t head_ms)
{
    struct replay_buffer *buffer = calloc(1, sizeof(*buffer));
    struct entry_id heads[STORE_SHARDS_MAX];

    for (unsigned i = 0; i < STORE_SHARDS_MAX; i++)
        heads[i] = id(head_ms, 0);
    replay_buffer_open(buffer, shards);
    replay_buffer_reset(buffer, heads);
    return buffer;
}

static void
close_replay_buffer(struct replay_buffer *buffer)
{
    replay_buffer_close(buffer);
    free(buffer);
}

static void
test_the_replay_buffer_finds_later_entries(void **state)
{
    struct replay_buffer *buffer = open_replay_buffer(1, 10);

    (void)state;
    assert_true(replay_buffer_covers(buffer, 0, at(10, 0)));
    assert_false(replay_buffer_covers(buffer, 0, (struct cursor){id(9, 9), id(0, 0)}));
    assert_false(replay_buffer_follows(buffer, 0, (struct cursor){id(9, 9), id(0, 0)}));
    assert_false(replay_buffer_covers(buffer, 0, at(11, 0)));
    assert_true(replay_buffer_follows(buffer, 0, at(11, 0)));
    for (uint64_t ms = 20; ms < 30; ms++)
        add(buffer, 0, ms);
    assert_int_equal(replay_buffer_next(buffer, 0, at(10, 0))->id.ms, 20);
    assert_int_equal(replay_buffer_next(buffer, 0, (struct cursor){id(24, 5), id(0, 0)})->id.ms,
                     25);
    assert_null(replay_buffer_next(buffer, 0, at(29, 0)));
    close_replay_buffer(buffer);
}

static void
test_the_replay_buffer_is_bounded(void **state)
{
    struct replay_buffer *buffer = open_replay_buffer(1, 0);

    (void)state;
    for (uint64_t ms = 1; ms <= REPLAY_BUFFER_COUNT_MAX + 10; ms++)
        add(buffer, 0, ms);
    assert_int_equal(buffer->count, REPLAY_BUFFER_COUNT_MAX);
    assert_int_equal(buffer->base[0].ms, 10);
    assert_false(replay_buffer_covers(buffer, 0, at(9, 0)));
    assert_int_equal(replay_buffer_next(buffer, 0, replay_buffer_base(buffer, 0))->id.ms, 11);
    close_replay_buffer(buffer);
}

/* Lists shard and ms of all entries after the cursor, for a user of shard `own`. */
static const char *
follow(const struct replay_buffer *buffer, unsigned own, struct cursor cursor)
{
    static char text[256];
    const struct notification *notification;

    text[0] = '\0';
    while ((notification = replay_buffer_next(buffer, own, cursor)) != NULL) {
        if (notification->shard == 0 || notification->shard == own)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%u:%u ",
                     (unsigned)notification->shard, (unsigned)notification->id.ms);
        assert_true(cursor_is_before(&cursor, notification->shard, notification->id));
        cursor_advance(&cursor, notification->shard, notification->id);
    }
    return text;
}

static void
test_the_replay_buffer_merges_shards(void **state)
{
    struct replay_buffer *buffer = open_replay_buffer(3, 10);

    (void)state;
    add(buffer, 0, 20);
    add(buffer, 1, 50);
    add(buffer, 2, 15);
    add(buffer, 0, 21);
    add(buffer, 2, 16);
    add(buffer, 1, 51);
    assert_string_equal(follow(buffer, 1, at(10, 10)), "0:20 1:50 0:21 1:51 ");
    assert_string_equal(follow(buffer, 2, at(10, 10)), "0:20 2:15 0:21 2:16 ");
    assert_string_equal(follow(buffer, 1, at(10, 50)), "0:20 0:21 1:51 ");
    assert_string_equal(follow(buffer, 1, at(30, 10)), "1:50 1:51 ");
    assert_string_equal(follow(buffer, 1, at(20, 99)), "0:21 ");
    assert_string_equal(follow(buffer, 1, at(21, 51)), "");
    assert_false(replay_buffer_follows(buffer, 1, at(9, 99)));
    assert_false(replay_buffer_follows(buffer, 1, at(99, 9)));
    assert_true(replay_buffer_follows(buffer, 1, at(99, 10)));
    assert_false(replay_buffer_covers(buffer, 1, at(99, 10)));
    assert_true(replay_buffer_covers(buffer, 1, at(21, 51)));
    close_replay_buffer(buffer);
}

static void
test_the_replay_buffer_evicts_each_shard(void **state)
{
    struct replay_buffer *buffer = open_replay_buffer(3, 10);

    (void)state;
    add(buffer, 1, 20);
    for (uint64_t ms = 1; ms <= REPLAY_BUFFER_COUNT_MAX; ms++)
        add(buffer, 0, 20 + ms);
    assert_true(cursor_equal(replay_buffer_base(buffer, 1), at(10, 20)));
    assert_true(cursor_equal(replay_buffer_base(buffer, 2), at(10, 10)));
    assert_true(cursor_equal(replay_buffer_head(buffer, 2), at(20 + REPLAY_BUFFER_COUNT_MAX, 10)));
    assert_false(replay_buffer_follows(buffer, 1, at(10, 19)));
    assert_int_equal(replay_buffer_next(buffer, 1, at(10, 20))->id.ms, 21);
    close_replay_buffer(buffer);
}

/* A shard that is read from entry 50 on, while the buffer contains its earlier entry 20. */
static void
test_the_replay_buffer_contains_only_the_newer_entries_of_a_shard_read_later(void **state)
{
    struct replay_buffer *buffer = open_replay_buffer(3, 10);

    (void)state;
    add(buffer, 1, 20);
    add(buffer, 0, 21);
    replay_buffer_begin(buffer, 1, id(50, 0));
    assert_true(cursor_equal(replay_buffer_base(buffer, 1), at(21, 50)));
    assert_false(replay_buffer_follows(buffer, 1, at(21, 49)));
    assert_false(replay_buffer_follows(buffer, 1, at(20, 50)));
    assert_true(replay_buffer_covers(buffer, 1, at(21, 50)));
    add(buffer, 1, 51);
    assert_string_equal(follow(buffer, 1, at(21, 50)), "1:51 ");
    assert_true(replay_buffer_follows(buffer, 2, at(10, 10)));
    close_replay_buffer(buffer);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cursors_are_compared_and_advanced_by_shard),
        cmocka_unit_test(test_a_users_cursor_is_derived_from_all_heads),
        cmocka_unit_test(test_cursor_strings_are_parsed_as_written),
        cmocka_unit_test(test_cursor_strings_contain_generations),
        cmocka_unit_test(test_the_longest_cursor_fits),
        cmocka_unit_test(test_cursor_strings_contain_the_deferral),
        cmocka_unit_test(test_invalid_cursors_are_rejected),
        cmocka_unit_test(test_marks_before_the_dot_belong_to_the_epoch),
        cmocka_unit_test(test_the_replay_buffer_finds_later_entries),
        cmocka_unit_test(test_the_replay_buffer_is_bounded),
        cmocka_unit_test(test_the_replay_buffer_merges_shards),
        cmocka_unit_test(test_the_replay_buffer_evicts_each_shard),
        cmocka_unit_test(
            test_the_replay_buffer_contains_only_the_newer_entries_of_a_shard_read_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
