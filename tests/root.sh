#!/usr/bin/env bash
# root.sh: tests that root can run the demo and the tests as another user, also from a checkout that this user cannot
# read.
#
# Uses a small checkout in a private directory of root, with a demo that only waits.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/roots.sh
. tests/roots.sh

is() { [ "$1" = "$2" ] || { print_line "got: $1, expected: $2"; false; }; }
unprivileged() { "$hidden/clairon/tests/tools/unprivileged.sh" "$@"; }

# The demo prints its working directory, and at its end the content of a file.
make_checkout() {
    hidden=$(mktemp -d)
    mkdir -p "$hidden/clairon/docker" "$hidden/clairon/relay/tools" "$hidden/clairon/tests/tools"
    cp relay/tools/lib.sh "$hidden/clairon/relay/tools/"
    cp tests/tools/unprivileged.sh "$hidden/clairon/tests/tools/"
    echo first >"$hidden/clairon/content"
    cat >"$hidden/clairon/docker/demo.sh" <<'END'
#!/bin/bash
mkdir -p .demo
exec 9>>.demo/lock
flock -n 9 || { echo "a demo is already running" >&2; exit 1; }
pwd >.demo/directory
echo started
for ((i = 0; i < 9000; i++)); do [ ! -e .demo/stop ] || break; sleep 0.1; done
cat content
END
    chmod 755 "$hidden/clairon/docker/demo.sh"
}

# start NAME COMMAND..: runs COMMAND in the background with its output in a file of that name.
start() {
    local name=$1
    shift
    unprivileged "$@" >"$hidden/$name" 2>&1 7>&- &
    pids+=($!)
}

copy_of() { sed -n 's/.* in a copy, \(.*\);.*/\1/p' "$hidden/$1"; }
output_has() { grep -q "$2" "$hidden/$1"; }

second_demo_fails() {
    ! unprivileged docker/demo.sh >"$hidden/second" 2>&1 && output_has second "is already running"
}

check_copies() {
    start demo docker/demo.sh
    ok "the demo starts in a copy of a checkout that its user cannot read" wait_for output_has demo '^started$'
    ok "the demo reports that it ignores later edits" output_has demo "edits have no effect until the next start"
    echo second >"$hidden/clairon/content"
    ok "a second demo fails with a message" second_demo_fails
    # shellcheck disable=SC2016
    start tests bash -c 'echo begun; for ((i = 0; i < 9000; i++)); do [ ! -e stop ] || break; sleep 0.1; done; cat content'
    ok "tests run at the same time as the demo" wait_for output_has tests '^begun$'
    echo third >"$hidden/clairon/content"
    start more bash -c 'cat content'
    ok "a second run of tests waits for the first" wait_for output_has more "another run uses"
    touch "$(copy_of tests)/stop" "$(copy_of demo)/.demo/stop"
    wait "${pids[@]}"
    ok "running tests keep their copy of the files" is "$(tail -n 1 "$hidden/tests")" second
    ok "the next test run sees the edits" is "$(tail -n 1 "$hidden/more")" third
    ok "the demo keeps its copy of the files" is "$(tail -n 1 "$hidden/demo")" first
}

check_readable() {
    chmod 755 "$hidden"
    chmod -R go+rX "$hidden/clairon"
    ok "a checkout that its user can read is used in place" is "$(unprivileged pwd)" "$hidden/clairon"
    mkdir -p "$hidden/clairon/build/work/log"
    touch "$hidden/clairon/build/work/log/of-root"
    ok "files of another user are given to the new user" unprivileged test -O build/work/log/of-root
}

clean_up() {
    local name
    for name in demo tests; do
        [ -z "$(copy_of "$name" 2>/dev/null)" ] || rm -rf "$(copy_of "$name")"
    done
    rm -rf "$hidden"
}

run_tests() {
    pids=()
    make_checkout
    trap clean_up EXIT
    check_copies
    check_readable
    print_line "1..$test_count"
}

run_tests
