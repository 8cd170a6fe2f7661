/*
 * test_cutoff.c: a cut-off rejects the tokens of its user, token or session until its end; the
 * forms in the store and in tickets, and times.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/cutoff.h"

#define NOW 1795230000

static struct cutoff_marks
marks_of(const char *user, const char *jti, const char *sid, int64_t issued_s)
{
    struct cutoff_marks marks = {.issued_s = issued_s, .user = cutoff_of_user(user)};

    if (jti != NULL)
        marks.token = cutoff_of_token(user, jti);
    if (sid != NULL)
        marks.session = cutoff_of_session("https://a.example", sid);
    return marks;
}

static bool
rejects(struct cutoff cutoff, struct cutoff_marks marks, int64_t now_s)
{
    return cutoff_rejects(&cutoff, &marks, now_s);
}

static void
tokens_of_the_user_are_rejected_until_the_end(void **state)
{
    struct cutoff cutoff = cutoff_for("ada", NULL, 0, NOW);

    (void)state;
    assert_int_equal(cutoff.issued_s, CUTOFF_NOW_S);
    assert_int_equal(cutoff.ends_s, NOW + 400 * 86400);
    cutoff.issued_s = NOW;
    assert_true(rejects(cutoff, marks_of("ada", NULL, NULL, NOW), NOW));
    assert_true(rejects(cutoff, marks_of("ada", NULL, NULL, -1), NOW));
    assert_true(rejects(cutoff, marks_of("ada", "j", "s", 0), cutoff.ends_s - 1));
    assert_false(rejects(cutoff, marks_of("ada", NULL, NULL, NOW + 1), NOW));
    assert_false(rejects(cutoff, marks_of("ada", NULL, NULL, NOW), cutoff.ends_s));
    assert_false(rejects(cutoff, marks_of("ad", NULL, NULL, NOW), NOW));
    assert_false(rejects(cutoff, marks_of("bob", "ada", "ada", NOW), NOW));
}

static void
a_token_or_a_session_is_rejected_whenever_it_was_issued(void **state)
{
    const struct cutoff one = cutoff_for("ada", "j1", NOW + 5, NOW);
    const struct cutoff session = {.digest = cutoff_of_session("https://a.example", "s1"),
                                   .issued_s = CUTOFF_ALL_S,
                                   .ends_s = NOW + 5};

    (void)state;
    assert_int_equal(one.ends_s, NOW + 5);
    assert_true(rejects(one, marks_of("ada", "j1", NULL, NOW + 1000), NOW));
    assert_false(rejects(one, marks_of("ada", "j2", NULL, NOW), NOW));
    assert_false(rejects(one, marks_of("ada", NULL, "j1", NOW), NOW));
    assert_false(rejects(one, marks_of("bob", "j1", NULL, NOW), NOW));
    assert_true(rejects(session, marks_of("ada", NULL, "s1", NOW + 1000), NOW));
    assert_true(rejects(session, marks_of("bob", NULL, "s1", -1), NOW));
    assert_false(rejects(session, marks_of("ada", "s1", "s2", NOW), NOW));
}

static struct bytes
bytes_of(const char *text)
{
    return (struct bytes){(const unsigned char *)text, strlen(text)};
}

static void
the_form_in_the_store_is_read(void **state)
{
    static const char DIGEST[] = "0123456789abcdef0000000000000001";
    static const char *const digests[] = {"", "0123456789abcdef000000000000000",
                                          "0123456789abcdef00000000000000011",
                                          "0123456789ABCDEF0000000000000001"};
    static const char *const values[] = {
        "", "1", "1:", ":2", "1:2:", "1:x", "-1:2", "1:2:3", "1234567890123:1"};
    struct cutoff cutoff = {.issued_s = 7};
    char digest[CUTOFF_DIGEST_TEXT + 1], value[CUTOFF_VALUE_TEXT];

    (void)state;
    for (size_t i = 0; i < sizeof(digests) / sizeof(digests[0]); i++)
        assert_false(cutoff_read(bytes_of(digests[i]), bytes_of("1:2"), &cutoff));
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        assert_false(cutoff_read(bytes_of(DIGEST), bytes_of(values[i]), &cutoff));
    assert_false(cutoff_read((struct bytes){NULL, 0}, (struct bytes){NULL, 0}, &cutoff));
    assert_int_equal(cutoff.issued_s, 7);
    assert_true(cutoff_read(bytes_of(DIGEST), bytes_of("5:1795230000"), &cutoff));
    assert_true(cutoff.digest.high == 0x0123456789abcdef && cutoff.digest.low == 1);
    assert_int_equal(cutoff.issued_s, 5);
    assert_int_equal(cutoff.ends_s, 1795230000);
    cutoff_write_digest(&cutoff, digest);
    cutoff_write_value(&cutoff, value);
    assert_string_equal(digest, DIGEST);
    assert_string_equal(value, "5:1795230000");
    cutoff.issued_s = CUTOFF_ALL_S;
    cutoff_write_value(&cutoff, value);
    assert_true(cutoff_read(bytes_of(digest), bytes_of(value), &cutoff));
    assert_int_equal(cutoff.issued_s, CUTOFF_ALL_S);
}

static void
a_ticket_keeps_the_marks(void **state)
{
    const struct cutoff_marks full = marks_of("ada", "j", "s", NOW);
    const struct cutoff_marks few = marks_of("ada", NULL, NULL, -1);
    struct cutoff_marks read = {.user = cutoff_of_user("ada")};
    char text[CUTOFF_MARKS_TEXT];

    (void)state;
    cutoff_marks_write(&full, text);
    assert_true(cutoff_marks_read(text, &read));
    assert_memory_equal(&read, &full, sizeof(read));
    text[3] = 'x';
    assert_false(cutoff_marks_read(text, &read));
    cutoff_marks_write(&few, text);
    assert_true(cutoff_marks_read(text, &read));
    assert_memory_equal(&read, &few, sizeof(read));
    assert_false(cutoff_marks_read("", &read));
    text[strlen(text) - 1] = '\0';
    assert_false(cutoff_marks_read(text, &read));
}

static void
times_are_read(void **state)
{
    static const struct {
        const char *text;
        int64_t s;
    } good[] = {
        {"2026-11-21T03:00:00Z", 1795230000},
        {"2026-11-21t03:00:00z", 1795230000},
        {"2026-11-21 03:00:00Z", 1795230000},
        {"2026-11-21T04:30:00+01:30", 1795230000},
        {"2026-11-20T22:00:00-05:00", 1795230000},
        {"2026-11-21T03:00:00.000Z", 1795230000},
        {"2026-11-21T03:00:00.1Z", 1795230001},
        {"2028-02-29T00:00:00Z", 1835395200},
        {"1970-01-01T00:00:00Z", 0},
        {"9999-12-31T23:59:59Z", 253402300799},
    };
    static const char *const bad[] = {"",
                                      "tomorrow",
                                      "2026-11-21",
                                      "2026-11-21T03:00:00",
                                      "2026-11-21T03:00Z",
                                      "2026-11-21T03:00:00.Z",
                                      "2026-11-21T03:00:00Z ",
                                      "2026-11-21T03:00:00+0100",
                                      "2026-11-21T03:00:00+24:00",
                                      "2026-11-21T03:00:00+01:60",
                                      "2027-02-29T00:00:00Z",
                                      "2026-13-01T00:00:00Z",
                                      "2026-00-01T00:00:00Z",
                                      "2026-11-31T00:00:00Z",
                                      "2026-11-21T24:00:00Z",
                                      "2026-11-21T03:60:00Z",
                                      "+026-11-21T03:00:00Z",
                                      "1969-12-31T23:59:59Z",
                                      "9999-12-31T23:59:59-00:01",
                                      "1795230000"};
    int64_t s = 7;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(cutoff_read_time(bad[i], &s));
    assert_int_equal(s, 7);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(cutoff_read_time(good[i].text, &s));
        assert_int_equal(s, good[i].s);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_of_the_user_are_rejected_until_the_end),
        cmocka_unit_test(a_token_or_a_session_is_rejected_whenever_it_was_issued),
        cmocka_unit_test(the_form_in_the_store_is_read),
        cmocka_unit_test(a_ticket_keeps_the_marks),
        cmocka_unit_test(times_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
