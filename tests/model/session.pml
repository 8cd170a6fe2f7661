/*
 * session.pml: a session, as far as ends.pml and barriers.pml need it, for spin.
 *
 * One user has one stream, and all notifications are for this user. Ids are 1 .. IDS, as are transactions, in commit
 * order. A notification that needs an ack is also in the user's pending list until this session, or another one,
 * acknowledges it. Whether the in-flight window has room is left open: at any time, it may have none.
 *
 * The client receives the lines that the session queues. The connection may break behind each line: then the client
 * resumes from the cursor of this line, perhaps on another relay, which may have read less.
 *
 * The functions and fields are those of relay/hub/delivery.c, resume.c, loading.c and outbound.c. The model that
 * includes this file adds the functions of ends.c, client_receives() and session_leave(), and a process whose loop has
 * the label `next`.
 *
 *   -DSKIP_UNREAD       what is held back ends where the relay has read to, also before the client's cursor
 */
#ifndef IDS /* -DIDS is given together with -DCONNECTIONS */
#define IDS 2
#define CONNECTIONS 3
#endif
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define NONE (IDS + 1)          /* in `from`: the session has no deferral */
mtype = { LOADING, PENDING, STREAM, LIVE, PASS_NONE, PASS_DUE, PASS_ON, PASS_FROM_STREAM };

/* the store */
byte last, commit[IDS + 1];     /* the newest notification; the transaction of each */
bool is_covered = true;         /* the last transaction has no more notifications */
bool needs_ack[IDS + 1], is_pair[IDS + 1]; /* is_pair: in the pending list */
#define IS_LAST_PART(id) (id < last -> commit[id + 1] > commit[id] : is_covered)

/* the hub */
byte base, head, covered;       /* base, head: of the replay buffer; covered: the stream has what is before it */

/* the session */
mtype state = LOADING, pass = PASS_NONE;
byte cursor, started_at, at, from = NONE; /* from: deferral.from */
bool by_stream, is_rewound, inflight[IDS + 1];

/* the client */
byte connections = 1, new_start; /* new_start: it began here, without a cursor */
bool has_mark, received[IDS + 1]; /* has_mark: its cursor names the open transactions */
#define IS_WANTED(id) (id > new_start || is_pair[id])

hidden byte id, pos, has_other; /* of one step; `id`: its notification */

inline end_deferral() { from = NONE; by_stream = false }

/* The client receives a line with this cursor. If the connection breaks here, the session is a new one. */
inline report_pos(position, is_marked) {
    if
    :: connections < CONNECTIONS ->
        cursor = position;
        if :: from >= cursor -> end_deferral() :: else fi;
        has_mark = is_marked;
        connections++;
        state = LOADING; pass = PASS_NONE; at = 0; is_rewound = false;
        for (id : 1 .. IDS) { inflight[id] = false }
        session_leave();
        goto next
    :: true
    fi
}

inline queue(is_marked) {
    client_receives();
    received[id] = true;
    pos = MAX(cursor, id);
    report_pos(pos, is_marked)
}

/* ---- delivery.c */

inline session_admit() {
    if
    :: needs_ack[id] -> /* defer */
        if :: from == NONE -> from = cursor :: else fi;
        if :: pass != PASS_DUE -> pass = PASS_DUE; at = from :: else fi;
        ends_note_held()
    :: !needs_ack[id] || (pass != PASS_DUE && !is_rewound) ->
        inflight[id] = needs_ack[id];
        ends_note();
        queue(has_other)
    fi
}

inline session_admit_pending() {
    if
    :: inflight[id]
    :: else ->
        inflight[id] = is_pair[id];
        ends_note_listed();
        queue(true)
    fi
}

/* ---- resume.c */

#define IS_WHOLE_LIST_READ (state != PENDING && pass != PASS_DUE && !is_rewound)
#define IS_COMPLETE_TO(position) ((IS_WHOLE_LIST_READ || at >= position) && from >= position)
#define PENDING_LIMIT (by_stream && from < cursor -> from : cursor)
/* A page also has the pairs that have ended, if the client has not received their notifications. */
#define IS_LISTED(id) (is_pair[id] || (needs_ack[id] && !by_stream && id > from))
#define NEEDS_SLOT(id) (is_pair[id] && !inflight[id])

inline deliver_pending() {
    if :: !by_stream && from < id -> from = id :: else fi;
    session_admit_pending()
}

inline read_pending() {
    id = at + 1;
    if
    :: id > PENDING_LIMIT -> /* end_pass */
        state = STREAM;
        if :: by_stream -> pass = PASS_FROM_STREAM :: else -> pass = PASS_NONE; end_deferral() fi
    :: id <= PENDING_LIMIT && NEEDS_SLOT(id) -> /* the in-flight window has no room */
        ends_meet_listed();
        state = STREAM; pass = PASS_DUE
    :: id <= PENDING_LIMIT ->
        if :: IS_LISTED(id) -> ends_meet_listed(); deliver_pending() :: else fi;
        at = id
    fi;
    ends_settle()
}

#define READS_DEFERRED (pass == PASS_FROM_STREAM)
#ifdef SKIP_UNREAD
#define IS_REACHED (from >= cursor || id > head)
#else
#define IS_REACHED (from >= cursor) /* another relay may have read further than this one */
#endif

inline read_stream() {
    id = (READS_DEFERRED -> from : cursor) + 1;
    if
    :: READS_DEFERRED && IS_REACHED -> /* reach: a page ends here */
        cursor = MAX(cursor, from); pass = PASS_NONE; end_deferral()
    :: READS_DEFERRED && id <= head && NEEDS_SLOT(id) -> /* the in-flight window has no room */
        ends_meet_listed();
        ends_note_held();
        pass = PASS_DUE; at = MAX(at, from)
    :: READS_DEFERRED && id <= head && needs_ack[id] -> /* deliver_deferred */
        ends_meet_listed();
        from = id;
        session_admit_pending();
        cursor = MAX(cursor, id)
    :: READS_DEFERRED && id <= head && !needs_ack[id] ->
        if :: id > cursor -> ends_meet_listed(); session_admit(); cursor = id :: else fi;
        from = id
    :: !READS_DEFERRED && id <= head -> session_admit(); cursor = id
    :: !READS_DEFERRED && id > head -> state = LIVE; ends_settle()
    fi
}

inline session_refill() {
    at = (is_rewound -> 0 : at); is_rewound = false;
    pass = PASS_ON; state = PENDING
}

/* ---- loading.c */

inline session_load() {
    if
    :: connections == 1 -> new_start = head; cursor = head; ends_begin_new()
    :: else -> ends_begin_resumed() /* read_client_pos: `cursor` and the deferral are the client's */
    fi;
    started_at = cursor;
    pass = PASS_ON; state = PENDING;
    report_pos(cursor, true) /* connected */
}

/* ---- the feed and the reader */

inline feed_append() {
    last++;
    if :: !is_covered -> commit[last] = commit[last - 1] :: commit[last] = commit[last - 1] + 1 fi;
    is_covered = false;
    if :: needs_ack[last] = true; is_pair[last] = true :: skip fi
}

inline read_next() {
    id = head + 1;
    if :: state == LIVE && cursor < id -> session_admit(); cursor = id :: else fi;
    head = id
}
