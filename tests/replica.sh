#!/usr/bin/env bash
# replica.sh: runs the tests of standby, decoder and TLS to the store in a Debian 13 root with PostgreSQL 17, and
# make lint-fast with the tools of Debian 13.
#
# PostgreSQL before 16 cannot decode on a standby, and hiredis before 1.0 has no TLS. On newer ones the same tests run in
# the layer tap. In the root, the tests also run as postgres.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/roots.sh
. tests/roots.sh

# The rules read the list of files from a repository.
lint() { inside sh -c 'rm -rf .git && git init -q . && git add -A && make -s lint-fast'; }
# shellcheck disable=SC2317 # called by ok
show_lint() { cat "$log" && rm "$log" && return "$lint_status"; }

log=$(mktemp)
status=0 lint_status=0
lint >"$log" 2>&1 &
inside tests/tools/unprivileged.sh tests/check.sh regress isolation replica || status=$?
wait $! || lint_status=$?
ok "the tools of Debian 13 find nothing (make lint-fast)" show_lint
exit "$status"
