#!/usr/bin/env bash
# run.sh: checks the models with spin: the model holds, and each variant without one of its rules fails.
#
#   tests/model/run.sh [folder for the generated programs]
#
# Prints TAP.
set -uo pipefail
cd "$(dirname "$0")" || exit 1
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
count=0 status=0

# check EXPECTED DESCRIPTION FILE [OPTION..]: EXPECTED is "holds" or "fails".
check() {
    local expected=$1 what=$2 file=$PWD/$3 result
    shift 3
    count=$((count + 1))
    # -E: processes end in any state. Without partial order reduction, which an assertion over all variables prevents.
    result=$(cd "$folder" && spin -a "$@" "$file" && gcc -O2 -w -DSAFETY -DCOLLAPSE -DMEMLIM=1024 -o pan pan.c && ./pan -E -m200000 2>&1)
    case $result in
        *"errors: 0"*) result=holds ;;
        *"assertion violated"*) result=fails ;;
        *) sed 's/^/# /' <<<"$result"; result="not checked" ;;
    esac
    if [ "$result" = "$expected" ]; then
        echo "ok $count - $what"
    else
        echo "not ok $count - $what: $result, expected: $expected"
        status=1
    fi
}

check holds "a client receives each entry or a gap over a failover" failover.pml
check fails "without generations, it misses an entry" failover.pml -DFORMER_RULE
check fails "if a cursor is not limited to the end of its generation, it misses an entry" failover.pml -DNO_CLAMP
check fails "if a page of another server counts, it misses an entry" failover.pml -DANY_PAGE
echo "1..$count"
exit "$status"
