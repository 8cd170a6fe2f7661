/* test_reply_arena.c: replies are complete, and their blocks are reused or freed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

#include "store/connection/reply.h"
#include "tests/unit/store/entries.h"

#define LONG_BYTES 300000

static unsigned expected = 1;

static redisReader *
reader_on(struct reply_arena *arena)
{
    redisReader *reader = redisReaderCreate();

    reply_arena_use(arena, reader, &expected);
    return reader;
}

static void
feed(redisReader *reader, const char *text)
{
    assert_int_equal(redisReaderFeed(reader, text, strlen(text)), REDIS_OK);
}

static redisReply *
next_of(redisReader *reader)
{
    void *reply = NULL;

    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    return reply;
}

static void
test_all_types_are_read(void **state)
{
    struct reply_arena *arena = reply_arena_new();
    redisReader *reader = reader_on(arena);
    redisReply *reply;

    (void)state;
    feed(reader, "*6\r\n$2\r\nab\r\n:-7\r\n$-1\r\n*2\r\n+OK\r\n-ERR no\r\n*0\r\n$0\r\n\r\n");
    reply = next_of(reader);
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    assert_int_equal(reply->elements, 6);
    assert_string_equal(reply->element[0]->str, "ab");
    assert_int_equal(reply->element[0]->len, 2);
    assert_int_equal(reply->element[1]->integer, -7);
    assert_int_equal(reply->element[2]->type, REDIS_REPLY_NIL);
    assert_int_equal(reply->element[3]->element[0]->type, REDIS_REPLY_STATUS);
    assert_int_equal(reply->element[3]->element[1]->type, REDIS_REPLY_ERROR);
    assert_string_equal(reply->element[3]->element[1]->str, "ERR no");
    assert_int_equal(reply->element[4]->elements, 0);
    assert_string_equal(reply->element[5]->str, "");
    reader->fn->freeObject(reply);
    redisReaderFree(reader);
    reply_arena_free(arena);
}

/* Replies larger than a block; each reuses the memory of the previous reply. */
static void
test_long_replies_reuse_memory(void **state)
{
    struct reply_arena *arena = reply_arena_new();
    redisReader *reader = reader_on(arena);
    char *text = malloc(LONG_BYTES + 1);

    (void)state;
    memset(text, 'x', LONG_BYTES);
    text[LONG_BYTES] = '\0';
    for (int i = 0; i < 3; i++) {
        redisReply *reply;

        feed(reader, "*3\r\n$1\r\na\r\n$300000\r\n");
        feed(reader, text);
        assert_null(next_of(reader)); /* incomplete */
        feed(reader, "\r\n$1\r\nz\r\n");
        reply = next_of(reader);
        assert_string_equal(reply->element[0]->str, "a");
        assert_string_equal(reply->element[1]->str, text);
        assert_string_equal(reply->element[2]->str, "z");
        reader->fn->freeObject(reply);
    }
    free(text);
    redisReaderFree(reader);
    reply_arena_free(arena);
}

static void
test_incomplete_reply_of_a_closed_connection_is_dropped(void **state)
{
    struct reply_arena *arena = reply_arena_new();
    redisReader *reader = reader_on(arena);
    redisReply *reply;

    (void)state;
    feed(reader, "*2\r\n$1\r\na\r\n");
    assert_null(next_of(reader));
    redisReaderFree(reader);
    reader = reader_on(arena);
    feed(reader, ":1\r\n");
    reply = next_of(reader);
    assert_int_equal(reply->integer, 1);
    reader->fn->freeObject(reply);
    redisReaderFree(reader);
    reply_arena_free(arena);
}

/* The connection closes during the callback that handles the reply. */
static void
test_arena_can_be_freed_while_a_reply_is_in_use(void **state)
{
    struct reply_arena *arena = reply_arena_new();
    redisReader *reader = reader_on(arena);
    redisReply *reply;

    (void)state;
    feed(reader, "$4\r\nword\r\n");
    reply = next_of(reader);
    reply_arena_free(arena);
    assert_string_equal(reply->str, "word");
    reader->fn->freeObject(reply);
    redisReaderFree(reader);
}

/* A large count alone must not allocate memory. */
static void
test_too_many_elements_are_rejected(void **state)
{
    static const char *const heads[] = {"*2147483647\r\n", "*1048577\r\n",
                                        "*2\r\n*1\r\n:1\r\n*2147483647\r\n"};

    (void)state;
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        struct reply_arena *arena = reply_arena_new();
        redisReader *reader = reader_on(arena);
        void *reply = NULL;

        feed(reader, heads[i]);
        assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_ERR);
        assert_null(reply);
        redisReaderFree(reader);
        reply_arena_free(arena);
    }
}

/* An unexpected reply closes the connection; an unexpected error is passed on. */
static void
test_unexpected_reply_is_an_error(void **state)
{
    struct reply_arena *arena = reply_arena_new();
    redisReader *reader = reader_on(arena);
    void *reply = NULL;

    (void)state;
    expected = 0;
    feed(reader, "-ERR max number of clients reached\r\n+OK\r\n");
    reply = next_of(reader);
    assert_int_equal(((redisReply *)reply)->type, REDIS_REPLY_ERROR);
    reader->fn->freeObject(reply);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_ERR);
    expected = 1;
    redisReaderFree(reader);
    reply_arena_free(arena);
}

/* A stream entry has no value of the fields that only an entry of a pending list has. */
static void
fields_of_a_pending_list_are_zero(void **state)
{
    redisReply *reply = make_entry(1, 1, "", false);
    struct entry entry;

    (void)state;
    assert_int_equal(entry_read(reply, &entry), RC_OK);
    assert_true(entry_id_is_zero(entry.first));
    assert_false(entry.is_ended);
    assert_false(entry.is_acked);
    drop(reply);
}

/* The scripts write this field; any text must have defined behaviour. */
static void
an_expiration_out_of_range_is_rejected(void **state)
{
    static const struct {
        const char *text;
        enum rc rc;
        int64_t expires_us;
    } CASES[] = {{"0", RC_OK, 0},
                 {"9223372036854775", RC_OK, 9223372036854775000},
                 {"9223372036854776", RC_BAD, 0},
                 {"9223372036854775807", RC_BAD, 0},
                 {"99999999999999999999999999", RC_BAD, 0},
                 {"-1", RC_BAD, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        redisReply *reply = make_entry(1, 1, "", false), *fields = reply->element[1];
        size_t at = fields->elements;
        struct entry entry;

        put_field(fields, &at, "open_ended", CASES[i].text, strlen(CASES[i].text));
        fields->elements = at;
        assert_int_equal(entry_read(reply, &entry), CASES[i].rc);
        if (CASES[i].rc == RC_OK)
            assert_int_equal(entry.expires_us, CASES[i].expires_us);
        drop(reply);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_a_pending_list_are_zero),
        cmocka_unit_test(an_expiration_out_of_range_is_rejected),
        cmocka_unit_test(test_all_types_are_read),
        cmocka_unit_test(test_long_replies_reuse_memory),
        cmocka_unit_test(test_incomplete_reply_of_a_closed_connection_is_dropped),
        cmocka_unit_test(test_arena_can_be_freed_while_a_reply_is_in_use),
        cmocka_unit_test(test_too_many_elements_are_rejected),
        cmocka_unit_test(test_unexpected_reply_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
