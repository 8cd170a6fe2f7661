# shellcheck shell=bash
# env.sh: the environment of the tests: the private PostgreSQL first in PATH, scratch files in CLAIRON_WORK.
# Sourced from the top of the checkout.

# shellcheck source=relay/tools/lib.sh
. relay/tools/lib.sh

CLAIRON_TOP=$(top_dir)
CLAIRON_WORK=${CLAIRON_WORK:-$CLAIRON_TOP/build/work}
CLAIRON_ROOT=$CLAIRON_TOP/build/root
STORE_SERVER=$(store_server)
export CLAIRON_TOP CLAIRON_WORK CLAIRON_ROOT STORE_SERVER
export PATH="$CLAIRON_ROOT/bin:$PATH" LC_ALL=C.UTF-8 TZ=UTC PGCTLTIMEOUT=${PGCTLTIMEOUT:-180}
# A make started by a test is independent of the make that runs the tests.
unset MAKEFLAGS MFLAGS MAKELEVEL
unset PGHOST PGPORT PGUSER PGDATABASE PGSERVICE PGOPTIONS PGDATA

pgxs=$(dirname "$("$(pg_config_path)" --pgxs)")/..
PG_REGRESS=$(realpath -m "$pgxs/test/regress/pg_regress")
PG_ISOLATION=$(realpath -m "$pgxs/test/isolation/pg_isolation_regress")
PG_PERL=$(realpath -m "$pgxs/test/perl")
export PG_REGRESS PG_ISOLATION PG_PERL
