#!/usr/bin/env bash
# operations.sh: does docker/OPERATIONS.md work, every command typed as it stands there?
#
# On Debian 13, from the packages, in a root and a network of their own: a primary, its standby, a store and
# the relay from zero, then what each alert says to type, then the drills. No systemd runs there: what the
# page types of systemctl and journalctl is done by two scripts in their place.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/roots.sh
. tests/roots.sh

target=$roots/operations # a copy of the clean root
page=docker/OPERATIONS.md
zero="## A dedicated standby, from zero"

in_target() { tests/tools/debian-root.sh run "$target" "$@"; }
sql() { in_target su postgres -c "psql -qXAt -p $1 -d app -c \"$2\""; }

# The N-th block of a section of the page.
block() {
    awk -v section="$1" -v wanted="$2" '/^##/ && !code { here = $0 == section; n = 0 }
        /^ *```/ { code = !code; n += code; next }
        here && code && n == wanted { sub(/^  +/, ""); print }' "$page"
}

# Typed line by line, as somebody would who looks at what each answers.
type_block() {
    local text
    text=$(block "$1" "$2")
    [ -n "$text" ] || { say "the page has no block $2 in \"$1\""; return 1; }
    in_target bash -e -o pipefail -c "$text" </dev/null
}

# What is typed there says something of its own, and no command is unknown or refused.
type_and_look() {
    local said
    said=$(in_target timeout --foreground 20 bash -c "$(block "$1" "$2")" 2>&1 </dev/null) || true
    say "$said"
    ! grep -qiE '(^|\()(error|err |noperm|wrongtype|fatal)|command not found|no such|unknown|invalid|usage:' <<<"$said"
}

put_helpers() {
    cat >"$target/usr/local/bin/systemctl" <<'END'
#!/bin/bash
# systemctl: starts, restarts and tells the relay, as its unit would.
file=/run/relay.pid
stop() {
    local pid deadline=$((SECONDS + 60))
    pid=$(cat $file)
    kill -s "$1" "$pid"
    while grep -qs '^State:.[^Z]' "/proc/$pid/status"; do
        [ $SECONDS -lt $deadline ] || { echo "the relay does not end" >&2; exit 1; }
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
    printf '#!/bin/sh\n# journalctl: what the relay said.\ncat /var/log/clairon\n' >"$target/usr/local/bin/journalctl"
    for name in redis-cli keydb-cli; do
        ln -sf valkey-cli "$target/usr/bin/$name"
    done
    chmod 755 "$target/usr/local/bin"/*
    : >"$target/var/log/clairon"
}

# The network needs this machine's; what runs later has one of its own.
make_target() {
    tests/tools/debian-root.sh copy "$clean" "$target" || return
    for name in postgresql-17-clairon clairon-relay; do
        cp "$root$place/build/deb/$name"_*.deb "$target/root/$name.deb"
    done
    quiet_apt install -y --no-install-recommends curl procps /root/postgresql-17-clairon.deb /root/clairon-relay.deb &&
        put_helpers
}

quiet_apt() { in_target env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" >/dev/null; }

# Both servers have one address: that of the page's network.
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

# The doctor before the relay was there: what it misses, in one line.
wrong() { sql 5433 "SELECT string_agg(check_name, ', ' ORDER BY check_name) FROM clairon.doctor() WHERE NOT ok"; }

is_well() { in_target clairon doctor -c /etc/clairon/relay.conf --quiet | grep -x 'all is well'; }
streams() { tail -n "+$1" "$target/var/log/clairon" | grep -q 'streaming from slot'; }
lines() { wc -l <"$target/var/log/clairon"; }

shown() {
    in_target bash -c "curl -s --max-time 20 -H \"Authorization: Bearer \$(clairon token --sub $1 -c /etc/clairon/relay.conf)\" \
        'http://127.0.0.1:8080/v1/poll?wait=1'" | grep -F "\"student_id\":\"$1\""
}

# A row written on the server of that port reaches who it is for.
arrives() {
    sql "$1" "INSERT INTO assignments VALUES ($2, 'u$2')" && wait_for shown "u$2"
}

check_zero() {
    local began=$SECONDS
    in_target pg_createcluster 17 main >/dev/null && in_target pg_ctlcluster 17 main start
    ok "the primary" type_primary
    ok "whom it lets in" allow
    ok "the standby" type_block "$zero" 3
    cp "$target/etc/postgresql/17/"{main,replica}/pg_hba.conf
    ok "which misses the slot and the rules, and nothing else" test "$(wrong)" = "rules, slots"
    ok "a store" start_store 6379
    ok "its user" type_block "$zero" 5
    block "$zero" 6 >"$target/etc/clairon/relay.conf"
    ok "the settings are valid" type_block_but_doctor
    ok "the relay starts" in_target systemctl enable --now clairon-relay
    ok "the relay makes its slot and reads it" wait_for streams 1
    ok "a rule, a row, and it arrives" type_and_find "$zero" 8 '"student_id":"u1"'
    ok "the doctor says that all is well" wait_for is_well
    say "# from zero to a safe standby in $((SECONDS - began)) s"
}

# As the page says: a minor that does not know output_plugin_libraries is not told of it.
type_primary() {
    local known
    known=$(in_target bash -c "$(block "## Install" 3)" || true)
    in_target bash -e -o pipefail -c "$(block "$zero" 1 | if [ "$known" = 1 ]; then cat; else grep -v output_plugin; fi)" </dev/null
}

# Its last line is the doctor, who misses rules at that time.
type_block_but_doctor() {
    in_target bash -e -o pipefail -c "$(block "$zero" 7 | grep -v 'clairon doctor')" </dev/null
}

type_and_find() {
    local said
    said=$(in_target bash -c "$(block "$1" "$2")" 2>&1 </dev/null)
    grep -qF -- "$3" <<<"$said" || { say "$said"; return 1; }
}

check_runbook() {
    local section n
    for section in "## When an alert fires" "## Monitoring" "## Backup" $(sed -n 's/^### \(Clairon[A-Za-z]*\)$/\1/p' "$page"); do
        [[ $section == "##"* ]] || section="### $section"
        for n in 1 2 3 4; do
            [ -n "$(block "$section" "$n")" ] || continue
            # Prometheus is not here, nor is a certificate.
            [[ ! $section$n =~ ^##\ Monitoring[12]$|Certificate ]] || continue
            ok "${section##*# }, block $n: each command is one" type_and_look "$section" "$n"
        done
    done
    wait_for streams 1
    ok "and after all of it the relay serves" arrives 5432 101
}

check_drills() {
    local from
    from=$(lines)
    ok "a relay is killed" type_block "### A relay dies" 1
    ok "the next one reads on" wait_for streams "$((from + 1))"
    ok "a row after it arrives" arrives 5432 102
    ok "a failover slot takes the place of the standby's own" type_failover_slot
    ok "a row arrives by way of the primary" arrives 5432 103
    ok "the slot is copied" wait_for is_copied
    ok "the primary is lost, its standby promoted" type_block "### PostgreSQL fails over to the standby that feeds the relay" 1
    ok "a row of the new primary arrives" arrives 5433 104
    start_store 6380 --replicaof 127.0.0.1 6379
    in_target bash -c "$(block "$zero" 5 | sed 's/redis-cli/& -p 6380/')" >/dev/null
    wait_for is_replica
    in_target redis-cli -p 6379 shutdown nosave >/dev/null 2>&1
    from=$(lines)
    ok "the store is lost, its replica made the primary" in_target bash -e -c "$(block "### A store fails" 1 | tail -n +2)"
    ok "the relay reads on" wait_for streams "$((from + 1))"
    ok "a row arrives by the new store" arrives 5433 105
    ok "the doctor says that all is well" wait_for is_well
    ok "in all of this nobody was told of a gap" no_gap
}

# A gap that everyone is told of is an epoch of the store's.
no_gap() {
    grep -E 'epoch|level=warn' "$target/var/log/clairon" || true
    is "$(grep -oE 'connected, epoch [0-9a-f]+' "$target/var/log/clairon" | sort -u | wc -l)" 1 &&
        is "$(grep -E 'told of|level=error' "$target/var/log/clairon")" ""
}

type_failover_slot() {
    printf 'host app standby 10.0.0.0/24 scram-sha-256\n' >>"$target/etc/postgresql/17/main/pg_hba.conf"
    in_target su postgres -c "psql -qXAtc 'SELECT pg_reload_conf()'" &&
        type_block "### PostgreSQL fails over to another server" 1 || return
    sed -i -e '/^primary_conninfo/d' -e 's/^conninfo = .*/conninfo = host=primary,replica port=5432,5433 dbname=app user=relay password=relay-secret target_session_attrs=read-write/' \
        "$target/etc/clairon/relay.conf"
    in_target systemctl enable --now clairon-relay
}

is_copied() { sql 5433 "SELECT synced FROM clairon.status" | grep -x t; }

# The primary and the store have other ports by now.
check_removal() {
    ok "all of it is taken away" in_target bash -e -o pipefail -c "$(block "## Uninstall" 1 |
        sed -e 's/psql -d/psql -p 5433 -d/' -e 's/redis-cli/& -p 6380/g')" </dev/null
    ok "nothing is left in the store" is "$(in_target redis-cli -p 6380 dbsize)" 0
    ok "no slot holds WAL" is "$(sql 5433 'SELECT count(*) FROM pg_replication_slots')" 0
}

is() { [ "$1" = "$2" ] || { say "got: $1, expected: $2"; false; }; }
is_replica() { in_target bash -c "$(block "### A store fails" 1 | head -1)" | grep -q status:up; }

stop_all() {
    local each
    {
        in_target systemctl stop clairon-relay
        for each in 6379 6380; do in_target redis-cli -p "$each" shutdown nosave; done
        for each in replica main; do in_target pg_ctlcluster 17 "$each" stop -m immediate; done
    } >/dev/null 2>&1 || true
}

# In a network of its own.
run_typed() {
    trap stop_all EXIT
    raise_network || return
    check_zero
    check_runbook
    check_drills
    check_removal
    say "1..$taken"
}

# What runs there needs /proc and a network of its own, which not every container may have.
may_be_alone() { in_target test -r /proc/self/status && unshare --net ip link set lo up; }

run_tests() {
    if ! make_target; then
        say "not ok - the root of the page of operations"
    elif ! may_be_alone 2>/dev/null; then
        say "1..0 # SKIP the page of operations: no mounts, or no network, of its own may be made here"
    else
        unshare --net "$0" typed || say "not ok - the page of operations"
    fi
    rm -rf "$target"
}

case ${1:-} in
    typed) run_typed ;;
    '') run_tests ;;
    *) die "usage: operations.sh" ;;
esac
