/* test_place.c: the decision which node of a cluster has all keys of a shard, case by case. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "store/shards/shard.h"

#define OTHERS_MAX 4

/* A primary other than the shard's node. */
struct reply {
    const char *id; /* NULL: end */
    long long keys; /* -1: no reply */
    bool is_failed;
};

/* S is the source of moves, T their target, R a replica that takes over, U an unrelated node. */
static const struct {
    const char *what;
    const char *node, *other_node; /* what this relay knows */
    const char *verdict, *without; /* fields of meta */
    long long own_keys;
    struct reply others[OTHERS_MAX];
    const char *waits_for; /* "": SOLE */
} cases[] = {
    /* a relay that starts */
    {"an empty store", "", "", "", "", 0, {{"T", 0, false}, {"U", 0, false}}, ""},
    {"an empty store, and a node that does not reply", "", "", "", "", 0, {{"U", -1, false}}, ""},
    {"an empty store, and a failed node", "", "", "", "", 0, {{"U", -1, true}}, ""},
    {"a stored verdict", "", "", "S", "", 9, {{"T", 0, false}}, ""},
    {"a stored verdict, and a dead node", "", "", "S", "", 9, {{"U", -1, true}}, ""},
    {"a stored verdict, and a node that rejects the relay",
     "",
     "",
     "S",
     "",
     9,
     {{"U", -1, false}},
     ""},
    {"a stored verdict, and keys on another node", "", "", "S", "", 9, {{"T", 1, false}}, "T"},
    {"no verdict, and all nodes reply", "", "", "", "", 9, {{"T", 0, false}, {"U", 0, false}}, ""},
    {"no verdict, and a dead node", "", "", "", "", 9, {{"T", 0, false}, {"U", -1, true}}, "U"},
    {"no verdict, and a node that rejects the relay", "", "", "", "", 9, {{"T", -1, false}}, "T"},
    {"no verdict, and a dead node that was abandoned", "", "", "", "T", 9, {{"T", -1, true}}, ""},
    {"no keys of its own, but on another node", "", "", "", "", 0, {{"T", 7, false}}, "T"},

    /* a replica takes over */
    {"failover", "S", "", "S", "", 9, {{"S", -1, true}, {"U", 0, false}}, ""},
    {"failover while another node is dead",
     "S",
     "",
     "S",
     "",
     9,
     {{"S", -1, true}, {"U", -1, true}},
     ""},
    {"failover, a relay that starts", "", "", "S", "", 9, {{"S", -1, true}}, ""},
    {"a former primary returns, and does not know the new one",
     "S",
     "",
     "S",
     "",
     9,
     {{"S", 9, false}},
     "S"},

    /* a move ends */
    {"moved", "S", "T", "S", "", 9, {{"S", 0, false}, {"U", 0, false}}, ""},
    {"moved, and an unrelated node is dead",
     "S",
     "T",
     "",
     "",
     9,
     {{"S", 0, false}, {"U", -1, true}},
     ""},
    {"moved unnoticed", "S", "", "S", "", 9, {{"S", 0, false}}, ""},
    {"moved unnoticed, and the source does not reply",
     "S",
     "",
     "S",
     "",
     9,
     {{"S", -1, false}},
     "S"},
    {"moved in part", "S", "T", "S", "", 4, {{"S", 5, false}}, "S"},
    {"moved, and the source has failed", "S", "T", "S", "", 9, {{"S", -1, true}}, "S"},
    {"a move that was cancelled", "S", "T", "", "", 9, {{"T", 0, false}}, ""},
    {"a move that was cancelled in part", "S", "T", "", "", 8, {{"T", 1, false}}, "T"},
    {"a move that was cancelled, and the target has failed",
     "S",
     "T",
     "",
     "",
     8,
     {{"T", -1, true}},
     "T"},
    {"a move that was cancelled, and the target rejects the relay",
     "S",
     "T",
     "",
     "",
     8,
     {{"T", -1, false}},
     "T"},
    {"the target was removed from the cluster", "S", "T", "", "", 8, {{"U", 0, false}}, ""},

    /* the nodes of a move fail */
    {"a replica takes over from the source",
     "S",
     "T",
     "",
     "",
     8,
     {{"S", -1, true}, {"T", 1, false}},
     "T"},
    {"both fail", "S", "T", "", "", 8, {{"T", -1, true}, {"S", -1, true}}, "T"},
    {"both fail, and a replica of the target has its keys",
     "S",
     "T",
     "",
     "",
     8,
     {{"T", -1, true}, {"S", -1, true}, {"R", 1, false}},
     "R"},
    {"the target replies that it has none",
     "S",
     "T",
     "",
     "",
     8,
     {{"S", -1, true}, {"T", 0, false}},
     "S"},
    {"a move with an unknown target", "S", "S", "", "", 8, {{"S", -1, true}, {"U", -1, true}}, "S"},

    /* a person decides */
    {"the target was abandoned", "S", "T", "", "T", 8, {{"T", -1, true}}, ""},
    {"the target was abandoned, the source was not",
     "S",
     "T",
     "",
     "T",
     8,
     {{"T", -1, true}, {"S", -1, true}},
     "S"},
    {"both were abandoned", "S", "T", "", "T S", 8, {{"T", -1, true}, {"S", -1, true}}, ""},
    {"a node that was abandoned returns with its keys",
     "S",
     "",
     "S",
     "T",
     8,
     {{"T", 3, false}},
     ""},
    {"another node than the one that was abandoned has keys",
     "S",
     "T",
     "",
     "T",
     8,
     {{"T", -1, true}, {"U", 2, false}},
     "U"},
};

static void
test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct shard_place place = {.state = PLACE_VERIFYING};
        struct cluster_primary primaries[OTHERS_MAX] = {0};
        struct place_other others[OTHERS_MAX];
        struct place_facts facts = {.own_keys = cases[i].own_keys, .others = others};
        const struct place_other *awaited = NULL;
        enum place_state decided;

        (void)snprintf(place.node, sizeof(place.node), "%s", cases[i].node);
        (void)snprintf(place.other_node, sizeof(place.other_node), "%s", cases[i].other_node);
        (void)snprintf(facts.verdict, sizeof(facts.verdict), "%s", cases[i].verdict);
        (void)snprintf(facts.without, sizeof(facts.without), "%s", cases[i].without);
        for (; facts.count < OTHERS_MAX && cases[i].others[facts.count].id != NULL; facts.count++) {
            const struct reply *reply = &cases[i].others[facts.count];
            struct cluster_primary *primary = &primaries[facts.count];

            (void)snprintf(primary->id, sizeof(primary->id), "%s", reply->id);
            primary->is_failed = reply->is_failed;
            others[facts.count] = (struct place_other){primary, reply->keys};
        }
        decided = place_decide(&place, &facts, &awaited);
        if (strcmp(awaited != NULL ? awaited->primary->id : "", cases[i].waits_for) != 0 ||
            decided != (cases[i].waits_for[0] == '\0' ? PLACE_SOLE : PLACE_SPLIT))
            fail_msg("%s: waits for \"%s\", not \"%s\"", cases[i].what,
                     awaited != NULL ? awaited->primary->id : "", cases[i].waits_for);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
