#!/usr/bin/env bash
# release.sh: makes the files of a release from the last commit, with their SBOM and checksums.
#
#   relay/tools/release.sh DIR
#
# Needs root or sudo, mmdebstrap and python3. Environment:
#   SUITES        Debian releases of the packages: "bookworm trixie"
#   APT_SOURCES   folder with further sources of apt, as in /etc/apt: sources.list.d/*.sources, keyrings/*. With those of
#                 apt.postgresql.org, packages of more major versions of PostgreSQL are built.
#   REPOSITORY    URL of the repository, for the packages that name it
#   ENGINE_ROOT   for tests: a root with podman, made by tests/images/engine.sh, instead of this machine's podman. Its
#                 image debian:13 has the settings of this machine's network.
#
# Two releases of a commit are equal byte for byte if apt has the same versions of the build dependencies. All times are
# that of the commit. Uncommitted changes are not part of a release.
set -euo pipefail
# shellcheck source=relay/tools/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$(top_dir)"

majors=(15 16 17 18)
roots=$(realpath -m "${CLAIRON_ROOTS:-build/roots}")
as_root=()

build_packages() { PG_MAJOR=1 relay/tools/install-packages.sh --list build deb | grep -vx postgresql-server-dev-1; }

in_root() { "${as_root[@]}" tests/tools/debian-root.sh run "$root" "$@"; }

# ok_or_log LOG COMMAND..: prints the end of the output of a failed command.
ok_or_log() {
    local log=$1
    shift
    "$@" >"$log" 2>&1 || { tail -n 20 "$log" >&2; die "failed: $*"; }
}

apt() { in_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 "$@"; }

# The sources are those of the commit, in a folder and in an archive.
make_sources() {
    rm -rf "$work/source"
    mkdir -p "$work/source"
    git archive "$commit" | tar -x -C "$work/source"
    grep -qF "CLAIRON_VERSION \"$version\"" "$work/source/decoder/protocol/version.h" || die "the version has an uncommitted change"
    git -c tar.umask=0022 archive --format=tar --prefix="$name/" "$commit" | gzip -n9 >"$dist/$name.tar.gz"
}

# archive FOLDER NAME: a tar archive of FOLDER, whose paths begin with NAME. Order, times, owners and modes are fixed.
archive() {
    tar -C "$1" --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --mode=u=rwX,go=rX --transform="s,^\.,$2," -c . | gzip -n9
}

# The files of `npm pack`.
make_npm() {
    local folder=$work/npm
    rm -rf "$folder"
    mkdir -p "$folder"
    (cd "$work/source/client" && cp -r dist src examples LICENSE PROTOCOL.md README.md package.json "$folder")
    rm "$folder"/examples/*.py
    python3 relay/tools/release_files.py npm "$folder/package.json"
    archive "$folder" package >"$dist/clairon-npm-$version.tgz"
}

make_chart() {
    local folder=$work/chart
    rm -rf "$folder"
    cp -r "$work/source/docker/helm" "$folder"
    cp "$work/source/LICENSE" "$folder"
    printf 'appVersion: "%s"\n' "$version" >>"$folder/Chart.yaml"
    [ -z "$REPOSITORY" ] || printf 'home: %s\nsources: [%s]\n' "$REPOSITORY" "$REPOSITORY" >>"$folder/Chart.yaml"
    archive "$folder" clairon >"$dist/clairon-chart-$version.tgz"
}

# The extension alone: `pgxn install` runs make and make install in the top folder of the archive.
make_pgxn() {
    mkdir -p "$work/pgxn"
    python3 relay/tools/release_files.py pgxn >"$work/pgxn/META.json"
    cat >"$work/pgxn/Makefile" <<'END'
# Builds and installs the extension clairon and its output plugin; PG_CONFIG selects the PostgreSQL.
PG_CONFIG ?= pg_config
all install uninstall clean:
	$(MAKE) -C decoder PG_CONFIG='$(PG_CONFIG)' $@
.PHONY: all install uninstall clean
END
    git archive --format=zip --prefix="$name/" --add-file="$work/pgxn/META.json" --add-file="$work/pgxn/Makefile" \
        -o "$dist/clairon-pgxn-$version.zip" "$commit" decoder sql LICENSE CHANGELOG.md SECURITY.md
}

# The supported major versions of PostgreSQL that apt of the root can install.
available_majors() {
    local names major
    names=$(in_root apt-cache pkgnames postgresql-server-dev-)
    for major in "${majors[@]}"; do
        ! grep -qx "postgresql-server-dev-$major" <<<"$names" || echo "$major"
    done
}

# A current root of the Debian release with build dependencies. The headers and pg_config of each server are unpacked
# without their dependencies, which include LLVM.
make_build_root() {
    local major packages
    mapfile -t packages < <(build_packages)
    "${as_root[@]}" env DEBIAN_SUITE="$suite" tests/tools/debian-root.sh make "$root" "${packages[@]}"
    [ -z "${APT_SOURCES:-}" ] || "${as_root[@]}" cp -rL "$APT_SOURCES/." "$root/etc/apt/"
    ok_or_log "$work/$suite.apt" apt update
    ok_or_log "$work/$suite.apt" apt upgrade -y --no-install-recommends
    mapfile -t found < <(available_majors)
    [ ${#found[@]} -gt 0 ] || die "apt of Debian $suite has no postgresql-server-dev-NN for ${majors[*]}"
    for major in "${found[@]}"; do
        # shellcheck disable=SC2016
        ok_or_log "$work/$suite.apt" in_root sh -ec 'cd /var/tmp; rm -f *.deb; apt-get -q download "$@"
            for each in *.deb; do dpkg-deb -x "$each" /; done; rm *.deb' - "postgresql-server-dev-$major" "postgresql-client-$major"
    done
}

# The Debian packages of one release, and a list of the versions of all packages that they were built with or need.
make_debian() {
    local suite=$1 root=$roots/release-$1 place=/usr/src/clairon found names
    print_line "packages of Debian $suite"
    make_build_root
    in_root rm -rf "$place"
    in_root mkdir -p "$place"
    tar -C "$work/source" -c . | "${as_root[@]}" tar -C "$root$place" -x --no-same-owner
    in_root env -C "$place" -u PG_MAJOR -u PG_CONFIG SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" TZ=UTC LC_ALL=C.UTF-8 CCACHE='' \
        relay/tools/debian-packages.sh build/deb "${found[@]}" >"$work/$suite.log" || die "could not build: $work/$suite.log"
    cp "$root$place"/build/deb/*.deb "$dist/"
    mapfile -t names < <(
        build_packages
        printf 'postgresql-server-dev-%s\n' "${found[@]}"
        for each in "$root$place"/build/deb/*.deb; do dpkg-deb -f "$each" Depends; done | tr ',' '\n' | tr '|' '\n' | sed 's/^ *//; s/ .*//'
    )
    in_root apt-cache policy "${names[@]}" | awk '/^[^ ]/ { name = $1; sub(/:$/, "", name) }
        $1 == "Candidate:" && $2 != "(none)" { print name "\t" $2 }' | LC_ALL=C sort -u >"$work/$suite.packages"
}

# docker/images/archives.sh does nothing without podman.
make_images() {
    if [ -z "${ENGINE_ROOT:-}" ]; then
        (cd "$work/source" && VERSION=$version docker/images/archives.sh "$dist")
    else
        make_images_in_root "$ENGINE_ROOT/srv"
    fi
}

make_images_in_root() {
    local place=$1
    "${as_root[@]}" rm -rf "$place/clairon" "$place/images"
    "${as_root[@]}" cp -r "$work/source" "$place/clairon"
    ok_or_log "$work/images.log" "${as_root[@]}" tests/images/engine.sh build "$ENGINE_ROOT" \
        env VERSION="$version" SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" REPOSITORY="$REPOSITORY" \
        docker/images/archives.sh /srv/images
    cp "$place"/images/* "$dist/"
    "${as_root[@]}" rm -rf "$place/images"
}

main() {
    local version name commit date tag dist work suite
    [ $# = 1 ] || die "usage: release.sh DIR"
    [ "$(id -u)" = 0 ] || as_root=(sudo -n)
    "${as_root[@]}" true || die "needs root or sudo, for Debian roots"
    command -v mmdebstrap >/dev/null || die "mmdebstrap is missing; run relay/tools/install-packages.sh check"
    version=$(source_version) name=clairon-$version
    # The checkout may belong to another user than root.
    export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
    commit=$(git rev-parse --verify 'HEAD^{commit}') || die "a release is made from a git repository"
    tag=$(git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null) || tag=
    [ -z "$tag" ] || [ "$tag" = "v$version" ] || die "the commit has the tag $tag, but the version is $version"
    date=$(TZ=UTC git log -1 --date=format-local:%F --format=%cd "$commit")
    [ -z "$tag" ] || git show "$commit:CHANGELOG.md" | grep -qxF "## [$version] - $date" ||
        die "CHANGELOG.md needs the line \"## [$version] - $date\", with the date of the tagged commit in UTC"
    [ -n "$tag" ] || print_line "the commit has no tag v$version: a trial"
    [ -z "$(git status --porcelain)" ] || print_line "uncommitted changes are not part of the release"
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$commit")
    export SOURCE_DATE_EPOCH REPOSITORY="${REPOSITORY:-}" TZ=UTC LC_ALL=C.UTF-8 CLAIRON_COMMIT=$commit
    umask 022
    mkdir -p "$1" build/release
    dist=$(realpath "$1") work=$(realpath build/release)
    rm -rf "${dist:?}"/*
    make_sources
    make_npm
    make_chart
    make_pgxn
    for suite in ${SUITES:-bookworm trixie}; do
        make_debian "$suite"
    done
    make_images
    python3 relay/tools/release_files.py sbom "$dist" "$work" >"$work/sbom.json"
    mv "$work/sbom.json" "$dist/$name.spdx.json"
    (cd "$dist" && sha256sum -- * >SHA256SUMS)
    (cd "$dist" && stat -c '%10s  %n' -- *)
}

main "$@"
