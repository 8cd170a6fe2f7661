#!/usr/bin/env bash
# replica.sh: runs the tests of a standby, and the decoder's, on a Debian 13 root with PostgreSQL 17.
#
#   tests/replica.sh           makes the root below build/roots, builds there, and runs
#   tests/replica.sh layer     prints the layer that tests/check.sh is to count: "replica", or nothing
#
# PostgreSQL before 16 cannot decode on a standby. Where this machine's can, the same tests run in
# the layer tap, and there is nothing to do. Root makes the root and goes into it; in there the
# tests run as postgres, as they do outside. What they print is kept for the layer replica.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=docker/lib.sh
. docker/lib.sh

roots=${CLAIRON_ROOTS:-build/roots}
root=$roots/replica
record=build/replica.log
place=/var/tmp/clairon

# What the relay, the plugin and their tests ask for, on Debian 13. Of the server's headers nothing
# else is needed: what they depend on is LLVM.
packages=(postgresql-17 postgresql-server-dev-17/unpacked gcc make pkg-config libc6-dev libpq-dev
    libhiredis-dev libev-dev libwebsockets-dev libwebsockets-evlib-ev libjwt-dev libinih-dev
    libjansson-dev uthash-dev valkey-server python3-minimal
    libipc-run-perl libmojolicious-perl libjson-perl libio-socket-ssl-perl)

inside() {
    docker/debian-root.sh run "$root" env -C "$place" PG_MAJOR=17 HOME=/root "$@"
}

# What was built there before stays, and is built again where its source is newer.
take_sources() {
    docker/debian-root.sh run "$root" mkdir -p "$place"
    docker/debian-root.sh run "$root" find "$place" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
    tar -c --exclude=./.git --exclude=./.demo --exclude=./build --exclude=node_modules \
        --exclude='*.o' --exclude='*.so' --exclude='./decoder/clairon--*' . |
        tar -x --no-same-owner -C "$root$place"
    chmod -R a+rX "$root$place"
}

# The tests' output, and a failure for whatever kept them from running.
run_tests() {
    say "# Debian 13 with PostgreSQL 17, below $root"
    docker/debian-root.sh make "$root" "${packages[@]}" &&
        take_sources &&
        inside make -s build/clairon build/strict_lines private-root &&
        inside docker/unprivileged.sh tests/check.sh regress isolation replica && return
    say "not ok - the replica suite, on Debian 13"
}

case ${1:-} in
    layer)
        [ "$(pg_major)" -ge 16 ] || echo replica
        exit
        ;;
    '') ;;
    *) die "usage: replica.sh [layer]" ;;
esac
[ "$(pg_major)" -lt 16 ] || exit 0
mkdir -p build
rm -f "$record"
if [ "$(id -u)" != 0 ] && sudo -n true 2>/dev/null; then
    exec sudo -n CLAIRON_ROOTS="$roots" tests/replica.sh
elif [ "$(id -u)" != 0 ]; then
    say "1..0 # SKIP the replica suite makes a Debian 13 root, which takes root: sudo tests/replica.sh" >"$record"
else
    mkdir -p "$roots"
    exec 9>"$roots/lock"
    flock 9
    say "the tests of a standby run on Debian 13, which takes some minutes: $record.new"
    run_tests 9>&- >"$record.new" 2>&1
    mv "$record.new" "$record"
fi
