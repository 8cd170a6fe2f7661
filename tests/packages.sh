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
is() { [ "$1" = "$2" ] || { print_line "got: $1, expected: $2"; false; }; }

files() { (cd "$target" && find . -xdev \( -path ./proc -o -path ./var/cache -o -path ./var/lib/apt -o -path ./var/log \
    -o -path ./tmp -o -path ./run -o -path ./root \) -prune -o -print | sort); }

# Builds a package like $1 with another version, after the script $3 has changed its files.
repack() {
    local deb=$1 version=$2 change=$3 folder=$target/root/repack
    rm -rf "$folder"
    dpkg-deb -R "$deb" "$folder"
    sed -i "s/^Version: .*/Version: $version/" "$folder/DEBIAN/control"
    (cd "$folder" && eval "$change")
    dpkg-deb -b "$folder" "$target/root/$(basename "$deb" .deb)_$version.deb" >/dev/null
}

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
        CREATE TABLE t (id int PRIMARY KEY); SELECT clairon.watch('t', 'ALL')" >/dev/null &&
        sed -i -e 's,^conninfo = .*,conninfo = host=/tmp port=5999 dbname=app user=clairon,' \
            -e 's,^#url = .*,url = unix:///tmp/store,' \
            -e 's,^#listen = .*,listen = unix:/run/clairon/gate,' "$target/etc/clairon/relay.conf"
}

# Runs with the unit's user, runtime directory and command.
start_relay() {
    local user
    user=$(unit_setting User)
    in_target install -d -o "$user" -g "$user" "/run/$(unit_setting RuntimeDirectory)"
    # shellcheck disable=SC2046
    tests/tools/debian-root.sh run "$target" setpriv --reuid="$user" --regid="$(unit_setting Group)" --clear-groups --no-new-privs \
        --bounding-set=-all --inh-caps=-all $(unit_setting ExecStart) >"$target/tmp/relay.log" 2>&1 &
    echo $! >"$target/tmp/relay.pid"
    wait_for in_store "$1" || { cat "$target/tmp/relay.log"; return 1; }
}

stop_relay() {
    kill -TERM "$(<"$target/tmp/relay.pid")" &&
        wait_for grep 'msg="drained"' "$target/tmp/relay.log" &&
        wait_for test ! -e "/proc/$(<"$target/tmp/relay.pid")" && rm "$target/tmp/relay.pid"
}

# in_store N: succeeds if the slot is active and the stream has N entries.
in_store() {
    sql "SELECT count(*) FROM pg_replication_slots WHERE active" | grep -qx 1 &&
        is "$(in_target valkey-cli -s /tmp/store XLEN clairon:stream)" "$1"
}

stop_all() {
    [ ! -e "$target/tmp/relay.pid" ] || stop_relay
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
    ok "the relay starts with the unit's command" start_relay 0
    ok "a row is written" sql "INSERT INTO t VALUES (1)"
    ok "the row is stored" wait_for in_store 1
    ok "the relay drains" stop_relay
}

check_upgrade() {
    local before
    before=$(sha256sum "$target"/etc/clairon/*)
    repack "$target/root/clairon-relay.deb" 0.1.1-1 true
    # A later version: an upgrade script, and the control file with its version.
    repack "$target/root/postgresql-17-clairon.deb" 0.1.1-1 "cd usr/share/postgresql/17/extension
        echo \"COMMENT ON EXTENSION clairon IS 'of tomorrow'\" >clairon--0.1.0--0.1.1.sql
        sed -i \"s/'0.1.0'/'0.1.1'/\" clairon.control"
    ok "newer packages install" apt_install /root/postgresql-17-clairon_0.1.1-1.deb /root/clairon-relay_0.1.1-1.deb
    ok "configuration and secret are unchanged" is "$(sha256sum "$target"/etc/clairon/*)" "$before"
    ok "the owner and mode are unchanged" is "$(mode_of /etc/clairon/relay.conf)" "640 root clairon"
    ok "the relay starts again" start_relay 1
    ok "the extension is updated" sql "ALTER EXTENSION clairon UPDATE"
    ok "the extension has the newer version" is "$(sql "SELECT extversion FROM pg_extension WHERE extname = 'clairon'")" 0.1.1
    ok "its rules still apply" sql "INSERT INTO t VALUES (2)"
    ok "later rows are stored" wait_for in_store 2
}

check_removal() {
    stop_all
    in_target rm -rf /run/clairon
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
