#!/usr/bin/env bash
# run.sh: checks the models with spin: the model holds, and each variant without one of its rules fails.
#
#   tests/model/run.sh FOLDER     FOLDER: for the generated programs
#
# Prints TAP. CLAIRON_LONG=1: with more ids.
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
    result=$(cd "$folder" && spin -a "$@" "$file" && ${CC:-cc} -O2 -w -DSAFETY -DCOLLAPSE -DMEMLIM=4096 -o pan pan.c && ./pan -E -m20000 2>&1)
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
check fails "if a cursor is not limited to the end of its generation, it misses an entry" failover.pml -DNO_CLAMP
check fails "if a page of another server counts, it misses an entry" failover.pml -DANY_PAGE
echo "1..$count"
exit "$status"
