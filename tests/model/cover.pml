/*
 * cover.pml: progress.pml with a relay that reads both shards, for spin: what it takes as covered WAL.
 *
 * The relay reads the rows of shard 1, and what shard 0 reports, at any moment. After a failure of shard 1 it continues
 * from the fork. Its session reads pages of shard 1, up to where the relay has read.
 *
 * The assertions are those of progress.pml; and when the relay takes shard 1 as covered up to a row, a session that has
 * read as far as the relay has all rows of shard 1 up to that row.
 *
 * The names are those of relay/store/read/cover.c and order.c.
 *
 *   -DNO_SENT          shard 1 is covered as far as shard 0
 *   -DREPORT_AGAIN     shard 0 reports the newest row of shard 1 although it is ahead of the feed
 *   -DFORMER_READS     what the relay has read before shard 1 failed counts
 */
#include "progress.pml"

byte at, delivered_since, reported; /* of shard 1 */
byte shared_covered, shared_sent;   /* the newest report of shard 0 */
byte followed;                      /* the generation of shard 1 that the relay reads */
byte cursor, received;              /* of the session: its position, and the set of rows that it has */

#ifdef NO_SENT
#define HAS_SENT true
#else
#define HAS_SENT (delivered_since >= shared_sent || reported >= shared_sent)
#endif

active proctype Relay() {
    do
    :: atomic { shared_covered = shards[0].covered; shared_sent = shards[0].sent }
    /* XREAD of shard 1: the next row, or the shard's own entry of covered.lua behind the rows. */
    :: atomic { followed == generation[1] ->
        if
        :: shards[1].has & ~UP_TO(at) ->
            at++;
            do :: shards[1].has & BIT(at) -> break :: else -> at++ od;
            delivered_since = MAX(delivered_since, at)
        :: else -> reported = MAX(reported, shards[1].read)
        fi }
    /* cover_report_shared */
    :: atomic { reported < shared_covered && HAS_SENT -> reported = shared_covered }
    /* begin_history: the connection follows the failover. */
    :: atomic { followed < generation[1] ->
        followed = generation[1];
        at = MIN(at, fork[1]); cursor = MIN(cursor, fork[1]); fork[1] = ROWS;
#ifndef FORMER_READS
        delivered_since = 0;
#endif
        reported = 0 }
    /* The session. */
    :: atomic { followed == generation[1] && cursor < at ->
        cursor++;
        received = received | (shards[1].has & BIT(cursor)) }
    :: atomic { cursor == at -> assert(!(rows[1] & UP_TO(reported) & ~received)) }
    od
}
