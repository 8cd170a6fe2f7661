/* test_control.c: memberships, reloads and cut-offs are read from the control stream. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/read/reader_private.h"
#include "tests/unit/store/replies.h"

/* All events, each followed by a space. */
static char seen[4096];

static void
note(const char *text)
{
    size_t len = strlen(seen);

    assert_in_range(len + strlen(text) + 2, 1, sizeof(seen));
    snprintf(seen + len, sizeof(seen) - len, "%s ", text);
}

static void
on_member(void *ctx, const struct reader_member *member)
{
    char line[100];

    (void)ctx;
    snprintf(line, sizeof(line), "%c%.*s:%" PRIu64, member->added ? '+' : '-',
             (int)member->user.len, (const char *)member->user.at, member->xid);
    note(line);
}

static void
on_reload(void *ctx, const struct reader_reload *reload)
{
    char line[100] = "any";

    (void)ctx;
    if (reload != NULL)
        snprintf(line, sizeof(line), "%.*s/%.*s:%" PRIu64 "@%" PRId64, (int)reload->source.len,
                 (const char *)reload->source.at, (int)reload->rule.len,
                 (const char *)reload->rule.at, reload->xid, reload->added_us);
    note(line);
}

static void
on_resumed(void *ctx)
{
    (void)ctx;
    note("resumed");
}

static void
on_cutoff(void *ctx, const struct cutoff *cutoff)
{
    char line[100];

    (void)ctx;
    snprintf(line, sizeof(line), "%" PRIx64 ":%" PRId64 "-%" PRId64, cutoff->digest.low,
             cutoff->issued_s, cutoff->ends_s);
    note(line);
}

static const struct reader_events EVENTS = {.on_member = on_member,
                                            .on_reload = on_reload,
                                            .on_cutoff = on_cutoff,
                                            .on_resumed = on_resumed};

/* `fields` contains words, separated by spaces. */
static redisReply *
make_entry(const char *id, const char *fields)
{
    redisReply *entry = array(2);
    char copy[100], *rest = copy, *word;
    size_t count = 0;

    entry->element[0] = text(id, strlen(id));
    entry->element[1] = array(10);
    snprintf(copy, sizeof(copy), "%s", fields);
    while ((word = strsep(&rest, " ")) != NULL)
        entry->element[1]->element[count++] = text(word, strlen(word));
    entry->element[1]->elements = count;
    return entry;
}

#define JOINED "change + audience ROLE target a user u1 xid 7"
#define COPIED "change ="
#define RELOADED "change reload source t rule r xid 8"

/* Entries 1-0 to `count`-0, the newest first; every third entry is a reload. */
static redisReply *
make_newest(size_t count)
{
    redisReply *reply = array(count);

    for (size_t i = 0; i < count; i++) {
        char id[24];

        snprintf(id, sizeof(id), "%zu-0", count - i);
        reply->element[i] = make_entry(id, (count - i) % 3 == 0 ? RELOADED : JOINED);
    }
    return reply;
}

static bool is_complete;

static const char *
after_reconnect(size_t count, const char *from, const char *to)
{
    redisReply *reply = make_newest(count);
    char at[ENTRY_ID_TEXT_MAX];

    snprintf(at, sizeof(at), "%s", from);
    seen[0] = '\0';
    is_complete = control_handle_newest(&EVENTS, reply, at);
    assert_string_equal(at, to);
    drop(reply);
    return seen;
}

static void
changes_are_delivered_in_order(void **state)
{
    redisReply *reply = array(6);
    char at[ENTRY_ID_TEXT_MAX] = "0-0";

    (void)state;
    seen[0] = '\0';
    reply->element[0] = make_entry("5-1", JOINED);
    reply->element[1] = make_entry("6-0", RELOADED);
    reply->element[2] = make_entry("7-0", COPIED);
    reply->element[3] = make_entry("8-0", "change reload source t xid 9"); /* incomplete */
    reply->element[4] = make_entry("9-0", "change - audience ROLE target a user u2");
    reply->element[5] =
        make_entry("10-0", "change cutoff digest 0000000000000000000000000000000a value 5:9");
    control_handle_changes(&EVENTS, reply, at);
    assert_string_equal(seen, "+u1:7 t/r:8@6000 resumed -u2:0 a:5-9 ");
    assert_string_equal(at, "10-0");
    drop(reply);
}

static void
reloads_of_an_outage_are_delivered(void **state)
{
    (void)state;
    assert_string_equal(after_reconnect(7, "5-0", "7-0"), "t/r:8@6000 ");
    assert_string_equal(after_reconnect(7, "7-0", "7-0"), "");
    assert_string_equal(after_reconnect(7, "2-0", "7-0"), "t/r:8@3000 t/r:8@6000 ");
    assert_string_equal(after_reconnect(4, "0-0", "4-0"), "t/r:8@3000 "); /* the stream was empty */
    assert_string_equal(after_reconnect(0, "0-0", "0-0"), "");
}

static void
a_missed_entry_may_be_a_reload_of_any_rule(void **state)
{
    const char *end;

    (void)state;
    /* The store lost or trimmed the last entry that was read. */
    assert_string_equal(after_reconnect(2, "3-0", "2-0"), "any ");
    assert_string_equal(after_reconnect(0, "3-0", "0-0"), "any ");
    assert_string_equal(after_reconnect(2, "1-1", "2-0"), "any ");
    assert_false(is_complete);
    /* The stream may have more entries than the reply. */
    end = strstr(after_reconnect(CONTROL_NEWEST_MAX, "0-0", "100-0"), "any ");
    assert_non_null(end);
    assert_string_equal(end, "any ");
}

static void
first_connection_delivers_recent_reloads(void **state)
{
    (void)state;
    assert_string_equal(after_reconnect(3, "", "3-0"), "t/r:8@3000 ");
    assert_string_equal(after_reconnect(0, "", "0-0"), "");
    assert_null(strstr(after_reconnect(CONTROL_NEWEST_MAX, "", "100-0"), "any"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_are_delivered_in_order),
        cmocka_unit_test(reloads_of_an_outage_are_delivered),
        cmocka_unit_test(a_missed_entry_may_be_a_reload_of_any_rule),
        cmocka_unit_test(first_connection_delivers_recent_reloads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
