/*
 * pairs.pml: how the pairs of one notification end, and their receipts, for spin.
 *
 * Each script of relay/store/scripts is one step. After a delivery, ack.lua and report.lua may run at any moment and
 * any number of times: relays repeat them after lost replies, run them late, or die before. due.lua and drop.lua may
 * run at any moment; an expiration or a drop may end the users of a large audience in parts. The audience may be
 * open-ended: its users are those whose delivery is reported. redrives.pml adds redrive.lua and escalations.
 *
 * The assertions: a pair has one outcome in each round, and none after an ack; the notification has one receipt each
 * time that it ends, with the right number of acks; no more retries are counted than were written to a socket.
 *
 *   -DTWO_STEPS      ack.lua reads and writes the pair in two steps
 *   -DNO_MARK        the users of an open-ended audience whose pairs ended are not marked
 *   -DNO_ATTEMPT     a report does not name the attempt that was written to a socket
 */
#define USERS 2 /* users are 0 .. USERS - 1 */
#ifndef LIMIT
#define LIMIT 1 /* retry_limit */
#endif
mtype = { NONE, PENDING, ACKED, DROPPED, EXHAUSTED, EXPIRED, UNREACHED };

/* the keys of the store */
bool is_pending, open_ended;    /* KEY_PENDING */
byte left;                      /* its users without an ack */
mtype state[USERS] = NONE;      /* KEY_ACK; PENDING is '0' */
bool unreported_ack[USERS];
bool is_due[USERS];             /* KEY_DUE */
byte retries[USERS];            /* KEY_RETRIES: those that were delivered */
bool is_added[USERS];           /* '+': another one was added, but not delivered */
bool is_dead_lettered[USERS];
byte entries, entry[USERS];     /* KEY_ERRORS: their number, and the entry of each user; 0: none */
mtype reason[USERS] = NONE;
byte recipients, counts[8];     /* KEY_RECEIPT_STATE: pairs that ended with each outcome */
bool delivered[USERS];
byte round[USERS] = 1, own_round = 1; /* of each pair, and of the notification; redrives.pml raises them */

/* the receipts: the latest round of each pair, and of the notification, that has one; 0: none */
byte ended[USERS], completed;
bool is_acked[USERS];
byte written[USERS];            /* attempts that a relay wrote to a socket */
hidden byte u, first, last, attempt; /* of one step, so not part of a state */
hidden mtype outcome;

/* The user of an open-ended audience is added by the first delivery report. */
#define IS_UNREPORTED(user) (open_ended && state[user] == NONE && !is_dead_lettered[user])

inline add_receipt(user) {
    assert(ended[user] < round[user] && !is_acked[user]);
    ended[user] = round[user]
}

inline complete() { /* adds the receipt of the notification */
    assert(completed < own_round && left == 0 && state[0] != PENDING && state[1] != PENDING);
    assert(recipients - counts[DROPPED] - counts[EXHAUSTED] - counts[EXPIRED] - counts[UNREACHED] ==
        is_acked[0] + is_acked[1]);
    completed = own_round; is_pending = false; open_ended = false;
    for (u : 0 .. USERS - 1) { state[u] = NONE; retries[u] = 0; is_added[u] = false; is_dead_lettered[u] = false }
}

inline acknowledge(user) { /* ack.lua */
    add_receipt(user);
    is_acked[user] = true; state[user] = ACKED; is_due[user] = false; left--;
    if :: left == 0 && !open_ended -> complete() :: else fi
}

inline end_pair(user, stage) { /* end_pairs.lua, and the entry of the error log */
    add_receipt(user);
    counts[(stage == DROPPED || delivered[user] -> stage : UNREACHED)]++;
    if :: stage != DROPPED -> entry[user] = entries; reason[user] = stage :: else fi;
    is_due[user] = false; left--
}

inline remove_user(user) {
#ifndef NO_MARK
    is_dead_lettered[user] = open_ended;
#endif
    state[user] = NONE
}

inline end_notification(from, to, stage) {
    entries = entries + (stage == EXPIRED);
    for (u : from .. to) {
        if :: state[u] == PENDING -> end_pair(u, stage) :: else fi;
        remove_user(u)
    }
    if :: state[0] == NONE && state[1] == NONE -> complete() :: else fi
}

inline retry(user) { /* due.lua */
    if
    :: retries[user] < LIMIT -> is_added[user] = true; is_due[user] = false
    :: else -> /* dead_letter */
        entries++; end_pair(user, EXHAUSTED); remove_user(user);
        if :: left == 0 && !open_ended -> complete() :: else fi
    fi
}

inline report(user) { /* report.lua */
    if
    :: IS_UNREPORTED(user) -> /* add_pending_user */
        recipients++;
        if
        :: unreported_ack[user] -> add_receipt(user); is_acked[user] = true; state[user] = ACKED
        :: else -> state[user] = PENDING; left++
        fi
    :: else
    fi;
    if
    :: state[user] == PENDING -> /* report_delivered */
        if :: is_added[user] && attempt > retries[user] -> retries[user]++; is_added[user] = false :: else fi;
        assert(retries[user] < written[user]);
        delivered[user] = true; is_due[user] = true
    :: else
    fi
}

active [USERS] proctype Pair() {
    byte user = _pid;
    do
    :: atomic { is_pending && (state[user] == PENDING || written[user] == 0) &&
            written[user] <= retries[user] + is_added[user] -> /* a relay writes the notification to a socket */
        written[user] = retries[user] + is_added[user] + 1 }
    :: atomic { written[user] > 0 -> /* a report of any attempt */
        select(attempt : 0 .. written[user] - 1);
#ifdef NO_ATTEMPT
        attempt = LIMIT + 1;
#endif
        report(user) }
    :: atomic { written[user] > 0 && state[user] == PENDING -> acknowledge(user) }
#ifdef TWO_STEPS
    :: written[user] > 0 && state[user] == PENDING -> atomic { acknowledge(user) }
#endif
    :: atomic { written[user] > 0 && IS_UNREPORTED(user) -> unreported_ack[user] = true }
    :: atomic { is_due[user] && state[user] == PENDING -> retry(user) }
    od
}

active proctype Notification() {
    atomic { /* ingest.lua */
        is_pending = true;
        if
        :: open_ended = true
        :: state[0] = PENDING; state[1] = PENDING; left = USERS; recipients = USERS
        fi
    }
    do
    :: atomic { is_pending -> /* an expiration or drop.lua, of all users or of a part */
        if :: outcome = EXPIRED :: outcome = DROPPED fi;
        if
        :: first = 0; last = USERS - 1
        :: state[0] != NONE -> first = 0; last = 0
        :: state[1] != NONE -> first = 1; last = 1
        fi;
        end_notification(first, last, outcome) }
    od
}
