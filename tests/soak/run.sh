#!/usr/bin/env bash
# run.sh: runs the soak test for SECONDS, ten minutes if not said otherwise, with the tests' surroundings.
set -euo pipefail
cd "$(dirname "$0")/../.."
# SECONDS counts for bash itself: what the caller said is in the first argument.
seconds=${1:-600}
# shellcheck source=tests/env.sh
. tests/env.sh
rm -rf "$CLAIRON_WORK/soak" && mkdir -p "$CLAIRON_WORK/soak"
TESTDIR=$CLAIRON_WORK/soak TESTDATADIR=$CLAIRON_WORK/soak/data TESTLOGDIR=$CLAIRON_WORK/soak/log \
    PG_TEST_TIMEOUT_DEFAULT=120 exec env SECONDS="$seconds" timeout --kill-after=15 $((seconds + 600)) \
    prove --verbose -I tests/perl -I "$PG_PERL" tests/soak/soak.pl
