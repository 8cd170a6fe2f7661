/*
 * progress.pml: the progress of a slot in two shards, one of which records it less often, for spin.
 *
 * Each row of the WAL is for one shard. The feed sends it to that shard, and the new progress to shard 0 too, with the
 * newest row of shard 1. At any moment it lets both shards record the progress, and confirms it to the slot once both
 * have it on disk. A shard may fail at any moment: it continues with what was on its disk, and requests in flight are
 * lost. The feed may be replaced at any moment; requests of the former feed may still arrive.
 *
 * A relay reads shard 1, and what shard 0 reports. Its session reads from the store up to where the relay has read.
 *
 * The assertions: a confirmed row is on disk; no row is stored twice; the slot never starts beyond the progress of a
 * shard; when the relay takes shard 1 as covered up to a row, a session that has read as far as the relay has all rows of
 * shard 1 up to that row.
 *
 * The names are those of relay/store/write/ingest.c, relay/feed/stream.c and relay/store/read/cover.c.
 *
 *   -DQUIET            some of the WAL has no row: holds, but takes minutes
 *   -DCONFIRM_STORED   rows are confirmed once they are on disk, before shard 1 has recorded that
 *   -DUNCHECKED        advance.lua does not compare the progress with the batch before
 *   -DNO_SENT          shard 1 is covered as far as shard 0
 *   -DREPORT_AGAIN     shard 0 reports the newest row of shard 1 although it is ahead of the feed
 *   -DFORMER_READS     what the relay has read before shard 1 failed counts
 */
#ifndef ROWS
#define ROWS 2 /* rows are 1 .. ROWS; a position is the number of a row */
#endif
#ifndef FEEDS
#define FEEDS 2
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#define BIT(row) (1 << (row))
#ifdef REPORT_AGAIN
#define IS_REPORT true
#else
#define IS_REPORT !is_ahead
#endif

byte place[ROWS + 1]; /* the row is for shard 0 or 1; 2: WAL without a row, whose position no batch has */
byte faults;

/* the shards, and what is on their disks */
byte owner[2], position[2], read[2], has[2];
byte disk_position[2], disk_read[2], disk_has[2];
byte covered, sent, disk_covered, disk_sent; /* the newest entry of covered.lua in shard 0 */

/* requests in flight: owner, row or 0, after, position, read or 0, sent, whether it is a record */
chan requests[2] = [3] of { byte, byte, byte, byte, byte, byte, bool };

/* the feed */
byte token, next_row, acquired[2], order_position, sent_position[2], newest_sent, record_lsn;
bool is_recorded[2], is_acquiring;
byte slot; /* confirmed */

/* the relay: at, delivered_since (order.c), cover->reported, the newest of shard 0; its session: cursor, what it received */
byte at, delivered_since, reported, shared_covered, shared_sent, cursor, received;
byte common; /* the last row of shard 1 that its failure left */
bool must_follow;

inline newest_row(rows, found) {
    found = ROWS;
    do
    :: found > 0 && !(rows & BIT(found)) -> found--
    :: else -> break
    od
}
inline lower(value, limit) { if :: value > limit -> value = limit :: else -> skip fi }
inline raise(value, to) { if :: value < to -> value = to :: else -> skip fi }

init {
    byte row = 1;
    atomic {
        do
        :: row <= ROWS -> if
            :: place[row] = 0
            :: place[row] = 1
#ifdef QUIET
            :: place[row] = 2
#endif
            fi;
            row++
        :: else -> break
        od;
        run Feed(); run Shard(0); run Shard(1); run Relay()
    }
}

inline send_advance(k, lsn, is_record) {
    requests[k] ! token, 0, sent_position[k], order_position, lsn, newest_sent, is_record;
    raise(sent_position[k], order_position)
}

proctype Feed() {
    byte row, k;
    do
    /* A new feed, which may be of another relay. */
    :: atomic { !is_acquiring && token < FEEDS ->
        token++; is_acquiring = true; k = 0; record_lsn = 0 }
    :: atomic { is_acquiring && k < 2 ->
        assert(slot <= read[k]); /* feed_reset_if_slot_advanced */
        owner[k] = token;
        acquired[k] = position[k]; sent_position[k] = position[k];
        if
        :: k == 1 -> row = has[1]; newest_row(row, newest_sent)
        :: else -> skip
        fi;
        row = 0; k++ }
    :: atomic { is_acquiring && k == 2 ->
        is_acquiring = false; next_row = slot + 1; k = 0;
        order_position = acquired[0]; lower(order_position, acquired[1]) }
    /* A batch of one row. */
    :: atomic { token > 0 && !is_acquiring && next_row <= ROWS && len(requests[0]) < 2 && len(requests[1]) < 2 ->
        row = next_row; next_row++;
        if
        :: place[row] == 1 -> raise(newest_sent, row); k = 1
        :: else -> k = 0
        fi;
        if
        :: place[row] < 2 -> raise(order_position, row)
        :: else -> skip
        fi;
        if
        :: place[row] < 2 && row > acquired[k] ->
            requests[k] ! token, row, sent_position[k], row, 0, 0, false; raise(sent_position[k], row)
        :: else -> skip /* sent again: the shard has it; or no row */
        fi;
        send_advance(0, row, false);
        row = 0; k = 0 }
    /* Both shards record the progress. */
    :: atomic { token > 0 && !is_acquiring && record_lsn < next_row - 1 && nfull(requests[0]) && nfull(requests[1]) ->
        record_lsn = next_row - 1; is_recorded[0] = false; is_recorded[1] = false;
        send_advance(0, record_lsn, true); send_advance(1, record_lsn, true) }
#ifdef CONFIRM_STORED
    :: atomic { token > 0 && !is_acquiring && next_row - 1 > slot && empty(requests[0]) && empty(requests[1]) &&
            disk_position[0] >= order_position && disk_has[1] == has[1] -> slot = next_row - 1 }
#endif
    :: atomic { !is_acquiring && record_lsn > slot && is_recorded[0] && is_recorded[1] &&
            disk_read[0] >= record_lsn && disk_read[1] >= record_lsn -> slot = record_lsn }
    od
}

proctype Shard(byte k) {
    byte by, row, after, to, lsn, newest;
    bool is_record, is_ahead;
    do
    :: atomic { requests[k] ? by, row, after, to, lsn, newest, is_record ->
        if
        :: owner[k] != by -> skip /* FENCED */
#ifdef UNCHECKED
        :: owner[k] == by && position[k] < after && row > 0 -> skip /* BEHIND */
        :: owner[k] == by && (position[k] >= after || row == 0) ->
#else
        :: owner[k] == by && position[k] < after -> skip /* BEHIND */
        :: owner[k] == by && position[k] >= after ->
#endif
            if
            :: row > position[k] -> assert(!(has[k] & BIT(row))); has[k] = has[k] | BIT(row)
            :: else -> skip
            fi;
            is_ahead = position[k] > to && lsn < position[k];
            raise(position[k], to); raise(read[k], lsn);
            if :: k == 0 && row == 0 && IS_REPORT -> covered = read[0]; sent = newest :: else -> skip fi;
            if :: is_record && by == token -> is_recorded[k] = true :: else -> skip fi
        fi;
        by = 0; row = 0; after = 0; to = 0; lsn = 0; newest = 0; is_record = false; is_ahead = false }
    :: atomic { disk_position[k] != position[k] || disk_read[k] != read[k] ->
        disk_position[k] = position[k]; disk_read[k] = read[k]; disk_has[k] = has[k];
        if :: k == 0 -> disk_covered = covered; disk_sent = sent :: else -> skip fi }
    :: atomic { faults < FAULTS && !must_follow ->
        faults++;
        position[k] = disk_position[k]; read[k] = disk_read[k]; has[k] = disk_has[k];
        if
        :: k == 0 -> covered = disk_covered; sent = disk_sent
        :: else -> row = has[1]; newest_row(row, common); must_follow = true; row = 0
        fi;
        do
        :: requests[k] ? _, _, _, _, _, _, _
        :: empty(requests[k]) -> break
        od }
    od
}

/* A confirmed row is on disk. */
inline check_slot(row) {
    row = 1;
    do
    :: row <= slot -> assert(place[row] == 2 || disk_has[0] & BIT(row) || disk_has[1] & BIT(row)); row++
    :: else -> break
    od;
    row = 0
}

proctype Relay() {
    byte row;
    do
    :: atomic { check_slot(row) }
    :: atomic { shared_covered != covered || shared_sent != sent -> shared_covered = covered; shared_sent = sent }
    /* XREAD of shard 1: the next row, or its own entry of covered.lua behind the rows. */
    :: atomic { !must_follow ->
        row = at + 1;
        do
        :: row <= ROWS && !(has[1] & BIT(row)) -> row++
        :: else -> break
        od;
        if
        :: row <= ROWS -> at = row; raise(delivered_since, row)
        :: else -> raise(reported, read[1])
        fi;
        row = 0 }
    /* cover_report_shared */
#ifdef NO_SENT
    :: atomic { reported < shared_covered -> reported = shared_covered }
#else
    :: atomic { reported < shared_covered && (delivered_since >= shared_sent || reported >= shared_sent) -> reported = shared_covered }
#endif
    /* begin_history: the reader's connection follows the failover */
    :: atomic { must_follow ->
        must_follow = false;
        lower(at, common); lower(cursor, common); reported = 0;
#ifndef FORMER_READS
        delivered_since = 0;
#endif
        common = 0 }
    /* A session reads pages of the server that the reader reads. */
    :: atomic { !must_follow && cursor < at ->
        cursor++;
        if :: has[1] & BIT(cursor) -> received = received | BIT(cursor) :: else -> skip fi }
    :: atomic { cursor == at && reported > 0 ->
        row = 1;
        do
        :: row <= reported -> assert(place[row] != 1 || received & BIT(row)); row++
        :: else -> break
        od;
        row = 0 }
    od
}
