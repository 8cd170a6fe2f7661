#!/usr/bin/env bash
# debian-packages.sh: builds the packages postgresql-NN-clairon and clairon-relay for this Debian release.
#
#   relay/tools/debian-packages.sh DIR     ->  DIR/*.deb; built in DIR/source
#
# DEBFULLNAME and DEBEMAIL set the maintainer.
set -euo pipefail
# shellcheck source=relay/tools/lib.sh
. "$(dirname "$0")/lib.sh"

# The minor release whose headers the plugin is built with, as in Debian's versions: 17.11, 19~beta1. The headers may
# use functions that do not exist in older servers of the same major version. Those servers would not load the plugin.
server_version() {
    "/usr/lib/postgresql/$1/bin/pg_config" --version | sed -E 's/^PostgreSQL ([0-9.]+)([a-z0-9]*).*/\1~\2/; s/~$//'
}

# Creates debian/ from the templates in relay/tools/debian.
make_debian_folder() {
    local file major=$1 version=$2 maintainer built_with
    built_with=$(server_version "$major")
    maintainer="${DEBFULLNAME:-The clairon developers} <${DEBEMAIL:-clairon@example.org}>"
    mkdir -p "$source/debian"
    for file in "$(top_dir)"/relay/tools/debian/*; do
        sed "s/@PG_MAJOR@/$major/g; s/@PG_VERSION@/$built_with/; s/@VERSION@/$version/g; s/@DATE@/$(date -R)/; s/@MAINTAINER@/$maintainer/" "$file" \
            >"$source/debian/$(basename "${file%.in}")"
    done
    mv "$source/debian/postgresql-clairon.install" "$source/debian/postgresql-$major-clairon.install"
    chmod +x "$source/debian/rules"
}

# build_packages SOURCE: -d skips the check of build dependencies, because headers may have been unpacked without dpkg.
build_packages() (
    cd "$1"
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-parallel=$(nproc)}" \
        dpkg-buildpackage -b -us -uc -d
)

main() {
    local target version
    [ $# = 1 ] || die "usage: debian-packages.sh DIR"
    command -v dh >/dev/null || die "debhelper is not installed; run relay/tools/install-packages.sh deb"
    mkdir -p "$1"
    target=$(cd "$1" && pwd) source=$target/source
    version=$(source_version)
    rm -rf "$source" "$target"/*.deb
    mkdir -p "$source"
    tar -C "$(top_dir)" -c --exclude='*.o' --exclude='*.so' --exclude='decoder/clairon--*' \
        --exclude='decoder/*.control' --exclude=node_modules --exclude=client/tests --exclude=client/demo \
        Makefile README.md LICENSE CHANGELOG.md SECURITY.md docs decoder relay sql client docker tests/fuzz tests/bench/README.md |
        tar -C "$source" -x
    make_debian_folder "$(pg_major)" "$version"
    print_line "building the packages of PostgreSQL $(pg_major) (takes a few minutes)"
    with_progress "$target/log" build_packages "$source" || {
        tail -30 "$target/log" >&2
        die "could not build the packages: $target/log"
    }
    ls "$target"/*.deb
}

main "$@"
