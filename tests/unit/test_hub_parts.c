/* test_hub_parts.c: do audiences and recent notes hold just what was put in? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "hub/audience.h"
#include "hub/hub_private.h"
#include "hub/recent.h"
#include "wire/frame.h"

/* A note for USER u1 whose data is `data`. */
static struct note *
make_note(uint64_t ms, const char *data)
{
    unsigned char head[FRAME_NOTE_HEAD_SIZE + 8] = {0};
    struct entry entry = {.id = {ms, 0}};

    head[FRAME_AT_KIND] = FRAME_KIND_NOTE;
    head[FRAME_AT_VERSION] = FRAME_VERSION;
    head[FRAME_NOTE_AT_AUDIENCE_LEN + 1] = 4;
    head[FRAME_NOTE_AT_TARGETS_LEN + 3] = 4;
    head[FRAME_NOTE_AT_TARGET_COUNT + 3] = 1;
    memcpy(head + FRAME_NOTE_HEAD_SIZE, "USER\0\2u1", 8);
    assert_int_equal(frame_parse_head((struct bytes){head, sizeof(head)}, &entry.frame), RC_OK);
    entry.data = (struct bytes){(const unsigned char *)data, strlen(data)};
    return note_new(&entry, "e", entry.id);
}

static void
test_note_line(void **state)
{
    struct note *note = make_note(7, "{\"x\":1}");
    const char *line = "{\"t\":\"msg\",\"pos\":\"e.7-0\",\"n\":{\"x\":1}}";

    (void)state;
    assert_int_equal(note->line_len, strlen(line));
    assert_memory_equal(note->line, line, note->line_len);
    assert_false(note->needs_ack);
    note_unref(note);
}

static void
add_recent(struct recent *recent, uint64_t ms, const char *data)
{
    struct note *note = make_note(ms, data);

    recent_add(recent, note);
    note_unref(note);
}

static void
test_recent_finds_what_follows(void **state)
{
    struct recent *recent = calloc(1, sizeof(*recent));

    (void)state;
    recent_reset(recent, (struct entry_id){10, 0});
    assert_true(recent_covers(recent, (struct entry_id){10, 0}));
    assert_false(recent_covers(recent, (struct entry_id){9, 9}));
    assert_false(recent_covers(recent, (struct entry_id){11, 0}));
    for (uint64_t ms = 20; ms < 30; ms++)
        add_recent(recent, ms, "{}");
    assert_int_equal(recent_next(recent, (struct entry_id){10, 0})->id.ms, 20);
    assert_int_equal(recent_next(recent, (struct entry_id){24, 5})->id.ms, 25);
    assert_null(recent_next(recent, (struct entry_id){29, 0}));
    recent_reset(recent, (struct entry_id){29, 0});
    free(recent);
}

static void
test_recent_is_bounded(void **state)
{
    struct recent *recent = calloc(1, sizeof(*recent));

    (void)state;
    recent_reset(recent, (struct entry_id){0, 0});
    for (uint64_t ms = 1; ms <= RECENT_NOTES_MAX + 10; ms++)
        add_recent(recent, ms, "{}");
    assert_int_equal(recent->count, RECENT_NOTES_MAX);
    assert_int_equal(recent->base.ms, 10);
    assert_false(recent_covers(recent, (struct entry_id){9, 0}));
    assert_int_equal(recent_next(recent, recent->base)->id.ms, 11);
    recent_reset(recent, recent->head);
    free(recent);
}

static void
test_audience_joins_and_leaves(void **state)
{
    struct audience *all = NULL;
    struct membership *one = NULL, *two = NULL;
    struct session first = {.state = SESSION_LIVE}, second = {.state = SESSION_LIVE};

    (void)state;
    audience_join(&all, &one, &first, "ROLE:admin", 10, false);
    audience_join(&all, &one, &first, "ROLE:admin", 10, true);
    audience_join(&all, &one, &first, "STRUCTURE:s1", 12, true);
    audience_join(&all, &two, &second, "STRUCTURE:s1", 12, true);
    assert_true(audience_has(one, "STRUCTURE:s1", 12));
    assert_false(audience_has(one, "STRUCTURE:s", 11));
    assert_ptr_equal(audience_find(all, "ROLE:admin", 10)->members->session, &first);

    audience_leave(&all, &one, "ROLE:admin", 10); /* the token's: not ours to take */
    assert_true(audience_has(one, "ROLE:admin", 10));
    audience_leave(&all, &two, "STRUCTURE:s1", 12);
    assert_true(audience_has(one, "STRUCTURE:s1", 12));
    audience_leave_all(&all, &one, true);
    assert_null(audience_find(all, "STRUCTURE:s1", 12));
    audience_leave_all(&all, &one, false);
    assert_null(all);
}

static void
test_session_is_for_its_audience_only(void **state)
{
    struct note *note = make_note(1, "{}");
    struct hub hub = {.audiences = NULL};
    struct session session = {.state = SESSION_LIVE, .hub = &hub};

    (void)state;
    assert_false(session_is_for(&session, &note->frame));
    audience_join(&hub.audiences, &session.memberships, &session, "USER:u11", 8, false);
    assert_false(session_is_for(&session, &note->frame));
    audience_join(&hub.audiences, &session.memberships, &session, "USER:u1", 7, false);
    assert_true(session_is_for(&session, &note->frame));
    audience_leave_all(&hub.audiences, &session.memberships, false);
    note_unref(note);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_note_line),
        cmocka_unit_test(test_recent_finds_what_follows),
        cmocka_unit_test(test_recent_is_bounded),
        cmocka_unit_test(test_audience_joins_and_leaves),
        cmocka_unit_test(test_session_is_for_its_audience_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
