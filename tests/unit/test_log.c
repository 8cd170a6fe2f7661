/* test_log.c: is every event one line that a machine can read, whatever the text holds? */
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

/* Standard error goes into a pipe for the one event, and comes back before anything is judged. */
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
says_who_first(void **state)
{
    (void)state;
    log_setup(LOG_LEVEL_INFO, LOG_FORMAT_LOGFMT);
    CAPTURE(log_infof("feed", "could not connect: %s", "refused"));
    assert_memory_equal(captured, "who=feed level=info at=20", 25);
    assert_non_null(strstr(captured, "Z msg=\"could not connect: refused\"\n"));
    assert_int_equal(strlen(strstr(captured, "at=")), strlen("at=2026-11-21T04:00:00.000000Z msg="
                                                             "\"could not connect: refused\"\n"));
}

static void
keeps_to_the_level(void **state)
{
    (void)state;
    log_setup(LOG_LEVEL_WARN, LOG_FORMAT_LOGFMT);
    CAPTURE(log_infof("feed", "hidden"));
    assert_string_equal(captured, "");
    CAPTURE(log_warnf("feed", "shown"));
    assert_non_null(strstr(captured, "level=warn"));
    CAPTURE(log_errorf("feed", "shown"));
    assert_non_null(strstr(captured, "level=error"));
}

static void
nothing_forges_a_second_line(void **state)
{
    (void)state;
    log_setup(LOG_LEVEL_DEBUG, LOG_FORMAT_LOGFMT);
    CAPTURE(log_debugf("conn=7 user=\n\"x", "a\nwho=feed \"b\" \\ \x1b[2J \xc2\x9b \xff \x7f"));
    assert_memory_equal(captured, "who=\"conn=7 user=\\n\\\"x\" level=debug", 35);
    assert_non_null(strstr(captured, "msg=\"a\\nwho=feed \\\"b\\\" \\\\ \\u001b[2J \\u009b "
                                     "\xef\xbf\xbd \\u007f\"\n"));
    assert_ptr_equal(strchr(captured, '\n'), captured + strlen(captured) - 1);
}

static void
cuts_at_four_kilobytes(void **state)
{
    static const char *const fillers[] = {"x", "\n", "\x01", "\xf0\x9f\x98\x80"};
    char text[6001], who[6001];

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        size_t step = strlen(fillers[i]);

        for (size_t at = 0; at < 6000; at += step)
            memcpy(text + at, fillers[i], step);
        text[6000] = '\0';
        memcpy(who, text, sizeof who);
        for (int format = LOG_FORMAT_LOGFMT; format <= LOG_FORMAT_JSON; format++) {
            log_setup(LOG_LEVEL_INFO, (enum log_format)format);
            CAPTURE(log_infof(who, "%s", text));
            assert_in_range(strlen(captured), 4070, 4096);
            assert_int_equal(captured[strlen(captured) - 1], '\n');
            assert_ptr_equal(strchr(captured, '\n'), captured + strlen(captured) - 1);
            assert_non_null(strstr(captured, "..\""));
        }
    }
}

static void
json_is_json(void **state)
{
    json_t *line;

    (void)state;
    log_setup(LOG_LEVEL_INFO, LOG_FORMAT_JSON);
    CAPTURE(log_infof("gate", "a\n\"b\" \x01 \xff \xc3\xa9"));
    line = json_loads(captured, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(line);
    assert_memory_equal(captured, "{\"who\":\"gate\"", 13);
    assert_string_equal(json_string_value(json_object_get(line, "level")), "info");
    assert_string_equal(json_string_value(json_object_get(line, "msg")),
                        "a\n\"b\" \x01 \xef\xbf\xbd \xc3\xa9");
    assert_int_equal(strlen(json_string_value(json_object_get(line, "at"))), 27);
    json_decref(line);
}

static void
errno_survives(void **state)
{
    (void)state;
    log_setup(LOG_LEVEL_INFO, LOG_FORMAT_LOGFMT);
    errno = ENOENT;
    CAPTURE(log_infof("feed", "could not open: %m"));
    assert_non_null(strstr(captured, "No such file"));

    int saved = dup(STDERR_FILENO), after;

    (void)close(STDERR_FILENO);
    errno = ENOENT;
    log_infof("feed", "nobody listens");
    after = errno;
    (void)dup2(saved, STDERR_FILENO);
    (void)close(saved);
    assert_int_equal(after, ENOENT);
}

/* Fills a pipe to the last byte, as one whose reader stands still. */
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
never_waits_for_its_reader(void **state)
{
    char block[4096];
    static uint64_t lost;

    (void)state;
    log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
    log_count_lost(&lost);
    CAPTURE(log_errorf("gate", "tells of those lost before"));
    alarm(10); /* who waits is ended */
    CAPTURE({
        fill(ends[1]);
        for (int i = 0; i < 3; i++)
            log_errorf("gate", "nobody takes this");
        assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
        while (read(ends[0], block, sizeof block) > 0)
            ;
        log_errorf("gate", "first");
        log_errorf("gate", "second");
    });
    alarm(0);
    assert_int_equal(lost, 3);
    assert_memory_equal(captured, "who=log level=warn at=", 22);
    assert_non_null(strstr(captured, "msg=\"3 lines were lost: who reads this log stood still"));
    assert_null(strstr(captured, "nobody takes this"));
    assert_true(strstr(captured, "first") < strstr(captured, "second"));
    assert_null(strstr(strstr(captured, "first"), "lost"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_who_first),
        cmocka_unit_test(keeps_to_the_level),
        cmocka_unit_test(nothing_forges_a_second_line),
        cmocka_unit_test(cuts_at_four_kilobytes),
        cmocka_unit_test(json_is_json),
        cmocka_unit_test(errno_survives),
        cmocka_unit_test(never_waits_for_its_reader),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
