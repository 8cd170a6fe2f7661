#!/usr/bin/env bash
# install-packages.sh: installs the Debian packages that clairon needs to run, to build, to be checked or measured.
#
#   docker/install-packages.sh [run] [build] [deb] [tap] [check] [bench] [fuzz]
#                     (run, build, tap and check when none is given)
#   docker/install-packages.sh --list [run] [build] [deb] [tap] [check] [bench] [fuzz]
#
# Only what is missing is installed, as root or through sudo. Without either it
# prints the line to type and fails. When nothing is missing, apt is not called.
set -euo pipefail
# shellcheck source=docker/lib.sh
. "$(dirname "$0")/lib.sh"

interrupted=false

# The libraries' names carry their ABI: one column per Debian release.
libraries() {
    local VERSION_ID=
    [ -r /etc/os-release ] && . /etc/os-release
    case ${VERSION_ID:-} in
        12) echo libhiredis0.14 libev4 libwebsockets17 libjwt0 ;;
        *) echo libhiredis1.1.0 libev4t64 libwebsockets19t64 libjwt2 ;;
    esac
    echo libwebsockets-evlib-ev libinih1 libjansson4 libpq5
}

store_package() {
    local VERSION_ID=
    [ -n "$(store_server)" ] && return
    [ -r /etc/os-release ] && . /etc/os-release
    case ${VERSION_ID:-} in
        12) echo redis-server ;;
        *) echo valkey-server ;;
    esac
}

packages_for() {
    case $1 in
        run)
            libraries
            store_package
            echo "postgresql-$(pg_major)" python3 python3-psycopg2
            ;;
        build)
            echo gcc make pkg-config libc6-dev libpq-dev libhiredis-dev libev-dev libwebsockets-dev
            echo libjwt-dev libinih-dev libjansson-dev uthash-dev "postgresql-server-dev-$(pg_major)"
            ;;
        bench)
            echo "postgresql-$(pg_major)-wal2json"
            ;;
        fuzz)
            echo clang libclang-rt-dev
            ;;
        tap)
            echo libipc-run-perl libmojolicious-perl libjson-perl libjson-xs-perl libio-socket-ssl-perl
            ;;
        deb)
            echo dpkg-dev debhelper
            ;;
        check)
            echo "postgresql-$(pg_major)-wal2json"
            echo libcmocka-dev debootstrap nginx
            echo python3-selenium nodejs node-typescript node-react node-react-dom
            echo chromium chromium-driver clang-format cppcheck shellcheck universal-ctags
            ;;
    esac
}

# Those of the arguments that dpkg does not hold as installed.
missing_of() {
    local known
    known=$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' "$@" 2>/dev/null || true)
    known=$(sed -n 's/^[ih]i //p' <<<"$known")
    printf '%s\n' "$@" | grep -vxF -e "$known" || true
}

# The line to type for somebody who may not install.
ask_for_root() {
    local sudo="" who=" as root"
    if command -v sudo >/dev/null; then
        sudo="sudo " who=""
    fi
    say "These packages are missing and need root. Type this$who, then start again:"
    say "    ${sudo}apt-get update && ${sudo}apt-get install -y --no-install-recommends $*"
}

install_now() {
    local as=()
    if [ "$(id -u)" != 0 ]; then
        if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
            ask_for_root "$@" >&2
            exit 1
        fi
        as=(sudo -n)
    fi
    say "installing (a minute or a few): $*"
    # As apt-get itself looks for it, which then refuses to work.
    if compgen -G '/var/lib/dpkg/updates/[0-9]*' >/dev/null; then
        say "an earlier installation was interrupted: finishing it first (dpkg --configure -a)"
        uncut "${as[@]}" -- dpkg --configure -a || die "failed; run as root: dpkg --configure -a"
    fi
    # A new or an old machine does not know where the packages are.
    if ! apt_get "${as[@]}" -- install -y -q --no-install-recommends "$@" 2>/dev/null; then
        say "refreshing the package lists first"
        apt_get "${as[@]}" -- update -q ||
            die "could not refresh the package lists (apt-get update); is the network there?"
        apt_get "${as[@]}" -- install -y -q --no-install-recommends "$@" ||
            die "apt-get could not install: $*"
    fi
}

# apt_get [sudo -n] -- ARGUMENT..
apt_get() {
    local as=()
    while [ "$1" != -- ]; do
        as+=("$1")
        shift
    done
    shift
    uncut "${as[@]}" -- apt-get -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@"
}

# uncut [sudo -n] -- COMMAND..: without a question, its chatter kept for the case that it fails. In a session
# of its own: dpkg that Ctrl-C reaches leaves packages half installed. This script ends after it.
uncut() {
    local as=() log job status
    while [ "$1" != -- ]; do
        as+=("$1")
        shift
    done
    shift
    log=$(mktemp)
    trap on_signal INT TERM HUP
    with_progress "$log" "${as[@]}" env --ignore-signal=INT,HUP DEBIAN_FRONTEND=noninteractive \
        NEEDRESTART_MODE=l setsid -w "$@" </dev/null &
    job=$!
    while :; do
        status=0
        wait "$job" || status=$?
        kill -0 "$job" 2>/dev/null || break # else a signal ended wait, not the job
    done
    trap - INT TERM HUP
    [ "$status" = 0 ] || tail -5 "$log" >&2
    rm -f "$log"
    ! $interrupted || exit 130
    return "$status"
}

on_signal() {
    interrupted=true
    say "interrupted: waiting for the installation to finish, so that no package is left half installed"
}

main() {
    local list=false purpose names=() missing
    if [ "${1:-}" = --list ]; then
        list=true
        shift
    fi
    [ $# -gt 0 ] || set -- run build tap check
    for purpose in "$@"; do
        [[ $purpose =~ ^(run|build|deb|tap|check|bench|fuzz)$ ]] ||
            die "unknown purpose \"$purpose\"; valid are run, build, deb, tap, check, bench, fuzz"
        # shellcheck disable=SC2207 # names of packages; a bare root has no /dev/fd to map them from
        names+=($(packages_for "$purpose"))
    done
    if $list; then
        printf '%s\n' "${names[@]}"
        return
    fi
    command -v dpkg-query >/dev/null || die "this is not a Debian system; needed are: ${names[*]}"
    # shellcheck disable=SC2207
    missing=($(missing_of "${names[@]}"))
    [ ${#missing[@]} = 0 ] || install_now "${missing[@]}"
}

main "$@"
