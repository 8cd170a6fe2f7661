/* test_states.c: a release build counts and logs an unlisted transition; a debug build aborts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/stats.h"
#include "tests/unit/state_changes.h"

/* The release build of states.c; the program is linked with the debug build. */
#undef CLAIRON_DEBUG
#define states_allow release_states_allow
#include "base/states.c" /* NOLINT(bugprone-suspicious-include) */
#undef states_allow
bool states_allow(const struct states *states, unsigned from, unsigned to, struct stats *stats);

enum door { CLOSED, OPEN, LOCKED };
static const struct states door = {
    "door", {"closed", "open", "locked"}, {1u << OPEN | 1u << LOCKED, 1u << CLOSED, 1u << CLOSED}};

static int
change_door(int from, int to)
{
    return states_allow(&door, (unsigned)from, (unsigned)to, NULL) ? to : -1;
}

static void
only_listed_transitions_are_allowed(void **state)
{
    struct stats stats = {.values = {0}};

    (void)state;
    for (unsigned from = CLOSED; from <= LOCKED; from++)
        for (unsigned to = CLOSED; to <= LOCKED; to++)
            assert_int_equal(release_states_allow(&door, from, to, &stats),
                             (from == CLOSED) != (to == CLOSED));
    assert_int_equal(stats.values[STAT_INTERNAL_ERRORS], 5);
    assert_false(release_states_allow(&door, OPEN, LOCKED, NULL));
}

static void
debug_build_aborts(void **state)
{
    (void)state;
    assert_true(is_legal(change_door, CLOSED, OPEN));
    assert_false(is_legal(change_door, OPEN, LOCKED));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_listed_transitions_are_allowed),
        cmocka_unit_test(debug_build_aborts),
    };

    return cmocka_run_group_tests_name("states", tests, NULL, NULL);
}
