#!/usr/bin/env bash
# run.sh: runs each fuzz target for some seconds, from the committed corpus and earlier findings.
#
#   tests/fuzz/run.sh SECONDS PROGRAM..
#
# All programs run even if one fails. `tests/fuzz/run.sh --merge PROGRAM..` adds the minimized findings to the
# committed corpus.
set -euo pipefail
cd "$(dirname "$0")/../.."

status=0
seconds=$1
shift
for program in "$@"; do
    name=${program##*/}
    committed=tests/fuzz/corpus/${name#fuzz_}
    found=build/fuzz/corpus/${name#fuzz_}
    mkdir -p "$committed" "$found"
    options=(-max_len=2000 -timeout=10 -artifact_prefix="build/fuzz/$name-" -print_final_stats=1)
    if [ "$seconds" = --merge ]; then
        "$program" -merge=1 -use_counters=0 "${options[@]}" "$committed" "$found" 2>&1 | tail -1
        continue
    fi
    echo "---- $name, $seconds s"
    if "$program" "${options[@]}" -max_total_time="$seconds" "$found" "$committed" >"build/fuzz/$name.log" 2>&1; then
        grep -E 'number_of_executed_units|new_units_added' "build/fuzz/$name.log"
    else
        tail -40 "build/fuzz/$name.log"
        echo "not ok - $name: build/fuzz/$name.log"
        status=1
    fi
done
exit "$status"
