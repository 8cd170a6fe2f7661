/* test_why.c: what is concluded from a trace and facts about a user; invalid facts are ignored. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "../heads.h"
#include "store/admin.h"
#include "store/admin/admin_private.h"

#define ID "01890a5d-ac96-8d4b-bcce-b302099a8057"
#define LIST_MAX 12
#define STORED "stored 1741178096200 0 1741178096200-3 -"

/* A reply with texts. */
struct list {
    redisReply reply;
    redisReply texts[LIST_MAX];
    redisReply *elements[LIST_MAX];
};

static redisReply
text_reply(const char *string)
{
    return (redisReply){
        .type = REDIS_REPLY_STRING, .str = (char *)(uintptr_t)string, .len = strlen(string)};
}

static redisReply *
list_of(struct list *list, const char *const *texts)
{
    list->reply = (redisReply){.type = REDIS_REPLY_ARRAY, .element = list->elements};
    for (size_t i = 0; texts[i] != NULL; i++) {
        list->texts[i] = text_reply(texts[i]);
        list->elements[i] = &list->texts[i];
        list->reply.elements++;
    }
    return &list->reply;
}

/* Explains to u1 by these facts and events, with the header of a notification to `audience`. */
static void
explain(const char *const *facts, const char *const *events, const char *audience, uint16_t flags,
        struct buffer *out)
{
    static const char *const none[] = {NULL};
    unsigned char head[HEAD_FOR_U1];
    struct list fact_list, event_list, waiting;
    redisReply data = text_reply(""), entry = text_reply(""), wanted = text_reply("");
    redisReply route = {.type = REDIS_REPLY_STRING, .str = (char *)head, .len = sizeof(head)};
    redisReply *all[] = {&data,   &entry, list_of(&event_list, events), list_of(&waiting, none),
                         &wanted, &route, list_of(&fact_list, facts)};
    redisReply reply = {.type = REDIS_REPLY_ARRAY, .elements = 7, .element = all};
    struct trace trace;

    head_for_u1(head);
    memcpy(head + FRAME_NOTIFICATION_HEAD_SIZE, audience, 4);
    head[FRAME_AT_FLAGS + 1] = (unsigned char)flags;
    route.len = audience[0] != '-' ? sizeof(head) : 0;
    assert_int_equal(trace_read(&reply, ID, &trace), RC_OK);
    user_facts_find_gap(&trace, ID, 0, 0);
    buffer_init(out, WHY_JSON_MAX);
    assert_int_equal(why_write_json(&trace, ID, "u1", out), RC_OK);
    trace_free(&trace);
}

/* state, all pairs known, open-ended, retries, relays, member, error log, pending, gaps */
static const struct {
    const char *audience;
    uint16_t flags;
    const char *facts[LIST_MAX];
    const char *events[LIST_MAX];
    const char *addressed, *outcome;
} cases[] = {
    {"USER", 0, {"", "", "0", "", "0", "", "0", ""}, {STORED}, "true", "unknown"},
    {"TEAM", 0, {"", "1", "0", "", "0", "1", "0", ""}, {STORED}, "null", "unknown"},
    {"TEAM", 1, {"", "1", "0", "", "0", "1", "0", "1"}, {STORED}, "false", "not_member"},
    {"TEAM", 1, {"", "1", "1", "", "0", "1", "0", "1"}, {STORED}, "null", "unknown"},
    {"TEAM", 1, {"", "1", "", "", "0", "1", "0", "1"}, {STORED}, "null", "unknown"},
    {"TEAM", 1, {"", "", "0", "", "0", "1", "0", "1"}, {STORED}, "null", "unknown"},
    {"----", 1, {"", "1", "0", "", "0", "1", "0", "1"}, {STORED}, "null", "unknown"},
    {"TEAM", 1, {"0", "1", "0", "", "0", "1", "0", "1"}, {STORED}, "true", "pending"},
    {"TEAM",
     1,
     {"0", "1", "0", "", "0", "1", "0", "1"},
     {STORED, "sent 1741178096201 0 a-1 u1", "unsubscribed 1741178096202 0 a-2 u1"},
     "true",
     "delivered"},
    {"TEAM",
     1,
     {"0", "1", "0", "", "0", "1", "0", "1"},
     {STORED, "unsubscribed 1741178096202 0 a-2 u1", "sent 1741178096203 0 a-1 u2"},
     "true",
     "not_subscribed"},
    {"TEAM",
     1,
     {"0", "1", "0", "", "0", "1", "0", "1"},
     {STORED, "sent 1741178096201 0 - u1", "errored 1741178096202 0 exhausted u1",
      "redriven 1741178096203 0 - u1"},
     "true",
     "pending"},
    {"TEAM",
     1,
     {"", "1", "0", "", "0", "1", "1", ""},
     {STORED, "sent 1741178096201 0 - u1", "errored 1741178096202 0 exhausted u1"},
     "true",
     "exhausted"},
    {"TEAM",
     1,
     {"", "1", "0", "", "0", "1", "1", ""},
     {STORED, "errored 1741178096202 0 expired u1"},
     "true",
     "expired"},
    {"TEAM",
     1,
     {"", "1", "0", "", "0", "1", "1", ""},
     {STORED, "dropped 1741178096202 0 - u1"},
     "true",
     "dropped"},
    {"TEAM",
     1,
     {"1741178096300", "1", "0", "", "0", "1", "1", ""},
     {STORED, "errored 1741178096202 0 expired u1"},
     "true",
     "acked"},
    {"TEAM",
     1,
     {"", "1", "1", "", "0", "1", "0", "",
      "1741178096900 trimmed 1741178096100-0 0-0 1741178096200-3 0-0 a-3"},
     {STORED},
     "null",
     "gap"},
    {"TEAM", /* the gap ends before it */
     1,
     {"", "1", "1", "", "0", "1", "0", "",
      "1741178096900 trimmed 1741178096100-0 0-0 1741178096200-2 0-0 a-3"},
     {STORED},
     "null",
     "unknown"},
    {"TEAM", /* it does not expire, so it is not what was announced */
     1,
     {"", "1", "1", "", "0", "1", "0", "",
      "1741178096900 expired 1741178096100-0 0-0 1741178096200-3 0-0 a-3"},
     {STORED},
     "null",
     "unknown"},
};

static void
test_outcomes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char wanted[128];
        struct buffer out;

        explain(cases[i].facts, cases[i].events, cases[i].audience, cases[i].flags, &out);
        snprintf(wanted, sizeof(wanted), "\"addressed\":%s,\"outcome\":\"%s\"", cases[i].addressed,
                 cases[i].outcome);
        if (strstr(out.bytes, wanted) == NULL)
            fail_msg("case %zu: not %s: %s", i, wanted, out.bytes);
        buffer_free(&out);
    }
}

static void
test_invalid_facts_are_ignored(void **state)
{
    static const char *const facts[] = {"0",         "1", "0", "",  "0",
                                        "1",         "0", "1", "x", "1 trimmed 1-0 0-0 x 0-0 a-3",
                                        "1 trimmed", NULL};
    static const char *const few[] = {"0", NULL};
    struct user_facts read;
    struct list list;

    (void)state;
    user_facts_read(list_of(&list, facts), &read);
    assert_int_equal(read.gaps.count, 0);
    assert_true(read.is_waiting);
    user_facts_read(list_of(&list, few), &read);
    assert_false(read.is_waiting);
    assert_int_equal(read.relays, -1);
    user_facts_read(NULL, &read);
    assert_false(read.knows_pairs);
}

/* The store does not have the notification any more: the time in its id decides. */
static void
test_gap_of_an_unknown_notification(void **state)
{
    const struct user_gap gap = {.why = "trimmed",
                                 .from = {.own = {0x01890a5dac96 - 5, 0}},
                                 .to = {.own = {0x01890a5dac96 + 5, 0}}};
    struct trace trace = {.facts = {.gaps = {.items = {gap}, .count = 1}}};
    struct buffer out;

    (void)state;
    user_facts_find_gap(&trace, "01890a5d-ac9c-8d4b-bcce-b302099a8057", 0, 1);
    assert_true(trace_is_empty(&trace)); /* later */
    user_facts_find_gap(&trace, ID, 0, 1);
    assert_false(trace_is_empty(&trace));
    assert_true(trace_is_gone(&trace));
    buffer_init(&out, WHY_JSON_MAX);
    assert_int_equal(why_write_json(&trace, ID, "u1", &out), RC_OK);
    assert_non_null(strstr(out.bytes, "\"addressed\":null,\"outcome\":\"gap\""));
    buffer_free(&out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outcomes),
        cmocka_unit_test(test_invalid_facts_are_ignored),
        cmocka_unit_test(test_gap_of_an_unknown_notification),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
