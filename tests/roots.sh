# shellcheck shell=bash
# roots.sh: what the tests share that run in a Debian root of their own. Sourced from the top of the checkout.

# shellcheck source=docker/lib.sh
. docker/lib.sh
# shellcheck source=tests/bounded.sh
. tests/bounded.sh

roots=${CLAIRON_ROOTS:-build/roots}
root=$roots/replica      # PostgreSQL 17, and what clairon is built with
place=/var/tmp/clairon   # the checkout in there
taken=0

# What the relay, the plugin, their packages and tests ask for, on Debian 13. Of the server's headers
# nothing else is needed: what they depend on is LLVM.
packages=(postgresql-17 postgresql-server-dev-17/unpacked gcc make pkg-config libc6-dev libpq-dev
    libhiredis-dev libev-dev libwebsockets-dev libwebsockets-evlib-ev libjwt-dev libinih-dev
    libjansson-dev uthash-dev valkey-server python3-minimal dpkg-dev debhelper
    libipc-run-perl libmojolicious-perl libjson-perl libio-socket-ssl-perl)

# record NAME TITLE FUNCTION: what FUNCTION prints, as root, goes to build/NAME.log, which the layer
# NAME of tests/check.sh counts. Without root it is a test that was skipped.
record() {
    local log=build/$1.log
    mkdir -p build
    rm -f "$log"
    if [ "$(id -u)" != 0 ] && sudo -n true 2>/dev/null; then
        exec sudo -n CLAIRON_ROOTS="$roots" "$0"
    elif [ "$(id -u)" != 0 ]; then
        say "1..0 # SKIP $2: makes a Debian 13 root, which takes root: sudo $0" >"$log"
        return
    fi
    # A run past the limit, or interrupted, leaves no log to be counted.
    if [ -z "${CLAIRON_BOUNDED:-}" ]; then
        CLAIRON_BOUNDED=1 bounded 5400 "$0"
        return
    fi
    for signal in INT TERM HUP; do
        # shellcheck disable=SC2064 # the value of now
        trap "trap - $signal; kill -s $signal $$" "$signal"
    done
    say "$2: $PWD/$log.new"
    mkdir -p "$roots"
    exec 9>"$roots/lock"
    flock -n 9 || { say "another run uses $roots: waiting for it"; flock 9; }
    with_progress "$log.new" "$3" 9>&- || say "not ok - $2: ended with status $?" >>"$log.new"
    mv "$log.new" "$log"
    say "$(summary_of "$log") after $((SECONDS / 60)) min $((SECONDS % 60)) s"
}

summary_of() {
    say "$(grep -c '^ok ' "$1") passed, $(grep -c '^not ok ' "$1") failed"
}

inside() {
    docker/debian-root.sh run "$root" env -C "$place" -u MAKEFLAGS -u MFLAGS -u MAKELEVEL PG_MAJOR=17 HOME=/root "$@"
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

build_root() {
    say "# Debian 13 with PostgreSQL 17, below $root"
    docker/debian-root.sh make "$root" "${packages[@]}" && say "# the sources go there" && take_sources
}

# ok WHAT COMMAND..: one test, and what the command printed if it failed.
ok() {
    local what=$1 said
    shift
    taken=$((taken + 1))
    if said=$("$@" 2>&1); then
        say "ok $taken - $what"
    else
        say "not ok $taken - $what"
        tail -60 <<<"#   ${said//$'\n'/$'\n#   '}"
    fi
}

# wait_for COMMAND..: until it succeeds, or a minute is over.
wait_for() {
    local deadline=$((SECONDS + 60))
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $deadline ] || {
            say "not within a minute: $*"
            "$@"
            return 1
        }
        sleep 0.1
    done
}
