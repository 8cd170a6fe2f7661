/* test_log.c: every event is one parsable line, for any field values. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/log.h"

static char captured[8192];

/* Redirects standard error into a pipe for one event and restores it before the assertions. */
#define CAPTURE(event)                                                                             \
    do {                                                                                           \
        int ends[2], saved = dup(STDERR_FILENO);                                                   \
        ssize_t got;                                                                               \
                                                                                                   \
        assert_int_equal(pipe(ends), 0);                                                           \
        (void)dup2(ends[1], STDERR_FILENO);                                                        \
        event;                                                                                     \
        (void)dup2(saved, STDERR_FILENO);                                                          \
        (void)close(saved);                                                                        \
        (void)close(ends[1]);                                                                      \
        got = read(ends[0], captured, sizeof captured - 1);                                        \
        (void)close(ends[0]);                                                                      \
        assert_true(got >= 0);                                                                     \
        captured[got] = '\0';                                                                      \
    } while (0)

static void
logfmt_starts_with_component_level_and_time(void **state)
{
    (void)state;
    log_setup(LOG_LEVEL_INFO, LOG_FORMAT_LOGFMT);
    CAPTURE(log_info("feed", "connection failed", LOG_TEXT("error", "refused")));
    assert_memory_equal(captured, "component=feed level=info time=20", 33);
    assert_non_null(strstr(captured, "Z msg=\"connection failed\" error=\"refused\"\n"));
    assert_int_equal(strlen(strstr(captured, "time=")),
                     strlen("time=2026-11-21T04:00:00.000000Z msg="
                            "\"connection failed\" "
                            "error=\"refused\"\n"));
}

static void
each_type_of_field_has_its_form(void **state)
{
    const char *absent = NULL;
    json_t *line;

    (void)state;
    for (int format = LOG_FORMAT_LOGFMT; format <= LOG_FORMAT_JSON; format++) {
        log_setup(LOG_LEVEL_INFO, (enum log_format)format);
        CAPTURE(log_info("x", "m", LOG_TEXT("absent", absent), LOG_TEXT("empty", ""),
                         LOG_BYTES("part", "slot1", 4), LOG_INT("low", INT64_MIN),
                         LOG_UINT("high", UINT64_MAX), LOG_SECONDS("wait_s", 0.5),
                         LOG_SECONDS("never_s", 1.0 / 0.0), LOG_BOOL("ready", true)));
        assert_null(strstr(captured, "absent"));
        if (format == LOG_FORMAT_LOGFMT)
            assert_non_null(strstr(captured, " msg=\"m\" empty=\"\" part=\"slot\" "
                                             "low=-9223372036854775808 high=18446744073709551615 "
                                             "wait_s=0.500 never_s=null ready=true\n"));
    }
    assert_non_null(strstr(captured, ",\"msg\":\"m\",\"empty\":\"\",\"part\":\"slot\","
                                     "\"low\":-9223372036854775808,\"high\":18446744073709551615,"
                                     "\"wait_s\":0.500,\"never_s\":null,\"ready\":true}\n"));
    log_setup(LOG_LEVEL_INFO, LOG_FORMAT_JSON);
    CAPTURE(log_info("x", "m"));
    line = json_loads(captured, JSON_REJECT_DUPLICATES, NULL);
    assert_int_equal(json_object_size(line), 4);
    json_decref(line);
}

static void
lines_below_the_level_are_not_written(void **state)
{
    (void)state;
    log_setup(LOG_LEVEL_WARN, LOG_FORMAT_LOGFMT);
    CAPTURE(log_info("feed", "hidden"));
    assert_string_equal(captured, "");
    CAPTURE(log_warn("feed", "written"));
    assert_non_null(strstr(captured, "level=warn"));
    CAPTURE(log_error("feed", "written"));
    assert_non_null(strstr(captured, "level=error"));
}

static void
field_values_cannot_forge_a_second_line(void **state)
{
    const char *text = "a\ncomponent=feed \"b\" \\ \x1b[2J \xc2\x9b \xff \x7f";

    (void)state;
    log_setup(LOG_LEVEL_DEBUG, LOG_FORMAT_LOGFMT);
    CAPTURE(log_debug("conn=7 user=\n\"x", text, LOG_TEXT("error", text)));
    assert_memory_equal(captured, "component=\"conn=7 user=\\n\\\"x\" level=debug", 41);
    assert_non_null(strstr(captured,
                           "msg=\"a\\ncomponent=feed \\\"b\\\" \\\\ \\u001b[2J \\u009b "
                           "\xef\xbf\xbd \\u007f\" error=\"a\\ncomponent=feed \\\"b\\\" \\\\ "
                           "\\u001b[2J \\u009b \xef\xbf\xbd \\u007f\"\n"));
    assert_ptr_equal(strchr(captured, '\n'), captured + strlen(captured) - 1);
}

static void
marks_that_change_the_layout_are_escaped(void **state)
{
    const char *text = "\xd8\x9b \xd8\x9c \xe2\x80\x8d \xe2\x80\x8e \xe2\x80\xa8 \xe2\x80\xa9 "
                       "\xe2\x80\xae \xe2\x81\xa6 \xe2\x81\xaa";

    (void)state;
    log_setup(LOG_LEVEL_INFO, LOG_FORMAT_LOGFMT);
    CAPTURE(log_info("gate", "m", LOG_TEXT("user", text)));
    assert_non_null(strstr(captured,
                           " user=\"\xd8\x9b \\u061c \xe2\x80\x8d \\u200e \\u2028 \\u2029 "
                           "\\u202e \\u2066 \xe2\x81\xaa\"\n"));
}

static const char *const fillers[] = {"x", "\n", "\x01", "\xf0\x9f\x98\x80"};

/* 6000 bytes of one filler. */
static void
fill_text(char text[6001], const char *filler)
{
    size_t step = strlen(filler);

    for (size_t at = 0; at < 6000; at += step)
        memcpy(text + at, filler, step);
    text[6000] = '\0';
}

static void
assert_one_line(size_t shortest)
{
    assert_in_range(strlen(captured), shortest, 4096);
    assert_int_equal(captured[strlen(captured) - 1], '\n');
    assert_ptr_equal(strchr(captured, '\n'), captured + strlen(captured) - 1);
    assert_non_null(strstr(captured, "..\""));
}

static void
a_line_is_cut_at_four_kilobytes(void **state)
{
    char text[6001];

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        fill_text(text, fillers[i]);
        for (int format = LOG_FORMAT_LOGFMT; format <= LOG_FORMAT_JSON; format++) {
            log_setup(LOG_LEVEL_INFO, (enum log_format)format);
            CAPTURE(log_info(text, text, LOG_TEXT("error", text), LOG_INT("count", 7)));
            assert_one_line(4070);
            CAPTURE(
                log_info(text, "m", LOG_TEXT("a", text), LOG_TEXT("b", text), LOG_TEXT("c", "")));
            assert_one_line(4070);
        }
    }
}

static void
a_long_field_leaves_room_for_message_and_other_fields(void **state)
{
    char text[6001];
    json_t *line;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        fill_text(text, fillers[i]);
        log_setup(LOG_LEVEL_INFO, LOG_FORMAT_LOGFMT);
        CAPTURE(log_info(text, "the message", LOG_TEXT("error", text), LOG_INT("count", 7)));
        assert_one_line(2048);
        assert_non_null(strstr(captured, "msg=\"the message\" error=\""));
        assert_non_null(strstr(captured, "..\" count=7\n"));
        log_setup(LOG_LEVEL_INFO, LOG_FORMAT_JSON);
        CAPTURE(log_info(text, "m", LOG_TEXT("a", text), LOG_TEXT("b", text), LOG_TEXT("c", text)));
        line = json_loads(captured, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(line);
        assert_string_equal(json_string_value(json_object_get(line, "msg")), "m");
        json_decref(line);
    }
}

static void
json_lines_parse(void **state)
{
    json_t *line;

    (void)state;
    log_setup(LOG_LEVEL_INFO, LOG_FORMAT_JSON);
    CAPTURE(log_info("gate", "a\n\"b\" \x01 \xff \xc3\xa9"));
    line = json_loads(captured, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(line);
    assert_memory_equal(captured, "{\"component\":\"gate\"", 19);
    assert_string_equal(json_string_value(json_object_get(line, "level")), "info");
    assert_string_equal(json_string_value(json_object_get(line, "msg")),
                        "a\n\"b\" \x01 \xef\xbf\xbd \xc3\xa9");
    assert_int_equal(strlen(json_string_value(json_object_get(line, "time"))), 27);
    json_decref(line);
}

static void
errno_is_preserved(void **state)
{
    (void)state;
    log_setup(LOG_LEVEL_INFO, LOG_FORMAT_LOGFMT);
    errno = ENOENT;
    CAPTURE(log_info("feed", "could not open file", LOG_TEXT("error", strerror(errno))));
    assert_int_equal(errno, ENOENT);
    assert_non_null(strstr(captured, "No such file"));

    int saved = dup(STDERR_FILENO), after;

    (void)close(STDERR_FILENO);
    errno = ENOENT;
    log_info("feed", "standard error is closed");
    after = errno;
    (void)dup2(saved, STDERR_FILENO);
    (void)close(saved);
    assert_int_equal(after, ENOENT);
}

/* Fills a pipe to the last byte, as when its reader is stopped. */
static void
fill(int fd)
{
    char block[4096] = {0};
    int flags = fcntl(fd, F_GETFL);

    assert_int_equal(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
    while (write(fd, block, sizeof block) > 0)
        ;
    assert_int_equal(fcntl(fd, F_SETFL, flags), 0);
}

static void
a_blocked_log_drops_and_counts_lines(void **state)
{
    char block[4096];
    static uint64_t lost;

    (void)state;
    log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
    log_count_lost(&lost);
    CAPTURE(log_error("gate", "reports lines lost before"));
    alarm(120); /* a blocking write fails the test */
    CAPTURE({
        fill(ends[1]);
        for (int i = 0; i < 3; i++)
            log_error("gate", "dropped");
        assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
        while (read(ends[0], block, sizeof block) > 0)
            ;
        log_error("gate", "first");
        log_error("gate", "second");
    });
    alarm(0);
    assert_int_equal(lost, 3);
    assert_memory_equal(captured, "component=log level=warn time=", 30);
    assert_non_null(
        strstr(captured, "msg=\"log lines lost: standard error blocked or disk full\" count=3\n"));
    assert_null(strstr(captured, "dropped"));
    assert_true(strstr(captured, "first") < strstr(captured, "second"));
    assert_null(strstr(strstr(captured, "first"), "lost"));
}

static size_t
count_of(const char *text)
{
    size_t count = 0;

    for (const char *at = captured; (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

static void
a_blocked_log_keeps_audit_lines(void **state)
{
    char block[4096];
    static uint64_t lost;

    (void)state;
    log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
    log_count_lost(&lost);
    alarm(120);
    CAPTURE({
        fill(ends[1]);
        log_audit("amy", "drop", "kept");
        log_flush(0);
        assert_int_equal(lost, 0);
        assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
        while (read(ends[0], block, sizeof block) > 0)
            ;
        log_flush(-1);
        log_error("gate", "later");
    });
    assert_non_null(strstr(captured, "component=audit level=info"));
    assert_non_null(strstr(captured, "actor=\"amy\" act=\"drop\" object=\"kept\"\n"));
    assert_int_equal(count_of("kept"), 1);
    assert_true(strstr(captured, "kept") < strstr(captured, "later"));
    CAPTURE({
        fill(ends[1]);
        for (int i = 0; i < 40; i++)
            log_audit("amy", "drop", "many");
        assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
        while (read(ends[0], block, sizeof block) > 0)
            ;
        log_error("gate", "later");
    });
    alarm(0);
    assert_int_equal(lost, 8);
    assert_int_equal(count_of("many"), 32);
    assert_true(strstr(captured, "lost") > strstr(captured, "many"));
    assert_true(strstr(captured, "lost") < strstr(captured, "later"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logfmt_starts_with_component_level_and_time),
        cmocka_unit_test(each_type_of_field_has_its_form),
        cmocka_unit_test(lines_below_the_level_are_not_written),
        cmocka_unit_test(field_values_cannot_forge_a_second_line),
        cmocka_unit_test(marks_that_change_the_layout_are_escaped),
        cmocka_unit_test(a_line_is_cut_at_four_kilobytes),
        cmocka_unit_test(a_long_field_leaves_room_for_message_and_other_fields),
        cmocka_unit_test(json_lines_parse),
        cmocka_unit_test(errno_is_preserved),
        cmocka_unit_test(a_blocked_log_drops_and_counts_lines),
        cmocka_unit_test(a_blocked_log_keeps_audit_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
