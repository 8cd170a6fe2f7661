/*
 * pairs.pml: how the pairs of one notification end, and their receipts, for spin.
 *
 * Each step of the store is a script of relay/store/scripts, which is atomic. After a delivery, ack.lua and report.lua may run
 * at any moment and any number of times: relays repeat them after lost replies, run them late, or die before. due.lua,
 * drop.lua and redrive.lua may run at any moment, for one user or for all; an expiration or a drop may end the users of a
 * large audience in parts.
 *
 * The assertions: a pair has one outcome in each round, and none after an ack; the notification has one receipt for each
 * time that it ends, with the right number of acks; an escalation precedes the end of its pair; no more retries are counted
 * than were written to a socket.
 *
 *   -DOPEN_ENDED        the users are those whose delivery is reported, as for ALL
 *   -DTWO_STEPS         ack.lua reads and writes the pair in two steps
 *   -DKEEP_ERROR        redrive.lua removes the entry of the error log in a later step
 *   -DNO_MARK           due.lua does not mark the users that it dead-letters (with OPEN_ENDED)
 *   -DNO_ATTEMPT        a report does not name the attempt that was written to a socket
 */
#define USERS 2
#define LIMIT 1 /* retry_limit */
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define NONE 0
#define PENDING 1 /* '0' in KEY_ACK */
#define ACKED 2
#define DROPPED 0 /* the outcomes without an ack */
#define EXHAUSTED 1
#define EXPIRED 2
#define UNREACHED 3

/* the store */
byte state[USERS];              /* KEY_ACK */
bool is_pending = true;         /* in KEY_PENDING */
byte acks_left;
byte retries[USERS];            /* KEY_RETRIES */
bool has_plus[USERS];           /* a retry is added, but not delivered */
bool is_dead_lettered[USERS];
bool is_due[USERS];             /* KEY_DUE */
bool has_escalation = true, escalates[USERS]; /* KEY_ESCALATIONS: of all users, and of those that were redriven */
bool unreported_ack[USERS];
byte entry[USERS], reason[USERS], entries; /* KEY_ERRORS: a user's entry, from 1 */
byte counts[4], round[USERS], own_round = 1, recipients; /* KEY_RECEIPT_STATE */
bool delivered[USERS];

/* the receipts */
byte ended[USERS * (ROUNDS + 1)], escalated[USERS * (ROUNDS + 1)], completed[ROUNDS + 2];
bool is_acked[USERS];
#define AT(round, user) ((round) * USERS + (user))

byte written[USERS];            /* the latest attempt that a relay wrote to a socket, and 1; 0: none */
bool is_half_acked[USERS];
byte redrives;

inline end_pair(user, outcome) { /* receipts.record_ended */
    if :: outcome == DROPPED || delivered[user] -> counts[outcome]++ :: else -> counts[UNREACHED]++ fi;
    ended[AT(round[user], user)]++;
    assert(ended[AT(round[user], user)] == 1 && !is_acked[user])
}

inline record_acked(user) {
    ended[AT(round[user], user)]++;
    assert(ended[AT(round[user], user)] == 1 && !is_acked[user]);
    is_acked[user] = true
}

inline complete() {
    assert(state[0] != PENDING && state[1] != PENDING);
    completed[own_round]++;
    assert(completed[own_round] == 1);
    assert(recipients - counts[DROPPED] - counts[EXHAUSTED] - counts[EXPIRED] - counts[UNREACHED] == is_acked[0] + is_acked[1]);
    own_round++;
    is_pending = false; has_escalation = false; acks_left = 0;
    state[0] = NONE; state[1] = NONE;
    is_dead_lettered[0] = false; is_dead_lettered[1] = false /* complete() deletes KEY_RETRIES */
}

inline log_error(user, why) { entry[user] = entries; reason[user] = why; end_pair(user, why) }

inline ack_lua(user) {
    if
    :: state[user] == PENDING ->
        record_acked(user);
        state[user] = ACKED; is_due[user] = false; acks_left--;
        if
#ifndef OPEN_ENDED
        :: acks_left == 0 -> complete()
#endif
        :: else -> skip
        fi
#ifdef OPEN_ENDED
    :: state[user] == NONE && is_pending && !is_dead_lettered[user] && own_round == 1 -> unreported_ack[user] = true
#endif
    :: else -> skip
    fi
}

/* `attempt`: the number of the retry that was written, and 1. The report may be late, or repeated. */
inline report_lua(user, attempt) {
    if
#ifdef OPEN_ENDED
    :: state[user] == NONE && is_pending && !is_dead_lettered[user] && own_round == 1 -> /* add_pending_user */
        recipients++;
        if
        :: unreported_ack[user] -> unreported_ack[user] = false; state[user] = ACKED; record_acked(user)
        :: else -> state[user] = PENDING; acks_left++
        fi
#endif
    :: else -> skip
    fi;
    if
    :: state[user] == PENDING ->
        if
#ifdef NO_ATTEMPT
        :: has_plus[user] -> retries[user]++; has_plus[user] = false
#else
        :: has_plus[user] && attempt > retries[user] + 1 -> retries[user]++; has_plus[user] = false
#endif
        :: else -> skip
        fi;
        assert(retries[user] < written[user]);
        delivered[user] = true; is_due[user] = true
    :: else -> skip
    fi
}

inline retry(user) {
    if
    :: retries[user] < LIMIT -> is_due[user] = false; has_plus[user] = true
    :: else -> /* dead_letter */
        entries++; log_error(user, EXHAUSTED);
        state[user] = NONE; is_due[user] = false; acks_left--;
        if
#ifdef OPEN_ENDED
#ifndef NO_MARK
        :: true -> is_dead_lettered[user] = true
#else
        :: true -> skip
#endif
#else
        :: acks_left == 0 -> complete()
        :: else -> skip
#endif
        fi
    fi
}

/* A part of the users from `from` to `to`: of an expiration, or a drop. */
inline end_notification(from, to, why) {
    if :: why == EXPIRED -> entries++ :: else -> skip fi;
    user = from;
    do
    :: user > to -> break
    :: else ->
        if
        :: state[user] == PENDING ->
            is_due[user] = false; acks_left--;
            if :: why == EXPIRED -> log_error(user, EXPIRED) :: else -> end_pair(user, why) fi
        :: else -> skip
        fi;
#ifdef OPEN_ENDED
        if :: state[user] != NONE -> is_dead_lettered[user] = true :: else -> skip fi;
#endif
        state[user] = NONE;
        user++
    od;
    if :: state[0] == NONE && state[1] == NONE -> complete() :: else -> skip fi
}

inline escalate_due() {
    user = 0;
    do
    :: user == USERS -> break
    :: else ->
        if
        :: state[user] == PENDING && ((has_escalation && round[user] == 1) || escalates[user]) ->
            escalated[AT(round[user], user)]++;
            assert(escalated[AT(round[user], user)] == 1 && ended[AT(round[user], user)] == 0)
        :: else -> skip
        fi;
        escalates[user] = false;
        user++
    od;
    has_escalation = false
}

inline redrive_lua(logged) {
    user = 0;
    do
    :: user == USERS -> break
    :: user < USERS && (entry[user] != logged || state[user] == ACKED) -> user++
    :: else ->
        is_pending = true;
        if
        :: state[user] == NONE -> /* reopen_pair */
            acks_left++;
            outcome = (delivered[user] -> reason[user] : UNREACHED);
            assert(counts[outcome] > 0);
            counts[outcome]--; round[user]++; escalates[user] = true
        :: else -> skip
        fi;
        state[user] = PENDING; is_due[user] = false;
        retries[user] = 0; has_plus[user] = false; is_dead_lettered[user] = false;
        user++
    od;
#ifndef KEEP_ERROR
    if :: entry[0] == logged -> entry[0] = 0 :: else -> skip fi;
    if :: entry[1] == logged -> entry[1] = 0 :: else -> skip fi
#endif
}

active proctype Store() {
    byte user, from_entry, outcome, attempt;
    atomic {
        round[0] = 1; round[1] = 1;
#ifndef OPEN_ENDED
        state[0] = PENDING; state[1] = PENDING; acks_left = USERS; recipients = USERS;
#endif
    }
    do
    /* A relay writes the notification, which it has read from the stream or from the pending list. */
    :: atomic { select(user : 0 .. USERS - 1);
        if
        :: is_pending && (state[user] == PENDING || (state[user] == NONE && written[user] == 0)) &&
                written[user] <= retries[user] + has_plus[user] ->
            written[user] = retries[user] + has_plus[user] + 1
        :: written[user] > 0 -> select(attempt : 1 .. LIMIT + 1);
            if :: attempt > written[user] -> attempt = written[user] :: else -> skip fi;
            report_lua(user, attempt); attempt = 0
#ifdef TWO_STEPS
        :: written[user] > 0 && state[user] == PENDING -> is_half_acked[user] = true
        :: is_half_acked[user] && is_pending -> is_half_acked[user] = false; state[user] = PENDING; ack_lua(user)
#else
        :: written[user] > 0 -> ack_lua(user)
#endif
        :: else -> skip
        fi;
        user = 0 }
    /* due.lua */
    :: atomic { is_pending -> escalate_due(); user = 0 }
    :: atomic { is_pending -> select(user : 0 .. USERS - 1);
        if :: is_due[user] && state[user] == PENDING -> retry(user) :: else -> skip fi;
        user = 0 }
    :: atomic { is_pending -> end_notification(0, USERS - 1, EXPIRED); user = 0 }
    :: atomic { is_pending && state[0] != NONE -> end_notification(0, 0, EXPIRED); user = 0 }
    /* drop.lua */
    :: atomic { is_pending -> end_notification(0, USERS - 1, DROPPED); user = 0 }
    :: atomic { is_pending && state[0] != NONE -> end_notification(0, 0, DROPPED); user = 0 }
    /* redrive.lua, for each entry of the error log */
    :: atomic { redrives < ROUNDS - 1 && (entry[0] > 0 || entry[1] > 0) ->
        redrives++;
        if
        :: entry[0] > 0 -> from_entry = entry[0]
        :: entry[1] > 0 -> from_entry = entry[1]
        fi;
        redrive_lua(from_entry);
        from_entry = 0; user = 0; outcome = 0 }
    od
}
