#!/usr/bin/env bash
# install-packages.sh: installs the Debian packages to run, build, test or benchmark clairon.
#
#   relay/tools/install-packages.sh [run] [build] [deb] [release] [tap] [check] [bench] [fuzz]
#                     (default: run, build, tap and check)
#   relay/tools/install-packages.sh --list [run] [build] [deb] [release] [tap] [check] [bench] [fuzz]
#
# It installs only missing packages, as root or through sudo. If neither is possible, it prints the command to run and
# fails. If nothing is missing, apt is not called.
set -euo pipefail
# shellcheck source=relay/tools/lib.sh
. "$(dirname "$0")/lib.sh"

interrupted=false

# Library package names contain the ABI version, which differs between Debian releases.
libraries() {
    local VERSION_ID=
    [ -r /etc/os-release ] && . /etc/os-release
    case ${VERSION_ID:-} in
        12) echo libhiredis0.14 libev4 libwebsockets17 libcurl4 ;;
        *) echo libhiredis1.1.0 libev4t64 libwebsockets19t64 libcurl4t64 ;;
    esac
    echo libwebsockets-evlib-ev libjansson4 libpq5
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
            echo libjansson-dev libcurl4-openssl-dev uthash-dev "postgresql-server-dev-$(pg_major)"
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
        release)
            echo dpkg git mmdebstrap python3
            ;;
        check)
            echo "postgresql-$(pg_major)-wal2json"
            echo libcmocka-dev dpkg-dev mmdebstrap nginx haproxy caddy spin curl
            echo python3-selenium nodejs node-typescript node-react node-react-dom
            echo chromium chromium-driver dbus-daemon clang-format clang-tidy codespell cppcheck python3-yaml python3-jsonschema python3-websockets shellcheck universal-ctags
            ;;
    esac
}

# Prints the arguments that are not installed according to dpkg.
missing_of() {
    local known
    known=$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' "$@" 2>/dev/null || true)
    known=$(sed -n 's/^[ih]i //p' <<<"$known")
    printf '%s\n' "$@" | grep -vxF -e "$known" || true
}

# Prints the command for a user without root access.
print_install_command() {
    local sudo="" who=" as root"
    if command -v sudo >/dev/null; then
        sudo="sudo " who=""
    fi
    print_line "Installing the missing packages requires root. Run this$who, then repeat the command:"
    print_line "    ${sudo}apt-get update && ${sudo}apt-get install -y --no-install-recommends $*"
}

install_now() {
    local as=()
    if [ "$(id -u)" != 0 ]; then
        if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
            print_install_command "$@" >&2
            exit 1
        fi
        as=(sudo -n)
    fi
    print_line "installing (takes a few minutes): $*"
    # apt-get checks the same files and fails if there are any.
    if compgen -G '/var/lib/dpkg/updates/[0-9]*' >/dev/null; then
        print_line "an earlier installation was interrupted: finishing it first (dpkg --configure -a)"
        uninterrupted "${as[@]}" -- dpkg --configure -a || die "failed; run as root: dpkg --configure -a"
    fi
    # On a new machine the package lists may be missing or outdated.
    if ! apt_get "${as[@]}" -- install -y -q --no-install-recommends "$@" 2>/dev/null; then
        print_line "refreshing the package lists first"
        apt_get "${as[@]}" -- update -q ||
            die "could not refresh the package lists (apt-get update); check the network connection"
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
    uninterrupted "${as[@]}" -- apt-get -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@"
}

# uninterrupted [sudo -n] -- COMMAND..: runs COMMAND without prompts, and prints its output only on failure. COMMAND
# runs in a separate session, because a dpkg that receives Ctrl-C leaves packages half installed. After a signal the
# script exits when COMMAND ends.
uninterrupted() {
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
        kill -0 "$job" 2>/dev/null || break # otherwise a signal interrupted wait
    done
    trap - INT TERM HUP
    [ "$status" = 0 ] || tail -5 "$log" >&2
    rm -f "$log"
    ! $interrupted || exit 130
    return "$status"
}

on_signal() {
    interrupted=true
    print_line "interrupted: waiting for the installation to finish, so that no package is left half installed"
}

main() {
    local list=false purpose names=() missing
    if [ "${1:-}" = --list ]; then
        list=true
        shift
    fi
    [ $# -gt 0 ] || set -- run build tap check
    for purpose in "$@"; do
        [[ $purpose =~ ^(run|build|deb|release|tap|check|bench|fuzz)$ ]] ||
            die "unknown purpose \"$purpose\"; valid: run, build, deb, release, tap, check, bench, fuzz"
        # shellcheck disable=SC2207 # package names have no spaces; a minimal root has no /dev/fd for mapfile
        names+=($(packages_for "$purpose"))
    done
    if $list; then
        printf '%s\n' "${names[@]}"
        return
    fi
    command -v dpkg-query >/dev/null || die "not a Debian system; required packages: ${names[*]}"
    # shellcheck disable=SC2207
    missing=($(missing_of "${names[@]}"))
    [ ${#missing[@]} = 0 ] || install_now "${missing[@]}"
}

main "$@"
