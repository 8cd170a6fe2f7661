/*
 * ends.pml: the ends of transactions in a session, for spin. session.pml describes the session and its client.
 *
 * The assertions: an end follows all notifications of its transaction that the client has to receive; nothing of a
 * transaction is received for the first time behind its end; a connection has at most one end of a transaction, and
 * only if the client lacks it; at rest, the client lacks neither ends nor notifications.
 *
 * The functions and fields are those of relay/hub/ends.c. -DVARIANT=NAME removes a rule:
 *
 *   NO_REST             an end does not wait for what the in-flight window holds back
 *   NO_STRADDLING       a session does not know that its first transaction may be in the pending list
 *   ONLY_NEW_STRADDLES  a session that resumes does not know it
 *   COVERED_EQUAL       a covered position ends the transaction that commits there
 *   NO_MARK             no cursor names the open transactions, and the one at the cursor is not looked up
 *   PLAIN_CURSORS       only the cursors of the pending list and of ends name the open transactions
 */
#include "session.pml"
#ifndef VARIANT
#define VARIANT ALL_RULES
#endif
mtype = { ALL_RULES, NO_REST, NO_STRADDLING, ONLY_NEW_STRADDLES, COVERED_EQUAL, NO_MARK, PLAIN_CURSORS };

/* session->ends; an open transaction of which nothing was delivered has only a `rest` */
byte met_lsn, first_xid, rest[IDS + 1];
bool may_straddle, is_waiting, is_delivered[IDS + 1];

/* the client */
bool lacks_end[IDS + 1];
byte ended_on[IDS + 1]; /* the last connection that had the end; 0: none */

hidden byte x, i;

inline client_receives() {
    assert(received[id] || ended_on[commit[id]] == 0); /* what is pending is sent again on a new connection */
    lacks_end[commit[id]] = true
}

#define OFFERED (head > base -> commit[head] : 0) /* hub->ends.offered */
#define IS_OVER(c) (OFFERED > c || covered > c || (VARIANT == COVERED_EQUAL && covered == c))
#define IS_BEHIND(c) (c < met_lsn || (state == LIVE && IS_OVER(c)))
#define HAS_REST(c) (VARIANT != NO_REST && !IS_COMPLETE_TO(rest[c]))

inline end(c) {
    assert(c < commit[last] || is_covered);
    for (i : 1 .. last) { assert(commit[i] != c || received[i] || !IS_WANTED(i)) }
    assert(lacks_end[c] && ended_on[c] != connections);
    ended_on[c] = connections; lacks_end[c] = false;
    is_delivered[c] = false; rest[c] = 0;
    report_pos(cursor, true)
}

inline ends_settle() {
    is_waiting = false;
    for (x : 1 .. IDS) {
        if
        :: is_delivered[x] && IS_BEHIND(x) && !HAS_REST(x) -> end(x)
        :: else -> is_waiting = is_waiting || (is_delivered[x] && !HAS_REST(x))
        fi
    }
    is_waiting = is_waiting && state == LIVE
}

inline meet(c) {
    if :: c > met_lsn -> met_lsn = c; ends_settle() :: else fi
}

inline note_straddling(c) {
    if :: may_straddle && first_xid == 0 -> first_xid = c :: else fi;
    may_straddle = may_straddle && first_xid == c && VARIANT != NO_STRADDLING;
    if :: may_straddle -> rest[c] = MAX(rest[c], started_at) :: else fi
}

inline note_in_stream(c, is_held) {
    meet(c);
    note_straddling(c);
    if :: is_held -> rest[c] = MAX(rest[c], id) :: else -> is_delivered[c] = true fi;
    is_waiting = is_waiting || state == LIVE
}

inline ends_note() {
    note_in_stream(commit[id], false);
    has_other = false; /* lacks_other_end: the cursor names the open transactions */
    for (x : 1 .. IDS) {
        has_other = has_other || (is_delivered[x] && x != commit[id] && VARIANT != PLAIN_CURSORS)
    }
}

inline ends_note_held() { note_in_stream(commit[id], true) }

inline ends_note_listed() {
    is_delivered[commit[id]] = true;
    rest[commit[id]] = MAX(rest[commit[id]], cursor)
}

inline ends_meet_listed() {
    for (x : 1 .. commit[id] - 1) { rest[x] = 0 }
    meet(commit[id]);
    ends_settle()
}

inline ends_begin_new() { may_straddle = true; first_xid = OFFERED }

/* The open transactions of the former session are those that its last cursor names, if it names them. */
inline ends_begin_resumed() {
    for (x : 1 .. IDS) {
        is_delivered[x] = is_delivered[x] && has_mark && VARIANT != NO_MARK;
        rest[x] = (is_delivered[x] -> cursor : 0)
    }
    if
    :: has_mark ->
        may_straddle = VARIANT != ONLY_NEW_STRADDLES;
        if :: base < cursor -> first_xid = commit[cursor] :: first_xid = 0 fi /* frame_at_cursor; 0: not in memory */
    :: else -> /* ends_note_read */
        is_delivered[commit[cursor]] = VARIANT != NO_MARK;
        rest[commit[cursor]] = cursor
    fi
}

inline session_leave() {
    met_lsn = 0; first_xid = 0; may_straddle = false; is_waiting = false;
    for (x : 1 .. IDS) { rest[x] = 0 }
}

active proctype System() {
next:
    do
    /* The feed and the reader. */
    :: atomic { last < IDS -> feed_append() }
    :: is_covered = true
    :: atomic { head < last -> read_next() }
    :: atomic { IS_LAST_PART(head) && covered <= commit[head] ->
        covered = commit[head] + 1;
        if :: is_waiting -> ends_settle() :: else fi }
    /* The user acknowledges, here or in another session. The session learns it later. */
    :: atomic { select(id : 1 .. IDS); is_pair[id] = false }
    :: atomic { select(id : 1 .. IDS); inflight[id] = inflight[id] && is_pair[id] }
    /* The session. */
    :: atomic { state == LOADING -> session_load() }
    :: atomic { state == PENDING -> read_pending() }
    :: atomic { state == STREAM -> read_stream() }
    :: atomic { state == LIVE -> state = STREAM } /* session_pause: its queue is full */
    :: atomic { state == LIVE && (pass == PASS_DUE || is_rewound) -> session_refill() }
    :: atomic { state != LOADING -> is_rewound = true } /* session_rewind: a retry was missed */
    :: atomic { from != NONE -> by_stream = true } /* the pending list lacks some of what is deferred */
    :: atomic { state == LOADING -> select(head : 0 .. last); base = head; covered = 0 } /* another relay */
    /* At rest. */
    :: atomic { head == last && covered > commit[last] && state == LIVE && IS_WHOLE_LIST_READ && from == NONE ->
        for (id : 1 .. last) { assert(!lacks_end[commit[id]] && (received[id] || !IS_WANTED(id))) } }
    od
}
