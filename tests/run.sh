#!/usr/bin/env bash
# run.sh: runs layers of tests, those that need root beside those that PostgreSQL's own user runs.
#
#   tests/run.sh [--make GOAL] LAYER..      the layers of tests/check.sh; GOAL is built first
#
# tests/as_root.sh writes what the scripts that need root print to a folder, whose files tests/check.sh counts.
# Both have a session of their own: Ctrl-C reaches this script alone, which ends them and then itself.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=docker/lib.sh
. docker/lib.sh

goal=''
if [ "${1:-}" = --make ]; then
    goal=$2
    shift 2
fi
layers=() rooted=()
for layer in "$@"; do
    # On a server of version 16 or later these tests are part of the layer tap.
    if [ "$layer" = replica ] && [ "$(pg_major)" -ge 16 ]; then
        [ $# -gt 1 ] || layers+=(replica)
        continue
    fi
    case $layer in
        root | replica | packages | operations | images) rooted+=("$layer") ;;
    esac
    layers+=("$layer")
done

# Ends what still runs. The folder's file "stop" reaches scripts that sudo started.
finish() {
    trap '' INT TERM HUP
    touch "$CLAIRON_RECORDED/stop"
    wait
    rm -rf "$CLAIRON_RECORDED"
}

# interrupted SIGNAL: so are the tests, and in the end this script.
# shellcheck disable=SC2317 # a trap calls it
interrupted() {
    [ -z "$checks" ] || kill -s "$1" "$checks" 2>/dev/null || true
    finish
    trap - "$1"
    kill -s "$1" $$
}

# A layer whose script was killed waits for no result.
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
    # shellcheck disable=SC2064 # the value of now
    trap "interrupted $signal" "$signal"
done
[ ${#rooted[@]} = 0 ] || run_as_root &
if [ -n "$goal" ]; then
    measured=()
    [ -z "${TIMES:-}" ] || measured=(python3 tests/measure.py "$CLAIRON_RECORDED/build.log.times")
    "${measured[@]}" env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make --no-print-directory "$goal" ||
        say "the build failed; what could be built is checked"
fi
export CLAIRON_SECONDS=$SECONDS
# The shell starts a background command with SIGINT ignored, which the command cannot undo in bash.
env --default-signal=INT setsid tests/tools/unprivileged.sh tests/check.sh "${layers[@]}" </dev/null &
checks=$!
status=0
wait "$checks" || status=$?
finish
exit "$status"
