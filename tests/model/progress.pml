/*
 * progress.pml: the progress of a slot in two shards, one of which records it less often, for spin.
 *
 * Each row of the WAL is for one shard. The feed sends it to that shard, and the new progress to shard 0 too, with the
 * newest row of shard 1. At any moment it lets both shards record the progress, and confirms it to the slot once both
 * have it on disk. A shard may fail at any moment: it continues with what was on its disk, and requests in flight are
 * lost. The feed may be replaced at any moment; requests of the former feed may still arrive.
 *
 * The assertions: a confirmed row is on disk; no row is stored twice; the slot never starts beyond the progress of a
 * shard. cover.pml adds a relay that reads both shards.
 *
 * The names are those of relay/store/write/ingest.c and relay/feed/stream.c.
 *
 *   -DQUIET            some of the WAL has no row
 *   -DCONFIRM_STORED   rows are confirmed once they are on disk, before shard 1 has recorded that
 *   -DUNCHECKED        advance.lua does not compare the progress with the batch before
 *   -DREPORT_AGAIN     shard 0 reports the newest row of shard 1 although it is ahead of the feed (for cover.pml)
 */
#ifndef ROWS
#define ROWS 2 /* rows are 1 .. ROWS, up to 3; a position is the number of a row */
#endif
#ifndef FEEDS
#define FEEDS 2
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define MAX(a, b) ((a) > (b) -> (a) : (b))

/* A set of rows has one bit for each row. */
#define BIT(row) (1 << (row))
#define UP_TO(row) (BIT((row) + 1) - 1)
#define NEWEST(set) ((set) & 8 -> 3 : ((set) & 4 -> 2 : ((set) & 2 -> 1 : 0)))

byte rows[2];                   /* the set of rows for each shard; WAL without a row is in neither */
byte slot;                      /* the position that was confirmed */

/* the shards, and what is on their disks */
typedef shard { byte position, read, has, covered, sent }; /* covered, sent: the newest entry of covered.lua */
shard shards[2], disks[2];
byte owner[2], generation[2], fork[2] = ROWS; /* fork: the newest row of the former generation */

/* The requests in flight, and their fields. `hidden`: of one step, so not part of a state. */
chan requests[2] = [3] of { byte, byte, byte, byte, byte, byte };
hidden byte by, row, after, to, lsn, newest; /* row 0: advance.lua; otherwise ingest.lua */

/* the feed */
byte token, next_row, acquired[2], sent_position[2], order_position, newest_sent, record_lsn;
hidden byte k, is_ahead;

inline copy(source, target) {
    target.position = source.position; target.read = source.read; target.has = source.has;
    target.covered = source.covered; target.sent = source.sent
}

inline acquire(k) {
    assert(slot <= shards[k].read); /* feed_reset_if_slot_advanced */
    owner[k] = token;
    acquired[k] = shards[k].position; sent_position[k] = shards[k].position
}

inline send(k, row, lsn) {
    requests[k] ! token, row, sent_position[k], order_position, lsn, newest_sent;
    sent_position[k] = MAX(sent_position[k], order_position)
}

#ifdef UNCHECKED
#define FOLLOWS(shard) (row == 0 || shard.position >= after)
#else
#define FOLLOWS(shard) (shard.position >= after)
#endif
#ifdef REPORT_AGAIN
#define REPORTS (row == 0)
#else
#define REPORTS (row == 0 && !is_ahead)
#endif
#define THIS shards[_pid]

active [2] proctype Shard() {
    do
    :: atomic { requests[_pid] ? by, row, after, to, lsn, newest ->
        if
        :: by == owner[_pid] && FOLLOWS(THIS) ->
            if :: row > THIS.position -> assert(!(THIS.has & BIT(row))); THIS.has = THIS.has | BIT(row) :: else fi;
            is_ahead = THIS.position > to && lsn < THIS.position;
            THIS.position = MAX(THIS.position, to);
            THIS.read = MAX(THIS.read, lsn);
            if :: _pid == 0 && REPORTS -> THIS.covered = THIS.read; THIS.sent = newest :: else fi
        :: else /* FENCED or BEHIND */
        fi }
    :: atomic { copy(THIS, disks[_pid]) } /* fsync */
    :: atomic { generation[0] + generation[1] < FAULTS -> /* it fails */
        copy(disks[_pid], THIS);
        generation[_pid]++;
        fork[_pid] = MIN(fork[_pid], NEWEST(THIS.has));
        do :: requests[_pid] ? _, _, _, _, _, _ :: empty(requests[_pid]) -> break od }
    od
}

active proctype Feed() {
    atomic {
        for (row : 1 .. ROWS) {
            if
            :: rows[0] = rows[0] | BIT(row)
            :: rows[1] = rows[1] | BIT(row)
#ifdef QUIET
            :: true
#endif
            fi
        }
    }
begin: /* a new feed, which may be of another relay */
    atomic { token++; record_lsn = 0; acquire(0) }
    atomic { acquire(1);
        newest_sent = NEWEST(shards[1].has);
        order_position = MIN(acquired[0], acquired[1]);
        next_row = slot + 1 }
    do
    /* A batch of one row. The shard may have it, if it is sent again. */
    :: atomic { next_row <= ROWS && len(requests[0]) < 2 && len(requests[1]) < 2 ->
        k = (rows[1] >> next_row) & 1;
        if
        :: (rows[0] | rows[1]) & BIT(next_row) ->
            order_position = MAX(order_position, next_row);
            newest_sent = (k == 1 -> MAX(newest_sent, next_row) : newest_sent);
            if :: next_row > acquired[k] -> send(k, next_row, 0) :: else fi
        :: else
        fi;
        send(0, 0, next_row);
        next_row++ }
    /* Both shards record the progress. */
    :: atomic { record_lsn < next_row - 1 && nfull(requests[0]) && nfull(requests[1]) ->
        record_lsn = next_row - 1; send(0, 0, record_lsn); send(1, 0, record_lsn) }
    :: atomic { record_lsn > slot && disks[0].read >= record_lsn && disks[1].read >= record_lsn -> slot = record_lsn }
#ifdef CONFIRM_STORED
    :: atomic { next_row - 1 > slot && empty(requests[0]) && empty(requests[1]) &&
        disks[0].position >= order_position && disks[1].has == shards[1].has -> slot = next_row - 1 }
#endif
    :: atomic { slot > 0 -> assert(!((rows[0] | rows[1]) & UP_TO(slot) & ~(disks[0].has | disks[1].has))) }
    :: token < FEEDS -> break
    od;
    goto begin
}
