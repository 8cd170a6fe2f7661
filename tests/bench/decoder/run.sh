#!/usr/bin/env bash
# run.sh: builds the tools of the decoder bench, then runs measure.sh with the same arguments.
# CLAIRON_BENCH_BEFORE=FILE adds the contender clairon-before, another build of clairon.so.
set -euo pipefail
cd "$(dirname "$0")/../../.."
# shellcheck source=relay/tools/lib.sh
. relay/tools/lib.sh

make --no-print-directory -s bench-tools
before=build/bench/root$("$(pg_config_path)" --pkglibdir)/clairon_before.so
if [ -n "${CLAIRON_BENCH_BEFORE:-}" ]; then
    install -m 755 "$CLAIRON_BENCH_BEFORE" "$before"
else
    rm -f "$before"
fi
exec tests/tools/unprivileged.sh tests/bench/decoder/measure.sh "$@"
