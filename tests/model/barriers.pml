/*
 * barriers.pml: a barrier in a session, for spin. session.pml describes the session and its client.
 *
 * The assertion: the reply follows all notifications of the transactions that were visible when it was requested, as
 * far as the client has to receive them.
 *
 * The functions and fields are those of relay/hub/barriers.c. -DVARIANT=NAME removes a rule:
 *
 *   AT_STORED         a barrier does not wait until the WAL up to its position is covered
 *   AT_CURSOR         a barrier waits only until the session has reached its cursor
 *   IGNORES_DUE       a barrier does not wait for the rest of the pending list
 *   IGNORES_DEFERRAL  a barrier does not wait for deferred notifications that are read from the stream
 */
#include "session.pml"
#ifndef VARIANT
#define VARIANT ALL_RULES
#endif
mtype = { ALL_RULES, AT_STORED, AT_CURSOR, IGNORES_DUE, IGNORES_DEFERRAL };
mtype = { BARRIER_NONE, BARRIER_STREAM, BARRIER_SESSION };

mtype barrier = BARRIER_NONE;
byte position_lsn, barrier_cursor;

/* The session has no ends. */
inline client_receives() { skip }
inline ends_settle() { skip }
inline ends_note() { has_other = false }
inline ends_note_held() { skip }
inline ends_note_listed() { skip }
inline ends_meet_listed() { skip }
inline ends_begin_new() { skip }
inline ends_begin_resumed() { skip }

inline hub_barrier_end() { barrier = BARRIER_NONE; position_lsn = 0; barrier_cursor = 0 }
inline session_leave() { hub_barrier_end() } /* barriers_leave */

#define IS_COVERED (covered >= position_lsn || VARIANT == AT_STORED)
#define IS_COMPLETE (IS_COMPLETE_TO(barrier_cursor) || (VARIANT == IGNORES_DUE && from >= barrier_cursor) || \
    (VARIANT == IGNORES_DEFERRAL && (IS_WHOLE_LIST_READ || at >= barrier_cursor)))
#define HAS_QUEUED ((state == STREAM || state == LIVE) && cursor >= barrier_cursor && \
    (VARIANT == AT_CURSOR || (IS_COMPLETE && !is_rewound)))

active proctype System() {
next:
    do
    /* The feed and the reader. */
    :: atomic { last < IDS -> feed_append() }
    :: is_covered = true
    :: atomic { head < last -> read_next() }
    :: atomic { IS_LAST_PART(head) && covered <= commit[head] -> covered = commit[head] + 1 }
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
    /* The barrier. */
    :: atomic { state != LOADING && barrier == BARRIER_NONE && last > 0 ->
        position_lsn = commit[last] + 1;
        barrier = BARRIER_STREAM }
    :: atomic { barrier == BARRIER_STREAM && IS_COVERED -> barrier_cursor = head; barrier = BARRIER_SESSION }
    :: atomic { barrier == BARRIER_SESSION && HAS_QUEUED ->
        for (id : 1 .. last) { assert(commit[id] >= position_lsn || received[id] || !IS_WANTED(id)) }
        hub_barrier_end() }
    od
}
