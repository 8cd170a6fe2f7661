#!/usr/bin/env bash
# replica.sh: runs the tests of standby, decoder and TLS to the store in a Debian 13 root with PostgreSQL 17.
#
# PostgreSQL before 16 cannot decode on a standby, and hiredis before 1.0 has no TLS. On newer ones the same tests run in
# the layer tap. In the root, the tests also run as postgres.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/roots.sh
. tests/roots.sh

inside tests/tools/unprivileged.sh tests/check.sh regress isolation replica
