/*
 * overtakes.pml: the ends of transactions if a shard is behind the other shard of the user, for spin.
 *
 * Transactions are 1 .. IDS, in commit order. Each has a notification in any of the two shards, or in both, all for one
 * user. The feed stores them in each shard in commit order, and a shard may be behind for any time: it is unavailable,
 * or a failover lost its newest notifications, which are stored again. A position in a shard is the number of the last
 * transaction whose part there was stored, read or received.
 *
 * A relay merges both shards in commit order. At any time it may stop waiting for a shard. Its session reads pages, and
 * then what the relay delivers. The client resumes at any cursor that it had, perhaps on a relay that has just started.
 *
 * The assertions: an end follows all notifications of its transaction; nothing of it is received for the first time
 * behind its end; at rest, the client lacks no end.
 *
 * The functions and fields are those of relay/hub/ends.c and relay/store/read/order.c. -DVARIANT=NAME removes a rule:
 *
 *   NO_EARLY    a notification that did not wait for the other shard is like any other
 *   NO_START    a relay does not know that it starts at different positions of the shards
 *   NO_HISTORY  a session does not know of a failover
 *   ONLY_OFFERED  it does not know what its relay had not offered before
 */
#ifndef IDS
#define IDS 2
#endif
#ifndef LOSSES
#define LOSSES 1
#define CONNECTIONS 2
#endif
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#ifndef VARIANT
#define VARIANT ALL_RULES
#endif
mtype = { ALL_RULES, NO_EARLY, NO_START, NO_HISTORY, ONLY_OFFERED, CLOSED, STREAM, LIVE };

/* A set of transactions has one bit for each. */
#define BIT(id) (1 << (id))
#define HAS(set, id) (((set) >> (id)) & 1)
#define OTHER(shard) (1 - (shard))

byte parts[2], stored[2], losses;           /* of each shard: the set of its notifications; its position */
byte newest[2], offered[2], covered[2];     /* hub->newest, hub->ends.offered, hub->covered */
byte disordered_lsn;                        /* hub->ends.disordered_lsn */

mtype state = CLOSED;                       /* the session */
byte cursor[2], met_lsn, open;              /* open: the set of its open transactions, which its cursors name */
bool is_disordered;

byte connections, received[2], ended;       /* the client */

hidden byte x, k, id, first;

#define IS_COVERED(id) (covered[0] >= (id) && covered[1] >= (id))
#define IS_BEHIND(id) (is_disordered -> state == LIVE && IS_COVERED(id) : \
    (id) < met_lsn || (state == LIVE && (offered[0] > (id) || offered[1] > (id) || IS_COVERED(id))))

inline ends_settle() {
    if
    :: is_disordered && state == LIVE -> is_disordered = !IS_COVERED(disordered_lsn)
    :: else
    fi;
    for (x : 1 .. IDS) {
        if
        :: HAS(open, x) && IS_BEHIND(x) ->
            assert((!HAS(parts[0], x) || HAS(received[0], x)) && (!HAS(parts[1], x) || HAS(received[1], x)));
            open = open & ~BIT(x); ended = ended | BIT(x)
        :: else
        fi
    }
}

/* The session sends the notification of transaction `id` in shard k. */
inline session_admit() {
    assert(HAS(received[k], id) || !HAS(ended, id));
    if :: id > met_lsn -> met_lsn = id; ends_settle() :: else fi;
    received[k] = received[k] | BIT(id);
    open = open | BIT(id)
}

inline hub_disorder_ends(lsn) {
    disordered_lsn = MAX(disordered_lsn, lsn); is_disordered = true
}

/* The newest notification of the other shard before transaction `id`; 0: none. */
inline find_needed() {
    first = id - 1;
    do :: first == 0 || HAS(parts[OTHER(k)], first) -> break :: else -> first-- od
}

/* reader_deliver, on_entry and session_offer */
inline deliver() {
    find_needed();
    if
    :: newest[OTHER(k)] >= first
    :: newest[OTHER(k)] < first && HAS(parts[k], id) -> /* order_skip */
        if :: VARIANT != NO_EARLY -> hub_disorder_ends(id) :: else fi
    fi;
    newest[k] = id;
    if
    :: HAS(parts[k], id) ->
        if :: state == LIVE && cursor[k] < id -> session_admit(); cursor[k] = id :: else fi;
        offered[k] = id
    :: else -> skip
    fi
}

/* The next stream entry of a page of both shards: of the one with the lower commit. */
inline read_stream() {
    first = IDS + 1;
    for (x : 0 .. 1) {
        for (id : 1 .. IDS) {
            if :: id < first && HAS(parts[x], id) && id > cursor[x] && id <= newest[x] -> first = id; k = x :: else fi
        }
    }
    id = first;
    if
    :: id > IDS -> state = LIVE; ends_settle()
    :: else -> session_admit(); cursor[k] = id
    fi
}

active proctype System() {
    byte from;

    atomic { for (id : 1 .. IDS) {
        if
        :: parts[0] = parts[0] | BIT(id)
        :: parts[1] = parts[1] | BIT(id)
        :: parts[0] = parts[0] | BIT(id); parts[1] = parts[1] | BIT(id)
        fi
    } }
    do
    /* The feed. */
    :: atomic { stored[0] < IDS -> stored[0]++ }
    :: atomic { stored[1] < IDS -> stored[1]++ }
    /* A failover. The relay and the cursor of the client continue where both histories are equal. */
    :: atomic { losses < LOSSES ->
        losses++;
        select(k : 0 .. 1); select(from : 0 .. stored[k]);
        stored[k] = from; covered[k] = 0;
        if
        :: VARIANT != NO_HISTORY ->
            hub_disorder_ends(met_lsn);
            for (x : 0 .. 1) {
                if
                :: VARIANT == ONLY_OFFERED -> hub_disorder_ends(offered[x])
                :: else -> hub_disorder_ends(newest[x])
                fi
            }
            offered[0] = 0; offered[1] = 0
        :: else
        fi;
        newest[k] = MIN(newest[k], from); cursor[k] = MIN(cursor[k], from) }
    /* The relay. */
    :: atomic { newest[0] < stored[0] -> k = 0; id = newest[0] + 1; deliver() }
    :: atomic { newest[1] < stored[1] -> k = 1; id = newest[1] + 1; deliver() }
    :: atomic { covered[0] < newest[0] -> covered[0] = newest[0]; ends_settle() }
    :: atomic { covered[1] < newest[1] -> covered[1] = newest[1]; ends_settle() }
    /* Another relay starts, where it has found a common position, or where each shard is. */
    :: atomic { state == CLOSED && connections > 0 ->
        offered[0] = 0; offered[1] = 0; covered[0] = 0; covered[1] = 0; disordered_lsn = 0;
        if
        :: newest[0] = MIN(stored[0], stored[1]); newest[1] = newest[0]
        :: newest[0] = stored[0]; newest[1] = stored[1];
            if
            :: stored[0] != stored[1] && VARIANT != NO_START -> disordered_lsn = MAX(stored[0], stored[1])
            :: else
            fi
        fi }
    /* The client connects, or its connection ends. */
    :: atomic { state == CLOSED && connections < CONNECTIONS ->
        connections++; state = STREAM;
        is_disordered = is_disordered || (disordered_lsn != 0 && !IS_COVERED(disordered_lsn)) }
    :: atomic { state != CLOSED && connections < CONNECTIONS -> state = CLOSED; met_lsn = 0; is_disordered = false }
    /* The session. */
    :: atomic { state == STREAM -> read_stream() }
    :: atomic { state == LIVE -> state = STREAM } /* session_pause: its queue is full */
    /* At rest. */
    :: atomic { state == LIVE && newest[0] == IDS && newest[1] == IDS && covered[0] == IDS && covered[1] == IDS ->
        assert(!open && received[0] == parts[0] && received[1] == parts[1]) }
    od
}
