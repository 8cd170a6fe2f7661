#!/usr/bin/env bash
# replica.sh: runs the tests of a standby, and the decoder's, on a Debian 13 root with PostgreSQL 17.
#
#   tests/replica.sh           makes the root below build/roots, builds there, and runs
#   tests/replica.sh layer     prints the layer that tests/check.sh is to count: "replica", or nothing
#
# PostgreSQL before 16 cannot decode on a standby. Where this machine's can, the same tests run in
# the layer tap, and there is nothing to do. Root makes the root and goes into it; in there the
# tests run as postgres, as they do outside.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/roots.sh
. tests/roots.sh

run_tests() {
    build_root && say "# clairon is built there" &&
        inside make -s -j"$(nproc)" build/clairon build/strict_lines private-root &&
        inside docker/unprivileged.sh tests/check.sh regress isolation replica && return
    say "not ok - the tests of a standby, on Debian 13"
}

case ${1:-} in
    layer) [ "$(pg_major)" -ge 16 ] || echo replica ;;
    '') [ "$(pg_major)" -ge 16 ] || record replica "the tests of a standby" run_tests ;;
    *) die "usage: replica.sh [layer]" ;;
esac
