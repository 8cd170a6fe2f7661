#!/usr/bin/env bash
# as_root.sh: runs the test scripts that need root, in parallel, for tests/run.sh.
#
#   tests/as_root.sh FOLDER [root] [replica] [packages] [operations] [images] [release]
#
# FOLDER/NAME.log is the output of tests/NAME.sh, complete when FOLDER/NAME.ended exists. All scripts stop when
# FOLDER/stop exists or the caller has exited. Without root or passwordless sudo, the tests are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/roots.sh
. tests/roots.sh
# shellcheck source=tests/bounded.sh
. tests/bounded.sh

folder=$1
shift
requested=" $* "

is_requested() { [[ $requested == *" $1 "* ]]; }

# run LOG COMMAND..: runs COMMAND for at most 70 minutes; measures it if TIMES is set.
run() {
    local log=$1 measured=()
    shift
    [ -z "${TIMES:-}" ] || measured=(tests/measure.pl "$log.times")
    bounded 4200 "${measured[@]}" "$@" >"$log" 2>&1
}

start() {
    is_requested "$1" || return 0
    {
        run "$folder/$1.log" "tests/$1.sh" || print_line "not ok - tests/$1.sh ended with status $?" >>"$folder/$1.log"
        touch "$folder/$1.ended"
    } 9>&- &
    echo $! >>"$folder/jobs"
}

# prepare STEP NAME..: calls a function of tests/roots.sh. If it fails, the requested scripts among NAME.. fail.
prepare() {
    local step=$1 name status=0
    shift
    run "$folder/$step.log" "$0" "$folder" --step "$step" 9>&- || status=$?
    [ "$status" != 0 ] || return 0
    for name in "$@"; do
        { cat "$folder/$step.log"; print_line "not ok - $name: $step below $roots ended with status $status"; } >"$folder/$name.log"
        touch "$folder/$name.ended"
    done
    return 1
}

# Builds shared roots once; other tests run at the same time.
run_all() {
    start root
    if is_requested replica || is_requested packages || is_requested operations || is_requested images || is_requested release; then
        mkdir -p "$roots"
        exec 9>"$roots/lock"
        flock -n 9 || { print_line "another run uses $roots, waiting"; flock 9; }
        run_in_roots
    fi
    wait
}

run_in_roots() {
    if is_requested replica || is_requested packages || is_requested operations; then
        prepare build_root replica packages operations || return 0
    fi
    start images
    start release
    start replica
    start packages
    start operations
}

# The shell of each process group stops its command.
stop_all() {
    local job
    trap '' TERM
    kill -s TERM 0
    for job in "$work" $(cat "$folder/jobs" 2>/dev/null); do
        while kill -0 "$job" 2>/dev/null; do
            sleep 0.1
        done
    done
    exit 1
}

if [ "${1:-}" = --step ]; then
    "$2"
    exit
fi
if [ "$(id -u)" != 0 ]; then
    if sudo -n true 2>/dev/null; then
        exec sudo -n CLAIRON_ROOTS="$roots" CLAIRON_LONG="${CLAIRON_LONG:-}" TIMES="${TIMES:-}" "$0" "$folder" "$@"
    fi
    for name in "$@"; do
        print_line "1..0 # SKIP $name: needs root: sudo make check-$name" >"$folder/$name.log"
        touch "$folder/$name.ended"
    done
    exit
fi
run_all &
work=$!
while kill -0 "$work" 2>/dev/null; do
    if [ -e "$folder/stop" ] || [ ! -d "/proc/$PPID" ]; then
        stop_all
    fi
    pause "$folder/pause" 0.3
done
