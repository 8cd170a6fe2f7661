#!/usr/bin/env bash
# release.sh: tests that a release can be repeated byte for byte, and that its packages install on machines without a compiler.
#
# It makes the release of the last commit twice. Then it installs the packages in bare roots of Debian 12 and 13, with
# systemd, runs the commands of "One machine" in docker/INSTALL.md and those of README's tour there, each in a fresh root,
# and opens the tour's page in a browser. It also runs the tour in a container of Debian 13, without systemd.
# SUITES=trixie limits it to that Debian. The container and the archives of the images need tests/images/engine.sh; where
# no container can be started, they are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/roots.sh
. tests/roots.sh

scratch=$(realpath -m "$roots")/release
dist=$scratch/dist
compilers="gcc cc c++ g++ clang tcc make ld as"
booted=()
container=()    # the prefix of a command in a container, which runs in $target

# Each suite: its Debian, and its PostgreSQL.
declare -A debian=([bookworm]=12 [trixie]=13) postgresql=([bookworm]=15 [trixie]=17)

in_target() { tests/tools/debian-root.sh run "$target" "$@"; }
in_booted() { tests/tools/debian-boot.sh run "$target" "${container[@]}" "$@"; }
seconds_since() { print_line "$((SECONDS - $1)) s"; }

# ---- the files

# In another folder, with another umask, time zone and number of jobs.
repeat_release() (
    rm -rf "$scratch/again"
    git -c safe.directory='*' clone -q "file://$PWD" "$scratch/again" || return
    cd "$scratch/again"
    git checkout -q "$commit"
    umask 077
    CLAIRON_ROOTS=$roots TZ=Asia/Tokyo DEB_BUILD_OPTIONS='parallel=3' relay/tools/release.sh dist
)

npm_packs_the_same_files() {
    local expected
    expected=$(cd client && npm pack --dry-run --ignore-scripts --json 2>/dev/null | sed -n 's/^ *"path": "\(.*\)",$/\1/p' | LC_ALL=C sort)
    is "$(tar -tf "$dist"/clairon-npm-*.tgz | sed -n 's,^package/\(.*[^/]\)$,\1,p' | LC_ALL=C sort)" "$expected"
}

has_images() { is "$(cd "$dist" && echo *.oci.tar)" "$(printf 'clairon-%s-%s.oci.tar ' postgres-17 "$(source_version)" relay "$(source_version)" | sed 's/ $//')"; }

another_date_is_rejected() (
    cd "$scratch/again" || return
    sed -i 's/^## \[.*\] - /&0/' CHANGELOG.md
    git -c user.name=x -c user.email=x@example.org commit -qam 'another date'
    git tag -f "v$(source_version)" # a tagged checkout has it already
    ! relay/tools/release.sh rejected >rejected.log 2>&1 && grep 'CHANGELOG.md needs the line' rejected.log
)

sbom_has_every_file() {
    is "$(sed -n 's/^ *"packageFileName": "\(.*\)",$/\1/p' "$dist"/clairon-*.spdx.json | LC_ALL=C sort)" \
        "$(cd "$dist" && find . -type f ! -name '*.spdx.json' ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort)"
}

sbom_is_complete() {
    local build
    mapfile -t build < <(PG_MAJOR=1 relay/tools/install-packages.sh --list build deb | sed 's/-1$//')
    python3 tests/tools/release_metadata.py sbom "$dist"/clairon-*.spdx.json "${build[@]}"
}

npm_names_the_repository() {
    tar -xOf "$dist"/clairon-npm-*.tgz package/package.json >"$scratch/package.json" &&
        REPOSITORY=https://example.org/x/clairon.git python3 relay/tools/release_files.py npm "$scratch/package.json" &&
        python3 tests/tools/release_metadata.py npm "$scratch/package.json" https://example.org/x/clairon
}

# As pgxn does: make and make install in the unpacked archive.
pgxn_archive_installs() {
    local builder=$roots/release-trixie place=/usr/src/pgxn
    rm -rf "$builder$place"
    python3 tests/tools/release_metadata.py pgxn "$dist"/clairon-pgxn-*.zip &&
        python3 -m zipfile -e "$dist"/clairon-pgxn-*.zip "$builder$place" &&
        tests/tools/debian-root.sh run "$builder" sh -ec "cd $place/clairon-*; export PG_CONFIG=/usr/lib/postgresql/17/bin/pg_config
            make -s && make -s install DESTDIR=$place/out && test -e $place/out/usr/lib/postgresql/17/lib/clairon.so"
}

# The comparison of both releases includes the archives, if there are any.
check_images() {
    if [ -n "${ENGINE_ROOT:-}" ] || compgen -G "$dist/*.oci.tar" >/dev/null; then
        ok "the archives of both images are among them" has_images
        ok "the images have the licence" python3 tests/tools/release_metadata.py images "$dist"/*.oci.tar
    else
        skip "the archives of both images are not compared"
    fi
}

check_files() {
    local began=$SECONDS commit
    commit=$(git -c safe.directory='*' rev-parse HEAD)
    if make_engine; then
        export ENGINE_ROOT=$engine
    fi
    ok "a release is made" env CLAIRON_ROOTS="$roots" relay/tools/release.sh "$dist"
    print_line "# $(seconds_since "$began")"
    began=$SECONDS
    ok "it is made again in another folder" repeat_release
    print_line "# $(seconds_since "$began")"
    ok "both releases are equal byte for byte" diff -r "$dist" "$scratch/again/dist"
    check_images
    ok "SHA256SUMS has every file" is "$(cd "$dist" && sha256sum -c SHA256SUMS | grep -c ': OK$')" "$(($(find "$dist" -type f | wc -l) - 1))"
    ok "the SBOM has every file" sbom_has_every_file
    ok "it has the packages that each file needs, was built with, or contains" sbom_is_complete
    ok "the archive of npm has its licence, and REPOSITORY" npm_names_the_repository
    ok "the extension can be installed from the archive of PGXN" pgxn_archive_installs
    ok "a tagged commit with another date in CHANGELOG.md is rejected" another_date_is_rejected
    if command -v npm >/dev/null; then
        ok "the archive of npm has the files that npm packs" npm_packs_the_same_files
    fi
}

# ---- the installation

# block PAGE SECTION N: the N-th code block of a section, for the Debian release of the root.
block() {
    awk -v section="$2" -v wanted="$3" '/^##/ && !code { in_section = $0 == section; n = 0 }
        /^ *```/ { code = !code; n += code; next }
        in_section && code && n == wanted { print }' "$1" |
        sed "s/~deb13/~deb${debian[$suite]}/g; s/postgresql-17/postgresql-${postgresql[$suite]}/g"
}

# Runs commands in the booted root, in the folder with the files of the release. A bare root has no sudo, so
# commands run as root, as README describes.
typed() {
    local text=$1
    text=${text//sudo -u postgres/runuser -u postgres --}
    text=${text//sudo /}
    [ -n "$text" ] || { print_line "the page has no such block"; return 1; }
    in_booted env -C /root/release bash -e -o pipefail -c "$(grep -m1 '^CLI=' docker/INSTALL.md) || true; $text" </dev/null
}

# Counted, so that nobody takes it for tested.
skip() {
    test_count=$((test_count + 1))
    print_line "ok $test_count - $1 # SKIP no container can be started here"
}

# As ok, unless an earlier test of this root has failed: the others would wait in vain.
step() { $is_broken || ok "$@"; }

has_no_compiler() {
    # shellcheck disable=SC2086
    is "$(in_booted sh -c 'command -v "$@"' - $compilers)" ""
}

# The files of the release, but no images.
copy_release() {
    mkdir -p "$1"
    find "$dist" -type f ! -name '*.oci.tar' -exec cp -t "$1" {} +
}

# The command that downloads what the packages need, since neither a booted root nor a container has a network. apt
# installs it when the commands of the page request it.
download() {
    print_line "cd /root/release; apt-get -qq install -y --download-only ./postgresql-${postgresql[$suite]}-clairon_*~deb${debian[$suite]}_*.deb" \
        "./clairon-relay_*~deb${debian[$suite]}_*.deb python3 curl"
}

# A bare root with systemd that starts services, with the files of the release.
make_target() {
    tests/tools/debian-root.sh copy "$roots/bare-$suite" "$target" || return
    rm -f "$target/usr/sbin/policy-rc.d" "$target/etc/postgresql-common/createcluster.conf"
    copy_release "$target/root/release" && in_target sh -ec "$(download)"
}

# Like the image of Debian, it starts no services.
make_image() {
    copy_release "$scratch/context" || return
    rm -rf "$engine/srv/context" "$engine/srv/clairon"
    mkdir "$engine/srv/clairon"
    mv "$scratch/context" "$engine/srv/" &&
        tests/images/engine.sh build "$engine" podman build -q -t tour -f - /srv/context <<END
FROM debian:13
COPY . /root/release/
RUN printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d && apt-get update -q
RUN $(download)
END
}

# With the network of its root, so that the browser reaches the loopback addresses.
start_container() {
    tests/images/engine.sh run "$engine" podman run --name tour --network host tour sleep infinity </dev/null >"$scratch/container" 2>&1 &
    wait_for container_runs $! || { cat "$scratch/container"; return 1; }
}

container_runs() {
    cat "/proc/$1/task/$1/children" >"$target.pid"
    in_booted true
}

halt() {
    for target in "${booted[@]}"; do
        tests/tools/debian-boot.sh stop "$target"
    done
    booted=()
    is_broken=false
}

# Leaves out the setting that an older minor release of PostgreSQL does not know.
settings_of() {
    local known
    known=$(in_booted "/usr/lib/postgresql/${postgresql[$suite]}/bin/postgres" --describe-config </dev/null | grep -c ^output_plugin_libraries) || true
    if [ "$known" = 1 ]; then cat; else grep -v output_plugin_libraries; fi
}

last_block_works() {
    local text output
    text=$(block docker/INSTALL.md '## A dedicated standby, from zero' 8)
    output=$(typed "$text") || { print_line "$output"; return 1; }
    grep -qF '"student_id":"u1"' <<<"$output" || { print_line "$output"; return 1; }
}

doctor_is_green() {
    in_booted clairon doctor -c /etc/clairon/relay.conf | tee /dev/stderr | grep -qx 'all checks passed'
}

check_one_machine() {
    local section="## One machine" began name="Debian ${debian[$suite]}"
    target=$scratch/one-$suite
    step "$name: a bare root" make_target
    booted+=("$target")
    step "$name: systemd starts" tests/tools/debian-boot.sh start "$target"
    step "$name: it has no compiler" has_no_compiler
    began=$SECONDS
    step "$name: the checksums are right" typed "$(block docker/INSTALL.md '## Install' 1 | grep sha256sum)"
    step "$name: the packages install" typed "$(block docker/INSTALL.md "$section" 1)"
    step "$name: PostgreSQL is configured" typed "$(block docker/INSTALL.md "$section" 2 | settings_of)"
    step "$name: the store is configured" typed "$(block docker/INSTALL.md "$section" 3)"
    step "$name: systemd starts the relay" typed "$(block docker/INSTALL.md "$section" 4)"
    step "$name: the unit is active" wait_for in_booted systemctl is-active -q clairon-relay
    step "$name: a row is delivered" last_block_works
    step "$name: the doctor has no findings" wait_for doctor_is_green
    step "$name: the relay survives SIGKILL" in_booted systemctl kill -s KILL clairon-relay
    step "$name: systemd starts it again" wait_for in_booted curl -sf http://127.0.0.1:8080/readyz
    step "$name: no compiler was installed" has_no_compiler
    print_line "# $name, from bare root to a green doctor: $(seconds_since "$began")"
    halt
}

# In the network of the root.
# shellcheck disable=SC2016
page_shows() {
    nsenter -t "$(($(<"$target.pid")))" --net /usr/bin/python3 tests/tools/show_page.py \
        http://localhost:3000/tour.html open "$(sed -n 's/^The page shows `\(.*\)`\. .*/\1/p' README.md)"
}

start_in_background() {
    if [ ${#container[@]} = 0 ]; then
        in_booted systemd-run -q --unit "$1" --working-directory=/root/release bash -ec "${2//sudo /}"
    else
        tests/tools/debian-boot.sh run "$target" podman exec -d --workdir /root/release tour bash -ec "${2//sudo /}"
    fi
}

tour_psql() { in_booted runuser -u postgres -- psql -XqAt -v ON_ERROR_STOP=1 "$@"; }

# for_containers N: README's N-th command for a container without systemd
# shellcheck disable=SC2016
for_containers() { typed "$(sed -n '/^In a new container without systemd/,/^$/p' README.md | grep -o '`[^`]*`' | tr -d '`' | sed -n "$1p")"; }

write_settings() { block README.md '### 4. Start the relay' 2 | in_booted tee /root/release/relay.conf; }
serves_page() { in_booted python3 -c 'import urllib.request; urllib.request.urlopen("http://localhost:3000/tour.html")'; }

# tour NAME: its steps in $target
tour() {
    local name=$1 began=$SECONDS page status=0
    step "$name: it has no compiler" has_no_compiler
    step "$name: step 1 installs" typed "$(block README.md '### 1. Install' 1)"
    if [ ${#container[@]} != 0 ]; then
        step "$name: PostgreSQL is started" for_containers 3
        step "$name: the store is started" for_containers 4
    fi
    step "$name: step 2 configures PostgreSQL" tour_psql postgres <<<"$(block README.md '### 2. Configure PostgreSQL' 1 | settings_of)"
    if [ ${#container[@]} != 0 ]; then
        step "$name: PostgreSQL is restarted" for_containers 5
    else
        step "$name: PostgreSQL is restarted" in_booted systemctl restart postgresql
    fi
    step "$name: there is a database" in_booted runuser -u postgres -- createdb app
    step "$name: step 3 creates a rule" tour_psql app <<<"$(block README.md '### 3. Choose the recipients' 1)"
    step "$name: step 4 configures the store" typed "$(block README.md '### 4. Start the relay' 1)"
    step "$name: step 4 writes the settings" write_settings
    step "$name: step 4 starts the relay" start_in_background tour-relay "$(block README.md '### 4. Start the relay' 3)"
    step "$name: step 4 finds no error" wait_for typed "$(block README.md '### 4. Start the relay' 4)"
    step "$name: step 5 serves the page" start_in_background tour-page "$(block README.md '### 5. Listen in the browser' 1)"
    $is_broken || wait_for serves_page
    page_shows >"$scratch/page" 2>&1 &
    page=$!
    step "$name: the page is connected" wait_for grep -qx open "$scratch/page"
    step "$name: step 6 writes rows" tour_psql app <<<"$(block README.md '### 6. Write rows' 1)"
    wait "$page" || status=$?
    step "$name: the page shows the rows" is "$status" 0
    step "$name: no compiler was installed" has_no_compiler
    print_line "# $name, from the first step to the last: $(seconds_since "$began")"
}

tour_in_root() {
    local name="Debian ${debian[$suite]}, the tour"
    target=$scratch/tour-$suite
    step "$name: a bare root" make_target
    booted+=("$target")
    step "$name: systemd starts" tests/tools/debian-boot.sh start "$target"
    tour "$name"
    halt
}

tour_in_container() {
    local suite=trixie name="a container, the tour"
    target=$engine
    step "$name: an image of Debian 13 with the files of the release" make_image
    booted+=("$target")
    container=(podman exec -i tour)
    step "$name: it is started" start_container
    tour "$name"
    halt
    container=()
}

run_tests() {
    rm -rf "$scratch"
    mkdir -p "$scratch"
    trap halt EXIT
    check_files
    for suite in ${SUITES:-bookworm trixie}; do
        DEBIAN_SUITE=$suite tests/tools/debian-root.sh make "$roots/bare-$suite" systemd-sysv dbus
        check_one_machine
        tour_in_root
    done
    if [ -n "${ENGINE_ROOT:-}" ]; then
        tour_in_container
        rm -rf "$engine/var/lib/containers" "$engine"/srv/*
    else
        skip "the tour in a container"
    fi
    print_line "1..$test_count"
}

run_tests
