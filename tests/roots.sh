# shellcheck shell=bash
# roots.sh: functions for tests that run in a Debian root. Source it from the top of the checkout.

# shellcheck source=relay/tools/lib.sh
. relay/tools/lib.sh

roots=$(realpath -m "${CLAIRON_ROOTS:-build/roots}")
clean=$roots/clean       # PostgreSQL 17 and a store, without build dependencies
root=$roots/replica      # the same and the build dependencies
engine=$roots/engine     # a container engine
checkout=/var/tmp/clairon   # the checkout in $root
source=build/deb/source     # in the checkout: where the packages are built
test_count=0
# shellcheck disable=SC2034 # for tests/release.sh
is_broken=false             # a test has failed

# Build and test dependencies on Debian 13. The server's headers are unpacked without their dependencies,
# which include LLVM.
packages=(postgresql-server-dev-17/unpacked ccache gcc make pkg-config libc6-dev libpq-dev
    libhiredis-dev libev-dev libwebsockets-dev libwebsockets-evlib-ev
    libjansson-dev libcurl4-openssl-dev uthash-dev nodejs python3-minimal dpkg-dev debhelper
    libipc-run-perl libmojolicious-perl libjson-perl libio-socket-ssl-perl
    clang-format codespell cppcheck git python3-yaml shellcheck universal-ctags)

inside() {
    tests/tools/debian-root.sh run "$root" env -C "$checkout" -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u TESTS -u TIMES -u LAYERS \
        -u CLAIRON_RECORDED PG_MAJOR=17 HOME=/root \
        PATH=/usr/lib/ccache:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

# Copies the sources; the previous build stays, so that only changed files are compiled.
copy_sources() {
    tests/tools/debian-root.sh run "$root" mkdir -p "$checkout"
    tests/tools/debian-root.sh run "$root" find "$checkout" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
    tar -c --exclude=./.git --exclude=./.demo --exclude=./build --exclude=node_modules \
        --exclude='*.o' --exclude='*.so' --exclude='./decoder/clairon--*' . |
        tar -x --no-same-owner -C "$root$checkout"
    chmod -R a+rX "$root$checkout"
}

server_version() { sed -n '/^Package: postgresql-17$/,/^$/s/^Version: //p' "$1/var/lib/dpkg/status"; }

make_roots() {
    tests/tools/debian-root.sh make "$clean" postgresql-17 valkey-server systemd &&
        tests/tools/debian-root.sh extend "$clean" "$root" "${packages[@]}"
}

# Creates both roots, and builds the packages in one of them. The tests in that root use the programs of the packages.
build_root() {
    print_line "# Debian 13 with PostgreSQL 17, below $roots"
    # The package lists in a kept root may be outdated; they belong to its minor release, like the headers.
    make_roots || {
        rm -f "$clean.made"
        make_roots
    }
    print_line "# building the packages in the root"
    copy_sources
    inside env DEB_BUILD_OPTIONS="parallel=$(nproc) noautodbgsym" relay/tools/debian-packages.sh build/deb
    inside cp -a "$source/build/clairon" "$source/build/gen" build/
    inside cp -a "$source/decoder" .
    inside make -s build/strict_lines private-root
}

# Creates the root with the container engine. Fails if no container can be started here; any other failure ends the script.
make_engine() {
    local status=0
    tests/tools/debian-root.sh make "$roots/base" || die "no root for the image debian:13"
    tests/images/engine.sh make "$engine" "$roots/base" || status=$?
    [[ $status = [03] ]] || die "no root for the container engine"
    return "$status"
}

# ok DESCRIPTION COMMAND..: one test; prints the output of COMMAND if it fails.
ok() {
    local what=$1 output
    shift
    test_count=$((test_count + 1))
    if output=$("$@" 2>&1); then
        print_line "ok $test_count - $what"
    else
        print_line "not ok $test_count - $what"
        # shellcheck disable=SC2034
        is_broken=true
        tail -60 <<<"#   ${output//$'\n'/$'\n#   '}"
    fi
}

# is GOT EXPECTED
is() { [ "$1" = "$2" ] || { print_line "got: $1, expected: $2"; false; }; }

# wait_for COMMAND..: waits up to five minutes until COMMAND succeeds.
wait_for() {
    local deadline=$((SECONDS + 300))
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $deadline ] || {
            print_line "timeout of 300 s: $*"
            "$@"
            return 1
        }
        sleep 0.1
    done
}
