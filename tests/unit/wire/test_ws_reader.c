/* test_ws_reader.c: the result does not depend on how the input is fragmented. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "wire/ws_frame.h"

#define LOG_MAX (256 * 1024)

/* A masked frame with the shortest length encoding. */
static void
add_frame(struct buffer *out, unsigned first, const char *payload, size_t len)
{
    static const unsigned char MASK[] = {0x12, 0x34, 0x56, 0x78};
    unsigned char head[8] = {(unsigned char)first, (unsigned char)(0x80u | len)};
    size_t head_len = 2;

    if (len > 125) {
        head[1] = 0x80 | 126;
        head[2] = (unsigned char)(len >> 8);
        head[3] = (unsigned char)len;
        head_len = 4;
    }
    memcpy(head + head_len, MASK, 4);
    assert_int_equal(buffer_add(out, head, head_len + 4), RC_OK);
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)payload[i] ^ MASK[i % 4];
        assert_int_equal(buffer_add(out, &byte, 1), RC_OK);
    }
}

/* Logs data unchanged, (t) or (b) at the end of a message, and control frames in brackets. */
static void
add_event(struct buffer *log, const struct ws_event *event)
{
    static const char LETTERS[] = "-Dpqc!";

    if (event->kind == WS_DATA) {
        assert_int_equal(buffer_add(log, event->at, event->len), RC_OK);
        if (event->is_last)
            assert_int_equal(buffer_add(log, event->is_binary ? "(b)" : "(t)", 3), RC_OK);
    } else if (event->kind != WS_NOTHING) {
        assert_int_equal(buffer_addf(log, "[%c%.*s]", LETTERS[event->kind], (int)event->len,
                                     event->len > 0 ? (const char *)event->at : ""),
                         RC_OK);
    }
}

/* Reads `bytes` in chunks of `step`. The caller frees *ret_log. */
static void
read_in_steps(const struct buffer *bytes, size_t step, struct buffer *ret_log)
{
    struct ws_reader reader = {0};
    unsigned char *copy = malloc(bytes->len);
    bool broken = false;

    assert_non_null(copy);
    memcpy(copy, bytes->bytes, bytes->len);
    buffer_init(ret_log, LOG_MAX);
    assert_int_equal(buffer_add(ret_log, "", 0), RC_OK);
    for (size_t at = 0; at < bytes->len && !broken;) {
        size_t chunk_len = bytes->len - at < step ? bytes->len - at : step;

        while (chunk_len > 0 && !broken) {
            size_t used = 0;
            struct ws_event event = ws_reader_next(&reader, copy + at, chunk_len, &used);

            assert_true(used <= chunk_len);
            assert_true(used > 0);
            add_event(ret_log, &event);
            broken = event.kind == WS_BROKEN;
            at += used;
            chunk_len -= used;
        }
    }
    ws_reader_free(&reader);
    free(copy);
}

static void
assert_log(const struct buffer *bytes, const char *expected)
{
    static const size_t STEPS[] = {1, 2, 3, 5, 7, 64, 1000, 100000};

    for (size_t i = 0; i < sizeof(STEPS) / sizeof(STEPS[0]); i++) {
        struct buffer log;

        read_in_steps(bytes, STEPS[i], &log);
        assert_string_equal(log.bytes, expected);
        buffer_free(&log);
    }
}

static void
messages_and_control_frames_are_parsed(void **state)
{
    struct buffer bytes;

    (void)state;
    buffer_init(&bytes, LOG_MAX);
    add_frame(&bytes, 0x81, "hello", 5);
    add_frame(&bytes, 0x01, "in ", 3);
    add_frame(&bytes, 0x89, "ping", 4);
    add_frame(&bytes, 0x00, "", 0);
    add_frame(&bytes, 0x8a, "", 0);
    add_frame(&bytes, 0x80, "two", 3);
    add_frame(&bytes, 0x82, "\x01", 1);
    add_frame(&bytes, 0x81, "", 0);
    add_frame(&bytes, 0x88, "\x03\xe8 bye", 6);
    assert_log(&bytes, "hello(t)in [pping][q]two(t)\x01(b)(t)[c\x03\xe8 bye]");
    buffer_free(&bytes);
}

static void
long_messages_are_parsed(void **state)
{
    static char payload[60000];
    static char expected[sizeof(payload) + 8];
    struct buffer bytes;

    (void)state;
    for (size_t i = 0; i < sizeof(payload); i++)
        payload[i] = (char)('a' + i % 26);
    buffer_init(&bytes, LOG_MAX);
    add_frame(&bytes, 0x81, payload, sizeof(payload));
    memcpy(expected, payload, sizeof(payload));
    memcpy(expected + sizeof(payload), "(t)", 4);
    assert_log(&bytes, expected);
    buffer_free(&bytes);
}

static void
length_is_reported_before_the_payload(void **state)
{
    unsigned char head[] = {0x81, 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 1, 2, 3, 4};
    struct ws_reader reader = {0};
    size_t used = 0;
    struct ws_event event = ws_reader_next(&reader, head, sizeof(head), &used);

    (void)state;
    assert_int_equal(event.kind, WS_DATA);
    assert_int_equal(event.len, 0);
    assert_int_equal(event.left, 0x40000000);
    assert_false(event.is_last);
    assert_int_equal(used, sizeof(head));
}

static void
expect_broken(unsigned first, unsigned second, const char *word)
{
    unsigned char bytes[16] = {(unsigned char)first, (unsigned char)second, 0xff};
    struct ws_reader reader = {0};
    size_t used = 0;
    struct ws_event event = ws_reader_next(&reader, bytes, sizeof(bytes), &used);

    assert_int_equal(event.kind, WS_BROKEN);
    if (strstr(event.why, word) == NULL)
        fail_msg("\"%s\" does not contain %s", event.why, word);
}

static void
invalid_headers_are_rejected(void **state)
{
    (void)state;
    expect_broken(0xc1, 0x81, "reserved bit");
    expect_broken(0x91, 0x81, "reserved bit");
    expect_broken(0x83, 0x80, "opcode");
    expect_broken(0x8b, 0x80, "opcode");
    expect_broken(0x8f, 0x80, "opcode");
    expect_broken(0x09, 0x80, "fragmented");
    expect_broken(0x80, 0x80, "without a message");
    expect_broken(0x00, 0x80, "without a message");
    expect_broken(0x81, 0x01, "unmasked");
    expect_broken(0x89, 0xfe, "125");
    expect_broken(0x88, 0xff, "125");
    expect_broken(0x81, 0xff, "highest bit");
}

/* A frame header with `len` encoded in `size` bytes. */
static struct ws_event
parse_length(unsigned size, uint64_t len)
{
    unsigned char bytes[14] = {0x82, size == 2 ? 0xfe : 0xff};
    struct ws_reader reader = {0};
    size_t used = 0;

    for (unsigned i = 0; i < size; i++)
        bytes[2 + i] = (unsigned char)(len >> 8 * (size - 1 - i));
    return ws_reader_next(&reader, bytes, 2 + size + 4, &used);
}

/* RFC 6455, 5.2: "the minimal number of bytes MUST be used to encode the length". */
static void
non_minimal_lengths_are_rejected(void **state)
{
    (void)state;
    assert_int_equal(parse_length(2, 0).kind, WS_BROKEN);
    assert_int_equal(parse_length(2, 125).kind, WS_BROKEN);
    assert_int_equal(parse_length(2, 126).kind, WS_DATA);
    assert_int_equal(parse_length(2, 65535).kind, WS_DATA);
    assert_int_equal(parse_length(8, 125).kind, WS_BROKEN);
    assert_int_equal(parse_length(8, 65535).kind, WS_BROKEN);
    assert_non_null(strstr(parse_length(8, 65535).why, "shortest"));
    assert_int_equal(parse_length(8, 65536).kind, WS_DATA);
}

static void
interleaved_messages_are_rejected(void **state)
{
    struct buffer bytes;

    (void)state;
    buffer_init(&bytes, LOG_MAX);
    add_frame(&bytes, 0x01, "a", 1);
    add_frame(&bytes, 0x81, "b", 1);
    assert_log(&bytes, "a[!]");
    buffer_free(&bytes);
}

static int
close_reply(const char *payload, size_t len)
{
    const char *why = "";
    int code = ws_close_reply_code((const unsigned char *)payload, len, &why);

    assert_int_equal(why == NULL, code != 1002 && code != 1007);
    return code;
}

static void
close_frame_receives_a_reply(void **state)
{
    (void)state;
    assert_int_equal(close_reply("", 0), WS_NO_CODE);
    assert_int_equal(close_reply("\x03", 1), 1002);
    assert_int_equal(close_reply("\x03\xe8", 2), 1000);
    assert_int_equal(close_reply("\x0f\xa0 why", 6), 4000);
    assert_int_equal(close_reply("\x03\xed", 2), 1002); /* 1005 */
    assert_int_equal(close_reply("\x13\x88", 2), 1002); /* 5000 */
    assert_int_equal(close_reply("\x03\xe8\xff", 3), 1007);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_and_control_frames_are_parsed),
        cmocka_unit_test(long_messages_are_parsed),
        cmocka_unit_test(length_is_reported_before_the_payload),
        cmocka_unit_test(invalid_headers_are_rejected),
        cmocka_unit_test(non_minimal_lengths_are_rejected),
        cmocka_unit_test(interleaved_messages_are_rejected),
        cmocka_unit_test(close_frame_receives_a_reply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
