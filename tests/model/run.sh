#!/usr/bin/env bash
# run.sh: checks the models with spin: the model holds, and each variant without one of its rules fails.
#
#   tests/model/run.sh FOLDER     FOLDER: for the generated programs
#
# Prints TAP. CLAIRON_LONG=1: with more ids and rounds.
set -uo pipefail
folder=$1
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$(dirname "$0")" || exit 1
count=0 status=0

# check EXPECTED DESCRIPTION FILE [OPTION..]: EXPECTED is "holds" or "fails".
check() {
    local expected=$1 what=$2 file=$PWD/$3 result
    shift 3
    count=$((count + 1))
    # -E: processes may end in any state. A search that exceeds -m or MEMLIM neither holds nor fails.
    result=$(cd "$folder" && spin -a "$@" "$file" && ${CC:-cc} -O2 -w -DSAFETY -DCOLLAPSE -DMEMLIM=4096 -o pan pan.c && ./pan -E -m200000 2>&1)
    case $result in
        *"assertion violated"*) result=fails ;;
        *"Search not completed"* | *"search depth too small"*) printf '%s\n' "$result" && result="not completed" ;;
        *"errors: 0"*) result=holds ;;
        *) printf '%s\n' "$result" && result="not checked" ;;
    esac
    if [ "$result" = "$expected" ]; then
        echo "ok $count - $what"
    else
        echo "not ok $count - $what: $result, expected: $expected"
        status=1
    fi
}

check holds "a client receives each entry or a gap over a failover" failover.pml ${CLAIRON_LONG:+-DIDS=4}
check fails "without generations, it misses an entry" failover.pml -DFORMER_RULE
check fails "if a cursor is not limited to the end of its generation, it misses an entry" failover.pml -DNO_LIMIT
check fails "if a page of another server counts, it misses an entry" failover.pml -DANY_PAGE

check holds "each pair and each notification have one outcome" pairs.pml ${CLAIRON_LONG:+-DLIMIT=3}
check fails "if an ack takes two steps, a pair has two outcomes" pairs.pml -DTWO_STEPS
check fails "if dead-lettered users are not marked, a repeated report opens their pair again" pairs.pml -DNO_MARK
check fails "if a report does not name the attempt, a late one counts a retry that was not delivered yet" pairs.pml -DNO_ATTEMPT

check holds "so they have in each round of a redriven pair, and no escalation after its end" redrives.pml ${CLAIRON_LONG:+-DLIMIT=2 -DROUNDS=4}
check fails "if a redrive keeps the entry of the error log, a repeated redrive opens a pair that was acknowledged" redrives.pml -DKEEP_ERROR
check fails "if the escalation of all users includes redriven ones, they have two" redrives.pml -DALL_ROUNDS

check holds "rows are stored once and on disk when they are confirmed, although a shard records the progress late" progress.pml ${CLAIRON_LONG:+-DROWS=3 -DQUIET -DFAULTS=2}
check fails "if rows are confirmed before a shard has recorded that, the slot starts beyond its progress" progress.pml -DCONFIRM_STORED
check fails "if the progress follows no batch, a row that a shard lost is confirmed" progress.pml -DUNCHECKED

check holds "WAL is covered when its rows are read" cover.pml ${CLAIRON_LONG:+-DQUIET -DFAULTS=2}
check fails "if a shard is covered without its newest row, a barrier is early" cover.pml -DNO_SENT
check fails "so it is if shard 0 reports again what it reported before" cover.pml -DREPORT_AGAIN
check fails "so it is if what was read before a failover counts" cover.pml -DFORMER_READS

check holds "an end follows all notifications of its transaction" ends.pml ${CLAIRON_LONG:+-DIDS=3 -DCONNECTIONS=2}
check holds "so it does with more notifications, without a resume" ends.pml -DIDS=3 -DCONNECTIONS=1
check fails "if an end does not wait for deferred notifications, it is early" ends.pml -DVARIANT=NO_REST
check fails "if a new session does not expect a part of its first transaction in the pending list, the end is early" ends.pml -DVARIANT=NO_STRADDLING
check fails "so it is if a session that resumes does not expect it" ends.pml -DVARIANT=ONLY_NEW_STRADDLES
check fails "if a covered position ends the transaction that commits there, its end is early" ends.pml -DVARIANT=COVERED_EQUAL
check fails "if no cursor names open transactions, an end is missing" ends.pml -DVARIANT=NO_MARK
check fails "if only cursors of the pending list and of ends name them, an end is missing" ends.pml -DVARIANT=PLAIN_CURSORS

check holds "so it does if a shard is behind the other, and on a relay that has just started" overtakes.pml ${CLAIRON_LONG:+-DIDS=3}
check fails "if a notification that did not wait for the other shard is like any other, an end is early" overtakes.pml -DVARIANT=NO_EARLY
check fails "so it is if a relay does not know that it starts at different positions" overtakes.pml -DVARIANT=NO_START
check fails "so it is if a session does not know of a failover" overtakes.pml -DVARIANT=NO_HISTORY
check fails "so it is if it does not know what its relay had not offered before" overtakes.pml -DVARIANT=ONLY_OFFERED

check holds "the reply to a barrier follows all notifications of the transactions before it" barriers.pml ${CLAIRON_LONG:+-DIDS=3 -DCONNECTIONS=2}
check fails "if a barrier does not wait for the streams, its reply is early" barriers.pml -DVARIANT=AT_STORED
check fails "so it is if a barrier waits only for the cursor" barriers.pml -DVARIANT=AT_CURSOR
check fails "so it is if a barrier does not wait for the rest of the pending list" barriers.pml -DVARIANT=IGNORES_DUE
check fails "so it is if a barrier does not wait for deferred notifications that are read from the stream" barriers.pml -DVARIANT=IGNORES_DEFERRAL
check fails "so it is if the session takes the end of what its relay has read for the cursor of its client" barriers.pml -DSKIP_UNREAD
echo "1..$count"
exit "$status"
