/*
 * redrives.pml: pairs.pml with redrive.lua, which opens pairs for another round, and with escalations, for spin.
 *
 * redrive.lua may run at any moment for any entry of the error log. The escalation of all users, and those of redriven
 * users, may be due at any moment.
 *
 * The assertions are those of pairs.pml; and a pair has at most one receipt of an escalation in each round, and none
 * after it ended.
 *
 *   -DKEEP_ERROR     redrive.lua does not remove the entry of the error log
 *   -DALL_ROUNDS     the escalation of all users includes those that were redriven
 */
#include "pairs.pml"
#ifndef ROUNDS
#define ROUNDS 3
#endif
#ifdef ALL_ROUNDS
#define IS_OF_ALL(user) true
#else
#define IS_OF_ALL(user) (round[user] == 1)
#endif

bool has_escalation = true, escalates[USERS]; /* KEY_ESCALATIONS: of all users, and of those that were redriven */
byte escalated[USERS];          /* the latest round with a receipt of an escalation; 0: none */
byte redrives;
hidden byte logged; /* the entry of the error log */

inline add_escalated(user) {
    assert(escalated[user] < round[user] && ended[user] < round[user]);
    escalated[user] = round[user]
}

inline reopen_pair(user) {
    outcome = (delivered[user] -> reason[user] : UNREACHED);
    assert(counts[outcome] > 0);
    counts[outcome]--; round[user]++; left++; escalates[user] = true
}

inline redrive(user) {
    if :: state[user] == NONE -> reopen_pair(user) :: else fi;
    if :: !is_pending -> is_pending = true; own_round++; has_escalation = false :: else fi;
    state[user] = PENDING; is_due[user] = false;
    retries[user] = 0; is_added[user] = false; is_dead_lettered[user] = false;
#ifndef KEEP_ERROR
    entry[user] = 0
#endif
}

active proctype Redrives() {
    do
    :: atomic { has_escalation && is_pending -> /* due_escalations.lua */
        has_escalation = false;
        for (u : 0 .. USERS - 1) {
            if :: state[u] == PENDING && IS_OF_ALL(u) -> add_escalated(u) :: else fi
        } }
    :: atomic { escalates[0] || escalates[1] ->
        if :: escalates[0] -> u = 0 :: escalates[1] -> u = 1 fi;
        escalates[u] = false;
        if :: state[u] == PENDING -> add_escalated(u) :: else fi }
    :: atomic { redrives < ROUNDS - 1 && (entry[0] > 0 || entry[1] > 0) -> /* redrive.lua */
        redrives++;
        if :: entry[0] > 0 -> logged = entry[0] :: entry[1] > 0 -> logged = entry[1] fi;
        for (u : 0 .. USERS - 1) {
            if :: entry[u] == logged && state[u] != ACKED -> redrive(u) :: else fi
        } }
    od
}
