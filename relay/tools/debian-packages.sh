#!/usr/bin/env bash
# debian-packages.sh: builds the packages clairon-relay and postgresql-NN-clairon for this Debian release.
#
#   relay/tools/debian-packages.sh DIR [MAJOR..]     ->  DIR/*.deb; built in DIR/source
#
# Builds a plugin for each major version of PostgreSQL, by default for the one that the other tools use. DEBFULLNAME and
# DEBEMAIL set the maintainer, SOURCE_DATE_EPOCH the time in the packages: with it, two builds are equal.
set -euo pipefail
# shellcheck source=relay/tools/lib.sh
. "$(dirname "$0")/lib.sh"

templates=$(top_dir)/relay/tools/debian

# The minor release whose headers the plugin is built with, as in Debian's versions: 17.11, 19~beta1. The headers may
# use functions that do not exist in older servers of the same major version. Those servers would not load the plugin.
server_version() {
    "/usr/lib/postgresql/$1/bin/pg_config" --version | sed -E 's/^PostgreSQL ([0-9.]+)([a-z0-9]*).*/\1~\2/; s/~$//'
}

# The packages of a Debian release are older than those of the next one, so that an upgrade of Debian replaces them.
release_suffix() {
    local ID='' VERSION_ID=''
    [ ! -r /etc/os-release ] || . /etc/os-release
    [ "$ID" != debian ] || [ -z "$VERSION_ID" ] || echo "~deb$VERSION_ID"
}

# fill_in TEMPLATE MAJOR
fill_in() {
    local built_with
    built_with=$(server_version "$2")
    sed "s/@PG_MAJOR@/$2/g; s/@PG_VERSION@/$built_with/" "$templates/$1"
}

# Creates debian/ from the templates in relay/tools/debian.
make_debian_folder() {
    local version=$1 file date maintainer headers
    shift
    maintainer="${DEBFULLNAME:-The clairon developers} <${DEBEMAIL:-clairon@example.org}>"
    date=$(LC_ALL=C date -u -R -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}")
    headers=$(printf 'postgresql-server-dev-%s, ' "$@")
    mkdir -p "$source/debian"
    for file in control.in changelog.in rules copyright clairon-relay.install clairon-relay.postinst clairon-relay.postrm; do
        sed "s/@PG_MAJORS@/$*/; s/@PG_DEV@/${headers%, }/; s/@VERSION@/$version/; s/@RELEASE@/$(release_suffix)/; s/@DATE@/$date/; s/@MAINTAINER@/$maintainer/" \
            "$templates/$file" >"$source/debian/${file%.in}"
    done
    for major; do
        fill_in plugin-control.in "$major" >>"$source/debian/control"
        fill_in plugin.install.in "$major" >"$source/debian/postgresql-$major-clairon.install"
    done
    chmod +x "$source/debian/rules"
}

# build_packages SOURCE: -d skips the check of build dependencies, because headers may have been unpacked without dpkg.
build_packages() (
    cd "$1"
    umask 022
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-parallel=$(nproc)}" \
        dpkg-buildpackage -b -us -uc -d
)

main() {
    local target majors
    [ $# -ge 1 ] || die "usage: debian-packages.sh DIR [MAJOR..]"
    command -v dh >/dev/null || die "debhelper is not installed; run relay/tools/install-packages.sh deb"
    mkdir -p "$1"
    target=$(cd "$1" && pwd) source=$target/source
    shift
    majors=("${@:-$(pg_major)}")
    rm -rf "$source" "$target"/*.deb
    mkdir -p "$source"
    tar -C "$(top_dir)" -c --exclude='*.o' --exclude='*.so' --exclude='decoder/clairon--*' \
        --exclude='decoder/*.control' --exclude=node_modules --exclude=client/tests --exclude=client/demo \
        Makefile README.md LICENSE CHANGELOG.md SECURITY.md docs decoder relay sql client docker tests/fuzz tests/bench/README.md |
        tar -C "$source" -x
    make_debian_folder "$(source_version)" "${majors[@]}"
    print_line "building the packages of PostgreSQL ${majors[*]} (takes a few minutes)"
    with_progress "$target/log" build_packages "$source" || {
        tail -30 "$target/log" >&2
        die "could not build the packages: $target/log"
    }
    ls "$target"/*.deb
}

main "$@"
