#!/usr/bin/env bash
# run.sh: runs test layers: in parallel, the layers that need root and the layers that run as the user postgres.
#
#   tests/run.sh [--make GOAL] LAYER..      the layers of tests/check.sh; GOAL is built first
#
# tests/as_root.sh writes the output of the scripts that need root to files, and tests/check.sh counts them.
# Both run in separate sessions: Ctrl-C reaches only this script, which stops them and then exits.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=relay/tools/lib.sh
. relay/tools/lib.sh

goal=''
if [ "${1:-}" = --make ]; then
    goal=$2
    shift 2
fi
layers=() rooted=()
for layer in "$@"; do
    # With PostgreSQL 16 and later these tests are part of the layer tap.
    if [ "$layer" = replica ] && [ "$(pg_major)" -ge 16 ]; then
        [ $# -gt 1 ] || layers+=(replica)
        continue
    fi
    case $layer in
        root | replica | packages | operations | images | release) rooted+=("$layer") ;;
    esac
    layers+=("$layer")
done

# Stops running scripts. The file "stop" is for scripts started by sudo, which cannot be signalled.
finish() {
    trap '' INT TERM HUP
    touch "$CLAIRON_RECORDED/stop"
    wait
    rm -rf "$CLAIRON_RECORDED"
}

# interrupted SIGNAL: interrupts the tests, then ends with the same signal.
# shellcheck disable=SC2317 # a trap calls it
interrupted() {
    [ -z "$checks" ] || kill -s "$1" "$checks" 2>/dev/null || true
    finish
    trap - "$1"
    kill -s "$1" $$
}

# The file "ended" stops layers that wait for a killed script.
run_as_root() {
    trap '' INT
    setsid -w tests/as_root.sh "$CLAIRON_RECORDED" "${rooted[@]}" </dev/null || true
    touch "$CLAIRON_RECORDED/ended"
}

checks=''
CLAIRON_RECORDED=$(mktemp -d /tmp/clairon-recorded-XXXXXX)
export CLAIRON_RECORDED
chmod 755 "$CLAIRON_RECORDED"
for signal in INT TERM HUP; do
    # shellcheck disable=SC2064 # expand now
    trap "interrupted $signal" "$signal"
done
[ ${#rooted[@]} = 0 ] || run_as_root &
if [ -n "$goal" ]; then
    measured=()
    [ -z "${TIMES:-}" ] || measured=(tests/measure.pl "$CLAIRON_RECORDED/build.log.times")
    "${measured[@]}" env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make --no-print-directory "$goal" ||
        print_line "the build failed; testing the parts that were built"
fi
export CLAIRON_SECONDS=$SECONDS
# A shell starts background commands with SIGINT ignored, and bash cannot reset an ignored signal.
env --default-signal=INT setsid tests/tools/unprivileged.sh tests/check.sh "${layers[@]}" </dev/null &
checks=$!
status=0
wait "$checks" || status=$?
finish
exit "$status"
