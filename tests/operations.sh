#!/usr/bin/env bash
# operations.sh: tests that every command of the pages in docker/ works as printed.
#
# It runs on Debian 13, from the packages, in a separate root and network. It sets up a primary, its standby, a store
# and the relay from zero, then runs the commands of each alert, then the drills. There is no systemd: two scripts
# replace systemctl and journalctl.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/roots.sh
. tests/roots.sh

target=$roots/operations # a copy of the clean root
pages=(docker/{INSTALL,MONITORING,UPGRADE,FAILOVER,RUNBOOKS}.md) # their headings differ
zero="## A dedicated standby, from zero"

in_target() { tests/tools/debian-root.sh run "$target" "$@"; }
sql() { in_target su postgres -c "psql -qXAt -p $1 -d app -c \"$2\""; }

# block SECTION N: prints the N-th code block of a section of a page.
block() {
    awk -v section="$1" -v wanted="$2" 'FNR == 1 { in_section = 0 }
        /^##/ && !code { in_section = $0 == section; n = 0 }
        /^ *```/ { code = !code; n += code; next }
        in_section && code && n == wanted { sub(/^  +/, ""); print }' "${pages[@]}"
}

# typed SECTION N: the block, after the definition of $CLI in its page.
typed() {
    local page
    page=$(grep -lxF -- "$1" "${pages[@]}")
    grep '^CLI=' "$page" || true
    block "$1" "$2"
}

# Runs a block as a shell script that stops at the first error.
run_block() {
    local text
    text=$(block "$1" "$2")
    [ -n "$text" ] || { print_line "the pages have no code block $2 in \"$1\""; return 1; }
    in_target bash -e -o pipefail -c "$(typed "$1" "$2")" </dev/null
}

# Runs a block and checks that its output has no error and no unknown command. At the end of its WAL, a standby
# logs an invalid record; this is not an error.
run_and_check() {
    local output
    output=$(in_target timeout --foreground 120 bash -c "$(typed "$1" "$2")" 2>&1 </dev/null) || true
    print_line "$output"
    output=$(grep -v 'LOG:  invalid record length' <<<"$output") || true
    ! grep -qiE '(^|\()(error|err |noperm|wrongtype|fatal)|command not found|no such|unknown|\binvalid\b|usage:' <<<"$output"
}

put_helpers() {
    cat >"$target/usr/local/bin/systemctl" <<'END'
#!/bin/bash
# systemctl: starts, stops and signals the relay, as its unit does.
file=/run/relay.pid
stop() {
    local pid deadline=$((SECONDS + 300))
    pid=$(cat $file)
    kill -s "$1" "$pid"
    while grep -qs '^State:.[^Z]' "/proc/$pid/status"; do
        [ $SECONDS -lt $deadline ] || { echo "the relay does not stop" >&2; exit 1; }
        sleep 0.1
    done
}
start() {
    setsid setpriv --reuid=clairon --regid=clairon --clear-groups clairon relay -c /etc/clairon/relay.conf \
        </dev/null >>/var/log/clairon 2>&1 &
    echo $! >$file
}
case "$*" in
    *clairon-relay*) ;;
    *) exit 0 ;;
esac
case $1 in
    enable) start ;;
    restart) stop TERM; start ;;
    status) tail -1 /var/log/clairon ;;
    stop | disable) stop TERM ;;
    kill)
        while [ "$1" != -s ]; do shift; done
        if [ "$2" = KILL ]; then stop KILL; start; else kill -s "$2" "$(cat $file)"; fi
        ;;
esac
END
    printf '#!/bin/sh\n# journalctl: prints the log of the relay.\ncat /var/log/clairon\n' >"$target/usr/local/bin/journalctl"
    chmod 755 "$target/usr/local/bin"/*
    : >"$target/var/log/clairon"
}

# The installation uses this machine's network; later commands have a separate one.
make_target() {
    tests/tools/debian-root.sh copy "$clean" "$target" || return
    for name in postgresql-17-clairon clairon-relay; do
        cp "$root$checkout/build/deb/$name"_*.deb "$target/root/$name.deb"
    done
    quiet_apt install -y --no-install-recommends curl procps /root/postgresql-17-clairon.deb /root/clairon-relay.deb &&
        put_helpers
}

quiet_apt() { in_target env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" >/dev/null; }

# Both servers share one address in the network that the page uses.
raise_network() {
    ip link set lo up && ip address add 10.0.0.5/24 dev lo &&
        printf '127.0.0.1 localhost\n10.0.0.5 primary replica\n' >"$target/etc/hosts"
}

allow() {
    block "$zero" 2 >>"$target/etc/postgresql/17/main/pg_hba.conf" &&
        in_target su postgres -c "psql -qXAtc 'SELECT pg_reload_conf()'" >/dev/null
}

start_store() {
    local port=$1
    shift
    mkdir -p "$target/var/lib/store$port"
    { block "$zero" 4; printf 'port %s\ndir /var/lib/store%s\ndaemonize yes\npidfile /run/store%s.pid\n' "$port" "$port" "$port"; } \
        >"$target/etc/store$port.conf"
    in_target valkey-server "/etc/store$port.conf" "$@" >/dev/null
}

# The names of the failed checks, on one line.
failed_checks() { sql 5433 "SELECT string_agg(check_name, ', ' ORDER BY check_name) FROM clairon.doctor() WHERE NOT ok"; }

has_no_findings() { in_target clairon doctor -c /etc/clairon/relay.conf --quiet | grep -x 'all checks passed'; }
streams() { tail -n "+$1" "$target/var/log/clairon" | grep -q 'streaming from slot'; }
lines() { wc -l <"$target/var/log/clairon"; }

is_received() {
    in_target bash -c "curl -s --max-time 20 -H \"Authorization: Bearer \$(clairon token --sub $1 -c /etc/clairon/relay.conf)\" \
        'http://127.0.0.1:8080/v1/poll?wait=1'" | grep -F "\"student_id\":\"$1\""
}

# Writes a row on the server of that port and waits for its notification.
is_delivered() {
    sql "$1" "INSERT INTO assignments VALUES ($2, 'u$2')" && wait_for is_received "u$2"
}

check_zero() {
    local began=$SECONDS
    in_target pg_createcluster 17 main >/dev/null && in_target pg_ctlcluster 17 main start
    ok "set up the primary" set_up_primary
    ok "pg_hba.conf of the primary is extended" allow
    ok "set up the standby" run_block "$zero" 3
    cp "$target/etc/postgresql/17/"{main,replica}/pg_hba.conf
    ok "the doctor reports only the missing slot and rules" test "$(failed_checks)" = "rules, slots"
    ok "start the store" start_store 6379
    ok "create the store's user" run_block "$zero" 5
    block "$zero" 6 >"$target/etc/clairon/relay.conf"
    ok "the configuration is valid" run_block_without_doctor
    ok "the relay starts" in_target systemctl enable --now clairon-relay
    ok "the relay creates and reads its slot" wait_for streams 1
    ok "a row with a rule is delivered" run_and_find "$zero" 8 '"student_id":"u1"'
    ok "the doctor has no findings" wait_for has_no_findings
    print_line "# from zero to a safe standby in $((SECONDS - began)) s"
}

# As the page describes, skip output_plugin_libraries on a minor release without this setting.
set_up_primary() {
    local known
    known=$(in_target bash -c "$(block "## Install" 3)" || true)
    in_target bash -e -o pipefail -c "$(block "$zero" 1 | if [ "$known" = 1 ]; then cat; else grep -v output_plugin; fi)" </dev/null
}

# Without the last line, because the doctor would report the missing rules.
run_block_without_doctor() {
    in_target bash -e -o pipefail -c "$(block "$zero" 7 | grep -v 'clairon doctor')" </dev/null
}

run_and_find() {
    local output
    output=$(in_target bash -c "$(typed "$1" "$2")" 2>&1 </dev/null)
    grep -qF -- "$3" <<<"$output" || { print_line "$output"; return 1; }
}

# Finds the client of each store by the first command of a page.
finds_client() {
    in_target bash -c "folder=\$(mktemp -d) && ln -s /usr/bin/valkey-cli \$folder/$1 && PATH=\$folder
        $(grep -h '^CLI=' "${pages[@]}" | sort -u)
        [ \"\$CLI\" = \$folder/$1 ]"
}

check_runbook() {
    local section n name runbooks
    for name in redis-cli valkey-cli keydb-cli; do
        ok "the pages find $name" finds_client $name
    done
    mapfile -t runbooks < <(grep '^### ' docker/RUNBOOKS.md)
    for section in "## When an alert fires" "## Monitoring" "## Backup" "${runbooks[@]}"; do
        for n in 1 2 3 4; do
            [ -n "$(block "$section" "$n")" ] || continue
            # Prometheus and a certificate are not available.
            [[ ! $section$n =~ ^##\ Monitoring[12]$|Certificate ]] || continue
            ok "${section##*# }, block $n: the commands work" run_and_check "$section" "$n"
        done
    done
    wait_for streams 1
    ok "the relay still delivers" is_delivered 5432 101
    ok "upgrade the extension" run_block "## Upgrade" 2
}

check_drills() {
    local from
    from=$(lines)
    ok "kill a relay" run_block "### A relay dies" 1
    ok "the next relay reads the slot" wait_for streams "$((from + 1))"
    ok "a new row is delivered" is_delivered 5432 102
    ok "a failover slot replaces the standby's slot" create_failover_slot
    ok "a row is delivered from the primary" is_delivered 5432 103
    ok "the slot is synchronized" wait_for is_synchronized
    ok "promote the standby after the loss of the primary" run_block "### PostgreSQL fails over to the standby that feeds the relay" 1
    ok "a row of the new primary is delivered" is_delivered 5433 104
    start_store 6380 --replicaof 127.0.0.1 6379
    in_target bash -c "$(typed "$zero" 5 | sed 's/^[$]CLI/& -p 6380/')" >/dev/null
    wait_for is_replica
    in_target valkey-cli -p 6379 shutdown nosave >/dev/null 2>&1
    from=$(lines)
    ok "promote the replica after the loss of the store" in_target bash -e -c "$(typed "### A store fails" 1 | grep -v master_link_status)"
    ok "the relay reads the slot again" wait_for streams "$((from + 1))"
    ok "a row is delivered with the new store" is_delivered 5433 105
    ok "the doctor has no findings" wait_for has_no_findings
    ok "no client received a gap" no_gap
}

# A gap for all clients means a new store epoch.
no_gap() {
    grep -E 'epoch|level=warn' "$target/var/log/clairon" || true
    is "$(grep -oE 'msg="?store connected"? epoch="?[0-9a-f]+' "$target/var/log/clairon" | sort -u | wc -l)" 1 &&
        is "$(grep -E 'receive a gap|level=error' "$target/var/log/clairon")" ""
}

create_failover_slot() {
    printf 'host app standby 10.0.0.0/24 scram-sha-256\n' >>"$target/etc/postgresql/17/main/pg_hba.conf"
    in_target su postgres -c "psql -qXAtc 'SELECT pg_reload_conf()'" &&
        run_block "### PostgreSQL fails over to another server" 1 || return
    sed -i -e '/^primary_conninfo/d' -e 's/^conninfo = .*/conninfo = host=primary,replica port=5432,5433 dbname=app user=relay password=relay-secret target_session_attrs=read-write/' \
        "$target/etc/clairon/relay.conf"
    in_target systemctl enable --now clairon-relay
}

is_synchronized() { sql 5433 "SELECT synced FROM clairon.status" | grep -x t; }

# After the drills, the primary and the store have other ports.
check_removal() {
    ok "uninstall" in_target bash -e -o pipefail -c "$(typed "## Uninstall" 1 |
        sed -e 's/psql -d/psql -p 5433 -d/' -e 's/[$]CLI/& -p 6380/g')" </dev/null
    ok "the store is empty" is "$(in_target valkey-cli -p 6380 dbsize)" 0
    ok "no slot retains WAL" is "$(sql 5433 'SELECT count(*) FROM pg_replication_slots')" 0
}

is_replica() { in_target bash -c "$(typed "### A store fails" 1 | head -2)" | grep -q status:up; }

stop_all() {
    local each
    {
        in_target systemctl stop clairon-relay
        for each in 6379 6380; do in_target valkey-cli -p "$each" shutdown nosave; done
        for each in replica main; do in_target pg_ctlcluster 17 "$each" stop -m immediate; done
    } >/dev/null 2>&1 || true
}

# Runs in a separate network namespace.
run_typed() {
    trap stop_all EXIT
    raise_network || return
    check_zero
    check_runbook
    check_drills
    check_removal
    print_line "1..$test_count"
}

# The commands need /proc and a network namespace, which some containers do not permit.
can_isolate() { in_target test -r /proc/self/status && unshare --net ip link set lo up; }

run_tests() {
    if ! make_target; then
        print_line "not ok - the root for the operations pages"
    elif ! can_isolate 2>/dev/null; then
        print_line "1..0 # SKIP the operations pages: mounts or network namespaces are not permitted"
    else
        unshare --net "$0" typed || print_line "not ok - the operations pages"
    fi
    rm -rf "$target"
}

case ${1:-} in
    typed) run_typed ;;
    '') run_tests ;;
    *) die "usage: operations.sh" ;;
esac
