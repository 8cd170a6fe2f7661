/*
 * ends.pml: the end of a transaction, and a barrier, in a session with an in-flight window, for spin.
 *
 * One user has one stream. The feed adds the notifications of transactions in commit order; a transaction may be read in
 * parts, and `covered` reports that there are no more parts: with the last one, or later. A notification that needs an ack is also in the user's
 * pending list until the session, or another one, acknowledges it. The client receives what the session queues, has one
 * cursor, and resumes with it at any moment, also on a relay that has just started; or it begins without a cursor.
 *
 * The assertions: an end, or the reply to a barrier, follows all notifications of its transactions that the client has to
 * receive; nothing of a transaction follows its end; a connection has at most one end of it; at rest, the client has the
 * end of each transaction of which it has a part.
 *
 * The functions and fields are those of relay/hub/ends.c, barriers.c, delivery.c, resume.c and loading.c.
 *
 *   -DNO_REST           an end does not wait for what the in-flight window holds back
 *   -DNO_STRADDLING     a new session does not know that its first transaction may be in the pending list
 *   -DONLY_NEW_STRADDLES  a session that resumes does not know it
 *   -DCOVERED_EQUAL     a covered position ends the transaction that commits there
 *   -DNO_MARK           a cursor does not name the open transactions, and the one at the cursor is not looked up
 *   -DPLAIN_CURSORS     only the cursors of the pending list and of ends name the open transactions
 *   -DBARRIER_AT_CURSOR a barrier waits only until the cursor is reached
 *   -DBARRIER_IGNORES_DUE  a barrier does not wait for the rest of the pending list
 */
#ifndef IDS
#define IDS 2 /* ids are 1 .. IDS, as are transactions */
#endif
#ifndef CONNECTIONS
#define CONNECTIONS 2
#endif
#define SIZE 1 /* of the in-flight window */
#define PENDING 1
#define STREAM 2
#define LIVE 3
#define PASS_NONE 0
#define PASS_DUE 1
#define PASS_REREAD 2
#define PASS_ON 3
#define PASS_FROM_STREAM 4

/* the store */
byte last, commit[IDS + 2], stored_covered;
bool needs_ack[IDS + 1], is_pair[IDS + 1]; /* is_pair: in the pending list */

/* the hub */
byte head, offered, covered;
bool is_started; /* temporary: the relay has just started */

/* the session */
byte state, cursor, started_at, at, from;  /* from: deferral.from */
bool has_deferral, by_stream, is_rewound;
byte pass;
bool inflight[IDS + 1];
byte inflight_count;

/* session->ends; open transactions by their commit */
byte met_lsn, first_xid;
bool may_straddle, is_waiting;
bool is_open[IDS + 2], is_delivered[IDS + 2];
byte rest[IDS + 2];

/* the client */
byte pos, pos_from;
bool has_pos, pos_by_stream, has_mark, mark[IDS + 2];
bool received[IDS + 1], lacks_end[IDS + 2], was_ended[IDS + 2], got_end[IDS + 2];
byte connections;
byte barrier, barrier_cursor; /* barrier: all transactions before this commit; 0: none */
byte new_start;               /* the client began here without a cursor */
byte id, x, until, page_end, before, reported, before_end; /* temporary; 0 between steps */
bool has_room, has_more, has_other;

#define REACHED (state == LIVE && head > cursor -> head : cursor)
#define FREE_SLOTS (SIZE - inflight_count)

/* What the session queues reaches the client, with the cursor `reported`. */
inline report_pos(is_marked) {
    has_pos = true; pos = reported;
    pos_from = (has_deferral && from < reported -> from : reported);
    pos_by_stream = has_deferral && from < reported && by_stream;
    has_mark = is_marked;
    x = 1;
    do
    :: x > IDS -> break
    :: else -> mark[x] = is_marked && is_open[x] && is_delivered[x]; x++
    od
}

inline queue(is_marked) {
    assert(received[id] || !was_ended[commit[id]]); /* what is pending is sent again on a new connection */
    received[id] = true; lacks_end[commit[id]] = true;
    report_pos(is_marked)
}

/* ---- ends.c */

#ifdef NO_REST
#define HAS_PASSED(rest) true
#else
#define HAS_PASSED(rest) ((!has_deferral || from >= rest) && ((pass != PASS_DUE && !is_rewound && state > PENDING) || at >= rest))
#endif
#ifdef COVERED_EQUAL
#define IS_OVER(c) (offered > c || covered >= c)
#else
#define IS_OVER(c) (offered > c || covered > c)
#endif
#define IS_BEHIND(c) (c < met_lsn || (state == LIVE && IS_OVER(c)))

inline end(c) {
    is_open[c] = false; rest[c] = 0;
    if
    :: is_delivered[c] ->
        is_delivered[c] = false;
        assert(!got_end[c]);
        got_end[c] = true; was_ended[c] = true; lacks_end[c] = false;
        assert(c < commit[last] || stored_covered > c);
        until = 1;
        do
        :: until > last -> break
        :: else -> assert(commit[until] != c || received[until]); until++
        od;
        until = c;
        before_end = reported; reported = REACHED;
        report_pos(true);
        reported = before_end; x = until
    :: else -> skip
    fi
}

inline ends_settle() {
    is_waiting = false;
    x = 1;
    do
    :: x > IDS -> break
    :: is_open[x] && (!IS_BEHIND(x) || (is_delivered[x] && !HAS_PASSED(rest[x]))) ->
        is_waiting = is_waiting || HAS_PASSED(rest[x]); x++
    :: is_open[x] && !(!IS_BEHIND(x) || (is_delivered[x] && !HAS_PASSED(rest[x]))) -> end(x); x++
    :: x <= IDS && !is_open[x] -> x++
    od;
    is_waiting = is_waiting && state == LIVE
}

inline meet(c) {
    if :: c > met_lsn -> met_lsn = c; ends_settle() :: else -> skip fi
}

inline note_in_stream(is_held) {
    meet(commit[id]);
    is_open[commit[id]] = true;
#ifndef NO_STRADDLING
    if
    :: may_straddle ->
        if :: first_xid == 0 -> first_xid = commit[id] :: else -> skip fi;
        if
        :: first_xid == commit[id] ->
            if :: started_at > rest[commit[id]] -> rest[commit[id]] = started_at :: else -> skip fi
        :: else -> may_straddle = false
        fi
    :: else -> skip
    fi;
#endif
    if
    :: is_held -> if :: id > rest[commit[id]] -> rest[commit[id]] = id :: else -> skip fi
    :: else -> is_delivered[commit[id]] = true
    fi;
    is_waiting = is_waiting || state == LIVE
}

inline ends_note_listed() {
    is_open[commit[id]] = true; is_delivered[commit[id]] = true;
    if :: cursor > rest[commit[id]] -> rest[commit[id]] = cursor :: else -> skip fi
}

inline ends_meet_listed() {
    x = 1;
    do
    :: x >= commit[id] -> break
    :: else -> if :: is_open[x] -> rest[x] = 0 :: else -> skip fi; x++
    od;
    meet(commit[id]);
    ends_settle()
}

/* Sets has_other: the client has a part of another transaction, and lacks its end. */
inline find_other() {
    has_other = false;
#ifndef PLAIN_CURSORS
    x = 1;
    do
    :: x > IDS -> break
    :: else -> has_other = has_other || (x != commit[id] && is_open[x] && is_delivered[x]); x++
    od
#endif
}

/* ---- delivery.c */

inline inflight_add() { inflight[id] = true; inflight_count++ }

inline session_admit() {
    if
    :: needs_ack[id] && inflight[id] -> skip
    :: needs_ack[id] && !inflight[id] && (pass == PASS_DUE || is_rewound || FREE_SLOTS == 0) -> /* defer */
        if :: !has_deferral -> has_deferral = true; by_stream = false; from = REACHED :: else -> skip fi;
        if :: pass != PASS_DUE -> pass = PASS_DUE; at = from :: else -> skip fi;
        note_in_stream(true)
    :: else ->
        if :: needs_ack[id] -> inflight_add() :: else -> skip fi;
        note_in_stream(false);
        find_other();
        queue(has_other)
    fi
}

/* ---- resume.c */

inline end_deferral() {
    has_deferral = false; by_stream = false; from = 0;
    if :: pass == PASS_FROM_STREAM -> pass = PASS_NONE :: else -> skip fi
}

inline end_pass(is_complete) {
    if
    :: !(is_complete) -> pass = PASS_DUE
    :: is_complete && has_deferral && by_stream -> pass = PASS_FROM_STREAM
    :: else -> pass = PASS_NONE; end_deferral()
    fi;
    state = STREAM
}

/* Sets has_room. A pair that has ended is in the page only if it is after `from`. */
inline deliver_pending() {
    has_room = true;
    if
    :: inflight[id] -> if :: has_deferral && !by_stream && from < id -> from = id :: else -> skip fi
    :: !inflight[id] && is_pair[id] && FREE_SLOTS == 0 -> has_room = false
    :: else ->
        if :: has_deferral && !by_stream && from < id -> from = id :: else -> skip fi;
        if :: is_pair[id] -> inflight_add() :: else -> skip fi;
        ends_note_listed();
        reported = cursor; queue(true)
    fi
}

#define PENDING_END (has_deferral && by_stream && from < cursor -> from : cursor)
#define IS_ENDED_ROW(i) (needs_ack[i] && !is_pair[i] && has_deferral && !by_stream && i > from)

/* A page: the next notification of the pending list, and those that have ended before it. */
inline read_pending() {
    if :: has_deferral && !by_stream -> if :: by_stream = true /* lacks_ended */ :: skip fi :: else -> skip fi;
    until = PENDING_END; has_more = false; has_room = true;
    id = at + 1;
    do /* the page ends at the first pair, or at the end of the list */
    :: id > until -> break
    :: id <= until && is_pair[id] -> has_more = id < until; until = id; break
    :: else -> id++
    od;
    id = until + 1;
    do
    :: !has_more || id > PENDING_END || is_pair[id] -> break
    :: else -> id++
    od;
    has_more = has_more && id <= PENDING_END;
    if :: !has_more -> until = PENDING_END :: else -> skip fi;
    page_end = until;
    id = at + 1;
    do
    :: id > page_end || !has_room -> break
    :: id <= page_end && has_room && (is_pair[id] || IS_ENDED_ROW(id)) ->
        ends_meet_listed();
        deliver_pending();
        if :: has_room -> at = id; id++ :: else -> skip fi
    :: else -> id++
    od;
    if
    :: has_room ->
        if :: page_end > at -> at = page_end :: else -> skip fi;
        if :: has_deferral && !by_stream && at > from -> from = at :: else -> skip fi
    :: else -> skip
    fi;
    if
    :: !has_room -> end_pass(false)
    :: has_room && (!has_more || at >= PENDING_END) -> end_pass(true)
    :: has_room && has_more && at < PENDING_END && FREE_SLOTS == 0 && pass == PASS_ON -> end_pass(false)
    :: else -> skip
    fi;
    ends_settle();
    page_end = 0
}

#define READS_DEFERRED (pass == PASS_FROM_STREAM)
#define STREAM_CURSOR (READS_DEFERRED -> from : cursor)

inline deliver_deferred() {
    before = from;
    from = id;
    if
    :: inflight[id] -> has_room = true
    :: !inflight[id] && !is_pair[id] -> /* known_end */
        has_room = true;
        ends_note_listed();
        reported = (cursor > id -> cursor : id); queue(true)
    :: !inflight[id] && FREE_SLOTS == 0 ->
        has_room = false;
        note_in_stream(true);
        from = before; pass = PASS_DUE;
        if :: from > at -> at = from :: else -> skip fi
    :: !inflight[id] && FREE_SLOTS > 0 ->
        has_room = true;
        inflight_add();
        ends_note_listed();
        reported = (cursor > id -> cursor : id); queue(true)
    fi
}

inline read_stream() {
    id = STREAM_CURSOR + 1;
    if
    :: id <= head ->
        has_room = true;
        if
        :: (READS_DEFERRED && needs_ack[id]) || cursor < id ->
            if :: READS_DEFERRED -> ends_meet_listed() :: else -> skip fi;
            if
            :: needs_ack[id] && READS_DEFERRED -> deliver_deferred()
            :: else -> reported = (cursor > id -> cursor : id); session_admit()
            fi
        :: else -> skip
        fi;
        if
        :: has_room ->
            if :: READS_DEFERRED -> from = id :: else -> skip fi;
            if :: cursor < id -> cursor = id :: else -> skip fi
        :: else -> skip
        fi
    :: id > head && READS_DEFERRED ->
        if :: cursor > from -> from = cursor :: else -> skip fi;
        cursor = from; end_deferral()
    :: else -> state = LIVE; ends_settle()
    fi
}

/* ---- loading.c */

inline clear_session() {
    end_deferral(); pass = PASS_NONE; is_rewound = false;
    met_lsn = 0; first_xid = 0; may_straddle = false; is_waiting = false;
    inflight_count = 0;
    x = 1;
    do
    :: x > IDS -> break
    :: else -> is_open[x] = false; is_delivered[x] = false; rest[x] = 0; got_end[x] = false; inflight[x] = false; x++
    od;
    barrier = 0; barrier_cursor = 0
}

inline session_load() {
    clear_session();
    if
    :: has_pos -> /* read_client_pos */
        cursor = pos; from = pos_from;
        has_deferral = from < cursor; by_stream = has_deferral && pos_by_stream;
        x = 1;
        do
        :: x > IDS -> break
        :: else ->
#ifdef NO_MARK
            has_mark = false;
#endif
            if :: has_mark && mark[x] -> is_open[x] = true; is_delivered[x] = true; rest[x] = cursor :: else -> skip fi;
            x++
        od;
        if
#ifndef NO_MARK
        :: !has_mark && cursor > 0 -> /* find_end */
            is_open[commit[cursor]] = true; rest[commit[cursor]] = cursor;
            is_delivered[commit[cursor]] = !(has_deferral && needs_ack[cursor] && from < cursor)
#endif
        :: else -> skip
        fi;
        if :: !has_deferral -> from = 0 :: else -> skip fi;
#ifndef ONLY_NEW_STRADDLES
        if
        :: has_mark -> /* frame_at_cursor: a relay that has just started does not know the transaction at the cursor */
            may_straddle = cursor > 0 || is_started;
            first_xid = (is_started -> 0 : commit[cursor])
        :: else -> skip
        fi
#endif
    :: else -> /* ends_begin_new */
        cursor = head; new_start = head; may_straddle = true; first_xid = offered;
        id = 1;
        do
        :: id > IDS -> break
        :: else -> /* the client has to receive what is pending, and what follows */
            received[id] = id <= head && !is_pair[id];
            lacks_end[id] = false; was_ended[id] = false; id++
        od
    fi;
    started_at = cursor; at = 0; pass = PASS_REREAD; state = PENDING;
    reported = cursor; report_pos(true) /* connected */
}

/* ---- barriers.c */

#ifdef BARRIER_AT_CURSOR
#define HAS_QUEUED (state >= STREAM && REACHED >= barrier_cursor)
#else
#ifdef BARRIER_IGNORES_DUE
#define HAS_QUEUED (state >= STREAM && REACHED >= barrier_cursor && !is_rewound && (!has_deferral || from >= barrier_cursor))
#else
#define HAS_QUEUED (state >= STREAM && REACHED >= barrier_cursor && !is_rewound && (!has_deferral || from >= barrier_cursor) && \
    (pass != PASS_DUE || at >= barrier_cursor))
#endif
#endif

/* The transaction of an entry has no further entry. */
#define IS_LAST_PART(id) (id < last -> commit[id + 1] > commit[id] : stored_covered > commit[id])

active proctype System() {
    do
    /* The feed. A transaction that is covered has no more parts. */
    :: atomic { last < IDS ->
        last++;
        if
        :: last > 1 && stored_covered <= commit[last - 1] -> commit[last] = commit[last - 1]
        :: commit[last] = commit[last - 1] + 1
        fi;
        if :: needs_ack[last] = true; is_pair[last] = true :: skip fi }
    :: atomic { last > 0 && stored_covered <= commit[last] -> stored_covered = commit[last] + 1 }
    /* The reader. */
    :: atomic { head < last ->
        id = head + 1;
        if :: state == LIVE && cursor < id -> reported = id; session_admit(); cursor = id :: else -> skip fi;
        head = id; offered = commit[id];
        if
        :: IS_LAST_PART(id) -> /* it has the covered position */
            covered = commit[id] + 1;
            if :: is_waiting -> ends_settle() :: else -> skip fi
        :: skip
        fi;
        id = 0; has_other = false; reported = 0; before_end = 0; x = 0; until = 0 }
    :: atomic { head == last && covered < stored_covered ->
        covered = stored_covered;
        if :: is_waiting -> ends_settle() :: else -> skip fi;
        x = 0; until = 0 }
    /* The session. */
    :: atomic { state == PENDING -> read_pending(); id = 0; has_other = false; reported = 0; before_end = 0; x = 0; until = 0; has_room = false; has_more = false }
    :: atomic { state == STREAM -> read_stream(); id = 0; has_other = false; reported = 0; before_end = 0; x = 0; until = 0; before = 0; has_room = false }
    :: atomic { state == LIVE -> cursor = REACHED; state = STREAM } /* session_pause: its queue is full */
    :: atomic { state == LIVE && (is_rewound || (pass == PASS_DUE && (FREE_SLOTS > 0 || by_stream))) -> /* session_refill */
        cursor = REACHED;
        if :: is_rewound -> at = 0 :: else -> skip fi;
        pass = (is_rewound -> PASS_REREAD : PASS_ON); is_rewound = false; state = PENDING }
    :: atomic { state >= PENDING && !is_rewound -> is_rewound = true } /* session_rewind: a retry was missed */
    /* The user acknowledges, here or in another session. The session learns it later. */
    :: atomic { select(id : 1 .. IDS);
        if
        :: is_pair[id] ->
            is_pair[id] = false;
            received[id] = received[id] || id <= new_start /* nobody has to receive it any more */
        :: else -> skip
        fi;
        id = 0 }
    :: atomic { select(id : 1 .. IDS);
        if :: inflight[id] && !is_pair[id] -> inflight[id] = false; inflight_count-- :: else -> skip fi; id = 0 }
    /* The client begins, or resumes; on this relay, or on one that has just started. */
    :: atomic { connections < CONNECTIONS ->
        connections++;
        if :: has_pos = false :: skip fi;
        if :: head = last; offered = 0; covered = 0; is_started = true :: skip fi;
        session_load(); is_started = false; id = 0; has_other = false; reported = 0; before_end = 0; x = 0 }
    /* A barrier behind all transactions that are stored. */
    :: atomic { state > 0 && barrier == 0 && last > 0 && stored_covered > commit[last] -> barrier = stored_covered }
    :: atomic { barrier > 0 && barrier_cursor == 0 && covered >= barrier -> barrier_cursor = head }
    :: atomic { barrier_cursor > 0 && HAS_QUEUED ->
        id = 1;
        do
        :: id > last -> break
        :: else -> assert(commit[id] >= barrier || received[id]); id++
        od;
        id = 0; barrier = 0; barrier_cursor = 0 }
    /* At rest. */
    :: atomic { last == IDS && head == last && stored_covered > commit[last] && covered == stored_covered && state == LIVE &&
            pass != PASS_DUE && !is_rewound && !has_deferral ->
        id = 1;
        do
        :: id > IDS -> break
        :: else -> assert(!lacks_end[id]); assert(received[id]); id++
        od;
        id = 0 }
    od
}
