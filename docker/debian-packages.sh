#!/usr/bin/env bash
# debian-packages.sh: builds postgresql-NN-clairon and clairon-relay for this Debian.
#
#   docker/debian-packages.sh DIR     ->  DIR/*.deb; DIR/source is where they are built
#
# DEBFULLNAME and DEBEMAIL name their maintainer.
set -euo pipefail
# shellcheck source=docker/lib.sh
. "$(dirname "$0")/lib.sh"

# The folder debian/, as dpkg wants it, out of docker/debian.
take_rules() {
    local file major=$1 version=$2 maintainer
    maintainer="${DEBFULLNAME:-The clairon developers} <${DEBEMAIL:-clairon@example.org}>"
    mkdir -p "$source/debian"
    for file in "$(top_dir)"/docker/debian/*; do
        sed "s/@PG_MAJOR@/$major/g; s/@VERSION@/$version/g; s/@DATE@/$(date -R)/; s/@MAINTAINER@/$maintainer/" "$file" \
            >"$source/debian/$(basename "${file%.in}")"
    done
    mv "$source/debian/postgresql-clairon.install" "$source/debian/postgresql-$major-clairon.install"
    chmod +x "$source/debian/rules"
}

main() {
    local place version
    [ $# = 1 ] || die "usage: debian-packages.sh DIR"
    command -v dh >/dev/null || die "debhelper is not there; docker/install-packages.sh deb installs it"
    mkdir -p "$1"
    place=$(cd "$1" && pwd) source=$place/source
    version=$(sed -n "s/^default_version = '\(.*\)'/\1/p" "$(top_dir)/sql/clairon.control")
    rm -rf "$source" "$place"/*.deb
    mkdir -p "$source"
    tar -C "$(top_dir)" -c --exclude='*.o' --exclude='*.so' --exclude='decoder/clairon--*' \
        --exclude='decoder/*.control' --exclude=node_modules --exclude=client/tests --exclude=client/demo \
        Makefile README.md LICENSE CHANGELOG.md SECURITY.md decoder relay sql client docker tests/fuzz tests/bench/README.md |
        tar -C "$source" -x
    take_rules "$(pg_major)" "$version"
    # What it builds with is not asked of dpkg alone: headers may have been unpacked without it.
    (cd "$source" && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL \
        DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-parallel=$(nproc)}" dpkg-buildpackage -b -us -uc -d) \
        >"$place/log" 2>&1 || {
        tail -30 "$place/log" >&2
        die "could not build the packages: $place/log"
    }
    ls "$place"/*.deb
}

main "$@"
