/* test_control_forgotten.c: the removal of a user is read from the control stream, also later. */
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

static char seen[64];

static void
on_forgotten(void *ctx, struct bytes hash, int64_t added_us)
{
    size_t len = strlen(seen);

    (void)ctx;
    snprintf(seen + len, sizeof(seen) - len, "%.*s@%" PRId64 " ", (int)hash.len,
             (const char *)hash.at, added_us);
}

static const struct reader_events EVENTS = {.on_forgotten = on_forgotten};

static redisReply *
make_entry(const char *id, const char *hash)
{
    static const char *const names[] = {"change", "forgotten", "hash"};
    redisReply *entry = array(2);

    entry->element[0] = text(id, strlen(id));
    entry->element[1] = array(4);
    for (size_t i = 0; i < 3; i++)
        entry->element[1]->element[i] = text(names[i], strlen(names[i]));
    entry->element[1]->element[3] = text(hash, strlen(hash));
    return entry;
}

static void
a_removal_is_delivered(void **state)
{
    redisReply *reply = array(2);
    char at[ENTRY_ID_TEXT_MAX] = "0-0";

    (void)state;
    reply->element[0] = make_entry("5-0", "one");
    reply->element[1] = make_entry("6-0", "two");
    seen[0] = '\0';
    control_handle_changes(&EVENTS, reply, at);
    assert_string_equal(seen, "one@0 two@0 ");
    drop(reply);
}

static void
a_removal_during_an_outage_is_delivered(void **state)
{
    redisReply *reply = array(2); /* the newest first */
    char at[ENTRY_ID_TEXT_MAX] = "5-0";

    (void)state;
    reply->element[0] = make_entry("6-0", "two");
    reply->element[1] = make_entry("5-0", "one");
    seen[0] = '\0';
    assert_true(control_handle_newest(&EVENTS, reply, at));
    assert_string_equal(seen, "two@6000 ");
    assert_string_equal(at, "6-0");
    drop(reply);
}

static void
removals_among_older_missed_entries_are_delivered(void **state)
{
    redisReply *reply = array(2);
    char at[ENTRY_ID_TEXT_MAX] = "5-0";

    (void)state;
    reply->element[0] = make_entry("6-0", "two");
    reply->element[1] = make_entry("7-0", "three");
    seen[0] = '\0';
    control_handle_missed(&EVENTS, reply, at);
    assert_string_equal(seen, "two@6000 three@7000 ");
    assert_string_equal(at, "7-0");
    drop(reply);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_removal_is_delivered),
        cmocka_unit_test(a_removal_during_an_outage_is_delivered),
        cmocka_unit_test(removals_among_older_missed_entries_are_delivered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
