#!/usr/bin/env bash
# run.sh: runs the benchmarks on private servers, prints their figures and then their targets.
# Called by `make bench`, through tests/tools/unprivileged.sh. BENCH=full runs all benches at full
# size.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/env.sh
. tests/env.sh

out=$CLAIRON_WORK/bench
rm -rf "$out"
mkdir -p "$out"
export BENCH=${BENCH:-} BENCH_TARGETS=$out/targets
: >"$BENCH_TARGETS"
began=$SECONDS
export TESTDIR=$out TESTDATADIR=$out/data TESTLOGDIR=$out/log PG_TEST_TIMEOUT_DEFAULT=300
for bench in ingest standby herd restart sessions relays primaries; do
    status=0
    perl -I tests/perl -I tests/bench -I "$PG_PERL" "tests/bench/$bench.pl" >"$out/$bench.log" 2>&1 || status=$?
    sed -n 's/^# bench: //p; s/^1\.\.0 # SKIP /'"$bench"': /p' "$out/$bench.log"
    if [ "$status" != 0 ]; then
        tail -n 30 "$out/$bench.log" >&2
        die "the benchmark failed; its log is $out/$bench.log"
    fi
done
# At full size, spilling takes as long as all other workloads together.
[ "$BENCH" = full ] || export CLAIRON_BENCH_SPILL=${CLAIRON_BENCH_SPILL:-0.2}
tests/bench/decoder/measure.sh
tests/bench/fanout/run.sh
perl tests/bench/targets.pl "$BENCH_TARGETS"
print_line "measured in $(((SECONDS - began) / 60)) minutes"
