#!/usr/bin/env bash
# run.sh: runs the soak test for SECONDS, ten minutes by default, in the environment of the tests.
set -euo pipefail
cd "$(dirname "$0")/../.."
# bash uses the variable SECONDS, so the caller's value is passed as the first argument.
seconds=${1:-600}
# shellcheck source=tests/env.sh
. tests/env.sh
# shellcheck source=tests/bounded.sh
. tests/bounded.sh
rm -rf "$CLAIRON_WORK/soak" && mkdir -p "$CLAIRON_WORK/soak"
TESTDIR=$CLAIRON_WORK/soak TESTDATADIR=$CLAIRON_WORK/soak/data TESTLOGDIR=$CLAIRON_WORK/soak/log \
    PG_TEST_TIMEOUT_DEFAULT=120 bounded $((seconds + 600)) env SECONDS="$seconds" \
    prove --verbose -I tests/perl -I "$PG_PERL" tests/soak/soak.pl
