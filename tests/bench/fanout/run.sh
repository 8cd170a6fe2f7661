#!/usr/bin/env bash
# run.sh: builds the load client and the floor, and measures the fan-out of messages to many
# clients. Called by tests/bench/run.sh, at the top of the checkout, with its environment.
set -euo pipefail
# shellcheck source=tests/env.sh
. tests/env.sh

out=$CLAIRON_WORK/bench
built=$CLAIRON_WORK/fanout
folder=tests/bench/fanout
mkdir -p "$out" "$built"
flags=(-std=gnu11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Werror -I.)
mapfile -t libraries < <(pkg-config --cflags --libs hiredis openssl | tr ' ' '\n' | grep .)
${CC:-cc} "${flags[@]}" -o "$built/load" "$folder"/{load,ws,publish}.c "${libraries[@]}"
${CC:-cc} "${flags[@]}" -o "$built/floor" "$folder/floor.c" "${libraries[@]}"
[ ! -d build/peers/node_modules ] || ln -sfn "$PWD/build/peers/node_modules" "$built/node_modules"

export FANOUT_BUILT=$built TESTDIR=$out TESTDATADIR=$out/fanout TESTLOGDIR=$out/fanout-log
export PG_TEST_TIMEOUT_DEFAULT=300

# Runs one Perl file and prints its figures.
measure() {
    local log=$out/$1.log status=0
    perl -I tests/perl -I tests/bench -I "$PG_PERL" "$folder/$1.pl" 2>&1 | tee "$log" | sed -un 's/^# bench: //p' || status=$?
    if [ "$status" != 0 ] || ! grep -q '^1\.\.' "$log" || grep -q '^not ok' "$log"; then
        tail -n 30 "$log" >&2
        die "the benchmark failed; its log is $log"
    fi
}
measure fanout
[[ ${FANOUT_PARTS:-acks} != *acks* ]] || measure acks
[[ ${FANOUT_PARTS:-receipts} != *receipts* ]] || measure receipts
