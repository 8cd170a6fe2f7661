#!/usr/bin/env bash
# packages.sh: tests that the Debian packages install, run as their unit specifies, upgrade, and purge completely.
#
# Built and installed on Debian 13, in separate roots. There is no systemd: its tools verify the
# unit, and the relay is started with the unit's command line, as the unit's user.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/roots.sh
. tests/roots.sh

target=$roots/packages # a copy of the clean root with clairon installed
unit=/usr/lib/systemd/system/clairon-relay.service

in_target() { tests/tools/debian-root.sh run "$target" "$@"; }
as_postgres() { in_target setpriv --reuid=postgres --regid=postgres --init-groups "$@"; }
sql() { as_postgres psql -qXAt -h /tmp -p 5999 -v ON_ERROR_STOP=1 -c "$1" app; }
apt_install() { in_target env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends "$@"; }
unit_setting() { sed -n "s/^$1=//p" "$target$unit"; }
script_of() { echo "$target/var/lib/dpkg/info/clairon-relay.$1"; }
mode_of() { in_target stat -c '%a %U %G' "$1"; }

files() { (cd "$target" && find . -xdev \( -path ./proc -o -path ./var/cache -o -path ./var/lib/apt -o -path ./var/log \
    -o -path ./tmp -o -path ./run -o -path ./root \) -prune -o -print | sort); }

# ---- a made-up next version

version=$(source_version)
next=${version%.*}.$((${version##*.} + 1))

# Compiles the sources of the next version: those of this one, and an upgrade script.
compile_next() {
    local folder=$root$checkout/build/next
    inside rm -rf build/next
    inside cp -a "$source" build/next
    sed -i "s/$version/$next/" "$folder/decoder/protocol/version.h"
    mkdir -p "$folder/sql/upgrade"
    cat >"$folder/sql/upgrade/clairon--$version--$next.sql" <<'END'
ALTER TABLE clairon.rule ADD COLUMN remark text;
CREATE FUNCTION clairon.remark(rule text) RETURNS text LANGUAGE sql AS 'SELECT remark FROM clairon.rule WHERE name = $1';
END
    inside make -s -C build/next prefix=/usr DESTDIR="$checkout/build/next/out" install
}

# next_package NAME FILE..: the package like that of this version, with other files of the next version.
next_package() {
    local name=$1 folder=$target/root/repack out=$root$checkout/build/next/out
    shift
    rm -rf "$folder"
    dpkg-deb -R "$target/root/$name.deb" "$folder"
    sed -i "s/^Version: .*/Version: $next-1/" "$folder/DEBIAN/control"
    rm -f "$folder"/usr/share/postgresql/17/extension/*
    (cd "$out" && cp -r --parents "$@" "$folder")
    mkdir -p "$target/srv/next"
    dpkg-deb -b "$folder" "$target/srv/next/${name}_$next-1.deb" >/dev/null
}

# A repository with both packages, which apt upgrades from.
make_repository() {
    compile_next &&
        next_package clairon-relay usr/bin/clairon &&
        next_package postgresql-17-clairon usr/lib/postgresql/17/lib/clairon.so usr/share/postgresql/17/extension || return
    (cd "$target/srv/next" && dpkg-scanpackages -m . 2>/dev/null >Packages) &&
        echo 'deb [trusted=yes] file:/srv/next ./' >"$target/etc/apt/sources.list.d/next.list"
}

apt_upgrade() {
    local only=(-o Dir::Etc::SourceList=/etc/apt/sources.list.d/next.list -o Dir::Etc::SourceParts=/dev/null)
    in_target apt-get -qq "${only[@]}" update &&
        in_target env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "${only[@]}" upgrade -y
}

# request NAME PATH OPTION..: a request to the relay, as u1.
request() {
    local name=$1 path=$2 token
    shift 2
    token=$(in_target clairon token --sub u1 -c /etc/clairon/relay.conf)
    curl -sf --unix-socket "$target/run/clairon/$name" -H "Authorization: Bearer $token" "$@" "http://relay$path"
}

# The ids of the rows that a new client of the relay receives.
rows_of() { request "$1" '/v1/poll?wait=1' | grep -o '"after":{"id":[0-9]*' | grep -o '[0-9]*$' | sort -n | paste -sd ' '; }

delivers() { is "$(rows_of "$1")" "$2"; }

# What an upgrade must keep.
state() { sql "SELECT * FROM clairon.member; SELECT name, audience, ack_required FROM clairon.rules; SELECT slot_name FROM pg_replication_slots"; }

# Sets up a server, a database, the relay's role and its configuration, as an operator would.
set_up() {
    as_postgres /usr/lib/postgresql/17/bin/initdb -D /tmp/data -A trust >/dev/null &&
        printf '%s\n' "wal_level = logical" "port = 5999" "listen_addresses = ''" \
            "unix_socket_directories = '/tmp'" "output_plugin_libraries = 'clairon'" \
            >>"$target/tmp/data/postgresql.conf" &&
        as_postgres /usr/lib/postgresql/17/bin/pg_ctl -D /tmp/data -l /tmp/log -w start &&
        as_postgres createdb -h /tmp -p 5999 app || return
    in_target valkey-server --port 0 --unixsocket /tmp/store --unixsocketperm 777 --save '' \
        --daemonize yes --pidfile /tmp/store.pid >/dev/null
    sql "CREATE EXTENSION clairon; CREATE ROLE clairon LOGIN REPLICATION IN ROLE clairon_relay;
        CREATE TABLE t (id int PRIMARY KEY, team text);
        SELECT clairon.watch('t', 'TEAM', 'team', ack_required => true)" >/dev/null &&
        sql "INSERT INTO clairon.member VALUES ('TEAM', 'red', 'u1')" &&
        sed -i -e 's,^conninfo = .*,conninfo = host=/tmp port=5999 dbname=app user=clairon,' \
            -e 's,^#url = .*,url = unix:///tmp/store,' "$target/etc/clairon/relay.conf"
}

# start_relay NAME: runs with the unit's user, runtime directory and command, on a separate socket.
start_relay() {
    local user
    user=$(unit_setting User)
    in_target install -d -o "$user" -g "$user" "/run/$(unit_setting RuntimeDirectory)"
    # shellcheck disable=SC2046
    tests/tools/debian-root.sh run "$target" setpriv --reuid="$user" --regid="$(unit_setting Group)" --clear-groups --no-new-privs \
        --bounding-set=-all --inh-caps=-all $(unit_setting ExecStart) "--gate.listen=unix:/run/clairon/$1" >"$target/tmp/$1.log" 2>&1 &
    echo $! >"$target/tmp/$1.relay"
    wait_for grep -q 'msg="listening"' "$target/tmp/$1.log" || { cat "$target/tmp/$1.log"; return 1; }
}

stop_relay() {
    kill -TERM "$(<"$target/tmp/$1.relay")" &&
        wait_for grep 'msg="drained"' "$target/tmp/$1.log" &&
        wait_for test ! -e "/proc/$(<"$target/tmp/$1.relay")" && rm "$target/tmp/$1.relay"
}

# in_store N: succeeds if the slot is active and the stream has N entries.
in_store() {
    sql "SELECT count(*) FROM pg_replication_slots WHERE active" | grep -qx 1 &&
        is "$(in_target valkey-cli -s /tmp/store XLEN clairon:stream)" "$1"
}

stop_all() {
    local file
    for file in "$target"/tmp/*.relay; do
        [ ! -e "$file" ] || stop_relay "$(basename "$file" .relay)"
    done
    [ ! -e "$target/tmp/store.pid" ] || in_target valkey-cli -s /tmp/store SHUTDOWN NOSAVE >/dev/null 2>&1
    [ ! -e "$target/tmp/data/postmaster.pid" ] ||
        as_postgres /usr/lib/postgresql/17/bin/pg_ctl -D /tmp/data -m immediate stop >/dev/null
}

prints_nothing() {
    local output
    output=$("$@" 2>&1) || { print_line "$output"; return 1; }
    [ -z "$output" ] || { print_line "$output"; return 1; }
}

# Prints the broken links of the installed pages.
broken_links() {
    local docs=$target/usr/share/doc/clairon-relay page link
    for page in README.md docs/*.md client/README.md client/PROTOCOL.md decoder/FRAMES.md sql/README.md \
        docker/*.md; do
        for link in $(grep -oE '\]\([^)#:]+\)' "$docs/$page" | tr -d '])('); do
            [ -e "$docs/$(dirname "$page")/$link" ] || print_line "$page: $link"
        done
    done
}

check_documents() {
    local docs=$target/usr/share/doc
    ok "every link of the pages has a target" prints_nothing broken_links
    ok "the client's files are complete" test -e "$docs/clairon-relay/client/dist/rows.js" -a -e "$docs/clairon-relay/client/LICENSE"
    ok "the plugin's package has the page of its functions" grep -q '^clairon.watch(' "$docs/postgresql-17-clairon/README.md"
    ok "and links only to its own files" is "$(grep -c '](\.\./' "$docs/postgresql-17-clairon/README.md")" 0
    ok "bash completes the commands" in_target bash -c '. /usr/share/bash-completion/completions/clairon && complete -p clairon'
    ok "the man page lists every setting" is \
        "$(in_target zcat /usr/share/man/man1/clairon.1.gz | sed -n 's/\\//g; /^.SH RELAY/,/^.SH SIGNALS/p' | grep -oE -- '--[a-z]+\.[a-z_0-9]+=[A-Z]+')" \
        "$(in_target clairon relay --help | grep -oE -- '--[a-z]+\.[a-z_0-9]+=[A-Z]+')"
}

# make install and make uninstall, without packages, of what was built for the packages.
check_by_hand() {
    local there=/var/tmp/by-hand
    inside rm -rf "$there"
    ok "make install uses DESTDIR" inside make -s -C "$source" install DESTDIR="$there"
    ok "program, plugin and pages are installed" inside test -x "$there/usr/local/bin/clairon" -a \
        -e "$there/usr/lib/postgresql/17/lib/clairon.so" -a -e "$there/usr/local/share/doc/clairon/docker/OPERATIONS.md"
    ok "make uninstall succeeds" inside make -s -C "$source" uninstall DESTDIR="$there"
    ok "no file remains" is "$(inside find "$there" -not -type d)" ""
    ok "the build context of the images is complete" python3 tests/images/check.py context "$(realpath -m "$roots/context")"
}

check_unit() {
    ok "systemd-analyze verify accepts the unit" prints_nothing in_target systemd-analyze verify --man=no "$unit"
    ok "the unit's exposure is at most 1.5 of 10" in_target systemd-analyze security --offline=yes --no-pager --threshold=15 "$unit"
    print_line "# $(in_target systemd-analyze security --offline=yes --no-pager "$unit" | tail -1)"
    ok "an upgrade restarts the unit with deb-systemd-invoke" grep -q "deb-systemd-invoke.*clairon-relay.service" "$(script_of postinst)"
    ok "a removal stops the unit" grep -q "deb-systemd-invoke stop.*clairon-relay.service" "$(script_of prerm)"
}

check_install() {
    local version
    version=$(server_version "$clean")
    ok "the plugin requires at least the minor release that it was built with" \
        is "$(dpkg-deb -f "$target/root/postgresql-17-clairon.deb" Depends | grep -o 'postgresql-17 ([^)]*)')" "postgresql-17 (>= ${version%%-*})"
    ok "the packages install" apt_install /root/postgresql-17-clairon.deb /root/clairon-relay.deb
    ok "the configuration is readable only by root and the relay" is "$(mode_of /etc/clairon/relay.conf)" "640 root clairon"
    ok "the secret is readable only by root and the relay" is "$(mode_of /etc/clairon/secret)" "640 root clairon"
    ok "the secret is long enough" test "$(wc -c <"$target/etc/clairon/secret")" -gt 32
    ok "server, store and configuration are set up" set_up
    ok "the relay starts with the unit's command" start_relay old
    ok "it reads its slot" wait_for in_store 0
    ok "a row is written" sql "INSERT INTO t VALUES (1, 'red')"
    ok "the row is stored" wait_for in_store 1
}

check_upgrade() {
    local before files
    before=$(state)
    files=$(sha256sum "$target"/etc/clairon/*)
    ok "the next version is built" make_repository
    ok "apt upgrades both packages while a relay runs" apt_upgrade
    ok "the newer program is installed" is "$(in_target clairon --version)" "clairon $next"
    ok "configuration and secret are unchanged" is "$(sha256sum "$target"/etc/clairon/*)" "$files"
    ok "the owner and mode are unchanged" is "$(mode_of /etc/clairon/relay.conf)" "640 root clairon"

    ok "the older relay still stores rows" sql "INSERT INTO t VALUES (2, 'red')"
    ok "exactly once" wait_for in_store 2
    ok "a relay of the newer version starts next to it" start_relay new
    ok "it delivers what the older one stored" wait_for delivers new "1 2"
    ok "the older relay delivers the same" delivers old "1 2"
    ok "a user acknowledges at the newer relay" acknowledge new 1
    ok "the older relay no longer delivers that row" wait_for delivers old "2"

    ok "the older relay drains" stop_relay old
    ok "the newer relay reads the slot, with the newer plugin and the older SQL" sql "INSERT INTO t VALUES (3, 'red')"
    ok "the row is stored once" wait_for in_store 3
    ok "the extension is updated while the relay runs" sql "ALTER EXTENSION clairon UPDATE"
    ok "the extension has the newer version" is "$(sql "SELECT extversion, clairon.version() FROM pg_extension WHERE extname = 'clairon'")" "$next|$next"
    ok "rules, members and the slot are the same" is "$(state)" "$before"
    ok "the doctor finds the same version everywhere" is "$(sql "SELECT ok FROM clairon.doctor() WHERE check_name = 'extension'")" t
    ok "rules still apply" sql "INSERT INTO t VALUES (4, 'red')"
    ok "the row is stored once, too" wait_for in_store 4
    ok "members still receive rows" wait_for delivers new "2 3 4"
    ok "the newer relay creates no other slot" is "$(grep -c 'msg="slot created"' "$target/tmp/new.log")" 0
    ok "the relay is restarted" stop_relay new
    ok "another relay of the newer version continues" start_relay last
    ok "the acknowledged row does not come back" wait_for delivers last "2 3 4"
}

# acknowledge NAME ROW
acknowledge() {
    local id
    id=$(request "$1" '/v1/poll?wait=1' | grep -F "\"after\":{\"id\":$2," | grep -o '"metadata":{"id":"[^"]*' | cut -d'"' -f6)
    request "$1" /v1/ack -X POST -H 'Content-Type: application/json' -d "{\"ids\":[\"$id\"]}"
}

check_removal() {
    stop_all
    in_target rm -rf /run/clairon /srv/next
    ok "the packages are removed" in_target env DEBIAN_FRONTEND=noninteractive apt-get -qq remove -y clairon-relay postgresql-17-clairon
    ok "the configuration is kept" test -e "$target/etc/clairon/relay.conf"
    ok "the packages are purged" in_target env DEBIAN_FRONTEND=noninteractive apt-get -qq purge -y clairon-relay postgresql-17-clairon
    ok "no file remains" is "$(files | grep -i clairon)" ""
    ok "the user is removed" is "$(grep clairon "$target"/etc/passwd "$target"/etc/group "$target"/etc/shadow)" ""
}

run_tests() {
    local name
    tests/tools/debian-root.sh copy "$clean" "$target"
    for name in postgresql-17-clairon clairon-relay; do
        cp "$root$checkout/build/deb/$name"_*.deb "$target/root/$name.deb"
    done
    trap stop_all EXIT
    check_by_hand
    check_install
    check_documents
    check_unit
    check_upgrade
    check_removal
    print_line "1..$test_count"
    rm -rf "$target"
}

run_tests
