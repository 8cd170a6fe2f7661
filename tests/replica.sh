#!/usr/bin/env bash
# replica.sh: runs the tests of a standby, and the decoder's, on a Debian 13 root with PostgreSQL 17.
#
# PostgreSQL before 16 cannot decode on a standby. Where this machine's can, the same tests run in
# the layer tap. In the root the tests run as postgres, as they do outside.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/roots.sh
. tests/roots.sh

inside tests/tools/unprivileged.sh tests/check.sh regress isolation replica
