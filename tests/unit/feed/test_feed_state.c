/* test_feed_state.c: the feed changes only to the states that feed_private.h lists. */
#include "feed/feed_private.h"
#include "tests/unit/state_changes.h"

static int
set_feed(int from, int to)
{
    struct feed_report report = {.availability = FEED_DOWN};
    struct feed feed = {.state = (enum feed_state)from, .report = &report};

    feed_set_state(&feed, (enum feed_state)to);
    return (int)feed.state;
}

static void
every_state_leads_to_waiting(void **state)
{
    (void)state;
    for (int from = FEED_WAITING; from <= FEED_STREAMING; from++)
        assert_true(is_legal(set_feed, from, FEED_WAITING));
}

static void
every_path_leads_to_the_stream(void **state)
{
    static const enum feed_state SHORT[] = {FEED_WAITING,     FEED_CONNECTING,  FEED_SETTING,
                                            FEED_IDENTIFYING, FEED_FINDING,     FEED_ACQUIRING,
                                            FEED_STARTING,    FEED_REACQUIRING, FEED_STREAMING};
    static const enum feed_state LONG[] = {FEED_FINDING,  FEED_DROPPING,  FEED_ACQUIRING,
                                           FEED_CREATING, FEED_ACQUIRING, FEED_COPYING,
                                           FEED_STARTING};
    static const enum feed_state FORKED[] = {FEED_ACQUIRING, FEED_READING_HISTORY, FEED_RESETTING,
                                             FEED_WAITING};

    (void)state;
    for (size_t i = 1; i < sizeof(SHORT) / sizeof(SHORT[0]); i++)
        assert_true(is_legal(set_feed, SHORT[i - 1], SHORT[i]));
    for (size_t i = 1; i < sizeof(LONG) / sizeof(LONG[0]); i++)
        assert_true(is_legal(set_feed, LONG[i - 1], LONG[i]));
    for (size_t i = 1; i < sizeof(FORKED) / sizeof(FORKED[0]); i++)
        assert_true(is_legal(set_feed, FORKED[i - 1], FORKED[i]));
}

/* Otherwise frames could arrive twice, or from a slot that another relay reads. */
static void
stream_begins_only_after_the_second_acquire(void **state)
{
    (void)state;
    for (int from = FEED_WAITING; from <= FEED_STREAMING; from++) {
        if (from != FEED_REACQUIRING)
            assert_false(is_legal(set_feed, from, FEED_STREAMING));
        if (from != FEED_STARTING)
            assert_false(is_legal(set_feed, from, FEED_REACQUIRING));
    }
}

static void
stream_ends_only_in_waiting(void **state)
{
    (void)state;
    for (int to = FEED_CONNECTING; to <= FEED_STREAMING; to++)
        assert_false(is_legal(set_feed, FEED_STREAMING, to));
}

/* What /readyz reports of a feed in this state. */
static const char *
availability_of(enum feed_state state, enum slot_holder holder, bool is_stalled)
{
    struct feed_report report = {.availability = FEED_DOWN};
    struct feed feed = {
        .state = state, .report = &report, .slot.holder = holder, .status.is_stalled = is_stalled};

    feed_publish_availability(&feed);
    return feed_availability_name(report.availability);
}

static void
readyz_distinguishes_the_holders_of_the_slot(void **state)
{
    (void)state;
    assert_string_equal(availability_of(FEED_STREAMING, SLOT_FREE, false), "streaming");
    assert_string_equal(availability_of(FEED_STREAMING, SLOT_FREE, true), "stalled");
    assert_string_equal(availability_of(FEED_WAITING, SLOT_HELD_BY_RELAY, false), "standby");
    assert_string_equal(availability_of(FEED_FINDING, SLOT_HELD_BY_RELAY, false), "standby");
    assert_string_equal(availability_of(FEED_WAITING, SLOT_FREE, true), "down");
    assert_string_equal(availability_of(FEED_WAITING, SLOT_HELD_BY_CREATION, false), "down");
    assert_string_equal(availability_of(FEED_WAITING, SLOT_HELD_BY_PREVIOUS, false), "down");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_leads_to_waiting),
        cmocka_unit_test(every_path_leads_to_the_stream),
        cmocka_unit_test(stream_begins_only_after_the_second_acquire),
        cmocka_unit_test(stream_ends_only_in_waiting),
        cmocka_unit_test(readyz_distinguishes_the_holders_of_the_slot),
    };

    return cmocka_run_group_tests_name("feed_state", tests, NULL, NULL);
}
