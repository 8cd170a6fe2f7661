#!/usr/bin/env bash
# demo.sh: runs PostgreSQL, the store, the relay and the demo page until Ctrl-C.
#
#   docker/demo.sh            starts everything; `make demo` builds first, then calls it
#   docker/demo.sh traffic    writes to a running demo
#
# All data is in CLAIRON_DEMO_DIR (default: .demo of the checkout). Remove that
# directory to start from scratch. CLAIRON_DEMO_RELAY_PORT and CLAIRON_DEMO_PAGE_PORT (8080, 8088) are
# the first ports to try. Everything listens on localhost only.
set -euo pipefail
# shellcheck source=relay/tools/lib.sh
. "$(dirname "$0")/../relay/tools/lib.sh"

top=$(top_dir)
root=$top/build/root
dir=${CLAIRON_DEMO_DIR:-$top/.demo}
stop_seconds=15
relay_restarts_left=5
names=()       # running children, in start order
declare -A pid # process id by name
export LC_ALL=C.UTF-8
unset PGHOST PGPORT PGUSER PGDATABASE PGSERVICE PGOPTIONS PGDATA

# ---- children

# start NAME COMMAND..: runs COMMAND in a new session, so that Ctrl-C reaches only this script, and with a TERM signal
# if this script dies. Children do not inherit the lock descriptors: 9 is used by the demo, 7 by
# tests/tools/unprivileged.sh.
start() {
    local name=$1
    shift
    setsid setpriv --pdeathsig TERM -- "$@" </dev/null >>"$dir/log/$name.log" 2>&1 7>&- 9>&- &
    pid[$name]=$!
    [[ " ${names[*]} " == *" $name "* ]] || names+=("$name")
}

alive() {
    kill -0 "${pid[$1]}" 2>/dev/null
}

# ready NAME SECONDS COMMAND..: waits until COMMAND succeeds; fails if NAME exits first.
ready() {
    local name=$1 deadline=$((SECONDS + $2))
    shift 2
    until "$@" >/dev/null 2>&1; do
        alive "$name" || fail "$name exited during startup"
        [ "$SECONDS" -lt "$deadline" ] || fail "$name was not ready in time"
        sleep 0.05
    done
}

stop_one() {
    local name=$1 signal=TERM deadline=$((SECONDS + stop_seconds))
    [ "$name" != postgresql ] || signal=INT
    kill -s "$signal" "${pid[$name]}" 2>/dev/null || return 0
    while alive "$name"; do
        if [ "$SECONDS" -ge "$deadline" ]; then
            print_line "   $name did not stop within $stop_seconds s, killed"
            kill -s KILL "${pid[$name]}" 2>/dev/null || true
            break
        fi
        sleep 0.05
    done
    wait "${pid[$name]}" 2>/dev/null || true
}

stop_all() {
    local i
    trap '' INT TERM HUP
    for ((i = ${#names[@]} - 1; i >= 0; i--)); do
        stop_one "${names[i]}"
    done
    [ ${#names[@]} = 0 ] || rm -f "$dir/address" "$dir/dsn"
    names=()
}

on_signal() {
    print_line ""
    print_line "stopping: ${names[*]}"
    stop_all
    print_line "stopped; the data is kept in $dir"
    exit 0
}

# fail TEXT: prints TEXT and the last lines of the log that its first word names, and exits.
fail() {
    local log=$dir/log/${1%% *}.log
    print_line "" >&2
    print_line "demo: $1" >&2
    if [ -s "$log" ]; then
        print_line "last lines of $log:" >&2
        tail -n 15 "$log" | cut -c1-300 | sed 's/^/    /' >&2
    fi
    stop_all
    exit 1
}

# ---- small tools

step() {
    printf '%6s s  %s\n' "$(seconds_since_start)" "$*"
}

seconds_since_start() {
    local now=${EPOCHREALTIME//[.,]/}
    printf '%d.%d' $(((now - started_us) / 1000000)) $(((now - started_us) / 100000 % 10))
}

# free_port FIRST [TAKEN]: prints the first free port at or after FIRST, except TAKEN.
free_port() {
    /usr/bin/python3 - "$1" "${2:-0}" <<'EOF'
import socket, sys
first, used = map(int, sys.argv[1:])
for port in range(first, min(first + 200, 65536)):
    if port == used:
        continue
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        print(port)
        break
else:
    sys.exit(f"no free port at or after {first}")
EOF
}

# report_port NAME WANTED USED
report_port() {
    [ "$2" = "$3" ] || step "port $2 is in use: the $1 listens on $3"
}

# http_ok PORT PATH: succeeds if a GET returns status 200.
http_ok() {
    local line
    exec 8<>"/dev/tcp/127.0.0.1/$1" || return 1
    printf 'GET %s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nConnection: close\r\n\r\n' "$2" "$1" >&8
    read -r -t 2 line <&8 || line=
    exec 8<&- 8>&-
    [[ $line == "HTTP/1."?" 200"* ]]
}

sql() {
    "$root/bin/psql" -X -q -A -t -v ON_ERROR_STOP=1 -h "$run" -U postgres "$@"
}

# ---- components

prepare_folder() {
    mkdir -p "$dir/log" 2>/dev/null || true
    [ -w "$dir/log" ] || die "$dir is not writable by $(id -un)"
    chmod 700 "$dir"
    exec 9>>"$dir/lock"
    if ! flock -n 9; then
        die "a demo is already running: $(cat "$dir/address" 2>/dev/null || echo 'it is still starting')"
    fi
    rm -f "$dir/address" "$dir/dsn"
    # The path of a unix socket is limited to about 100 bytes.
    run=$dir/run
    [ ${#run} -le 70 ] || run=/tmp/clairon-demo-$(id -u)-$(cksum <<<"$dir" | cut -d' ' -f1)
    [ -d "$run" ] || mkdir -m 700 "$run"
    [ -O "$run" ] || die "$run is owned by another user; remove it"
}

check_parts() {
    local part
    for part in "$root/bin/postgres" "$top/build/clairon"; do
        [ -x "$part" ] || die "$part not found; 'make demo' builds it"
    done
    store=$(store_server)
    [ -n "$store" ] || die "keydb-server, valkey-server or redis-server not found; 'make deps' installs one"
}

start_postgresql() {
    local data=$dir/postgresql major
    major=$("$root/bin/postgres" --version | sed 's/.* \([0-9]*\)[.a-z].*/\1/')
    if [ -s "$data/PG_VERSION" ] && [ "$(cat "$data/PG_VERSION")" != "$major" ]; then
        die "$data was created by PostgreSQL $(cat "$data/PG_VERSION"), this is $major; remove $dir to start from scratch"
    fi
    if [ ! -s "$data/PG_VERSION" ]; then
        step "creating a database cluster in $data"
        rm -rf "$data" "$data.new"
        "$root/bin/initdb" -D "$data.new" -U postgres -A trust -E UTF8 --locale=C.UTF-8 --no-sync \
            >"$dir/log/initdb.log" 2>&1 || fail "initdb failed"
        echo "include = 'demo.conf'" >>"$data.new/postgresql.conf"
        mv "$data.new" "$data"
    fi
    {
        server_settings "$root"
        echo "listen_addresses = ''"
        echo "unix_socket_directories = '$run'"
        echo "port = 5432"
        echo "shared_buffers = 64MB"
        echo "max_slot_wal_keep_size = 2GB"
    } >"$data/demo.conf"
    step "starting PostgreSQL $major"
    start postgresql "$root/bin/postgres" -D "$data"
}

start_store() {
    local options=(--port 0 --unixsocket "$run/store.sock" --unixsocketperm 700 --dir "$dir/store"
        --appendonly yes --appendfsync everysec --save "" --maxmemory-policy noeviction)
    case $store in
        *keydb-server) options+=(--server-threads 1) ;;
    esac
    mkdir -p "$dir/store"
    rm -f "$run/store.sock"
    step "starting the store ($(basename "$store"))"
    start store "$store" "${options[@]}"
}

# Succeeds if the store responds and has loaded its dataset.
store_ready() {
    /usr/bin/python3 - "$run/store.sock" <<'EOF'
import socket, sys
with socket.socket(socket.AF_UNIX) as link:
    link.settimeout(2)
    link.connect(sys.argv[1])
    link.sendall(b"INFO persistence\r\n")
    text = b""
    while b"\nloading:" not in text or not text.endswith(b"\n"):
        text += link.recv(65536) or sys.exit(1)
sys.exit(b"\nloading:0" not in text)
EOF
}

prepare_database() {
    local example
    if [ -z "$(sql -d postgres -c "SELECT 1 FROM pg_database WHERE datname = 'demo'")" ]; then
        step "creating database, extension, roles and slot"
        sql -d postgres -c 'CREATE DATABASE demo'
    fi
    sql -d demo >"$dir/log/database.log" 2>&1 <<'EOF' || fail "database could not be prepared"
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS clairon;
SELECT NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'relay') AS is_new \gset
\if :is_new
CREATE ROLE relay LOGIN REPLICATION IN ROLE clairon_relay;
CREATE ROLE demo LOGIN IN ROLE clairon_app;
GRANT CREATE, USAGE ON SCHEMA public TO demo;
\endif
SELECT pg_create_logical_replication_slot('clairon', 'clairon')
WHERE NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = 'clairon');
EOF
    # The cluster keeps a copy of each loaded example, so that changed examples are loaded again.
    for example in eportfolio inbox message bank bank_actor; do
        ! cmp -s "$top/sql/examples/$example.sql" "$dir/postgresql/$example.sql" || continue
        step "loading sql/examples/$example.sql"
        sql -d demo -f "$top/sql/examples/$example.sql" >>"$dir/log/database.log" 2>&1 ||
            fail "database could not load sql/examples/$example.sql"
        cp "$top/sql/examples/$example.sql" "$dir/postgresql/"
    done
    sql -d demo -c 'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO demo' \
        -c 'GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO demo'
}

write_config() {
    if [ ! -s "$dir/secret" ]; then
        (umask 077 && head -c 48 /dev/urandom | base64 -w0 >"$dir/secret")
    fi
    if [ ! -s "$dir/vapid.pem" ]; then
        (umask 077 && "$top/build/clairon" vapid >"$dir/vapid.pem")
    fi
    cat >"$dir/relay.conf" <<EOF
# Written by docker/demo.sh at each start.
[feed]
conninfo = host=$run port=5432 dbname=demo user=relay
slot = clairon
create_slot = on

[store]
url = unix://$run/store.sock

[gate]
listen = 127.0.0.1:$relay_port
origins = http://127.0.0.1:$page_port,http://localhost:$page_port
console = on
notice = 0s
drain = 1s

[auth]
hs256_secret_file = $dir/secret

[receipts]
sql = on

[webpush]
vapid_key_file = $dir/vapid.pem
subject = mailto:demo@example.org
app_url = http://127.0.0.1:$page_port/examples/messages.html
EOF
}

start_relay() {
    step "starting the relay"
    start relay "$top/build/clairon" relay -c "$dir/relay.conf"
}

start_page() {
    step "starting the page"
    start page /usr/bin/python3 "$top/client/demo/app.py" --listen "127.0.0.1:$page_port" \
        --relay "http://127.0.0.1:$relay_port" --dsn "$dsn" --secret-file "$dir/secret"
}

# Components start in parallel, except the relay, which needs the slot.
start_all() {
    start_store
    start_page
    start_postgresql
    ready postgresql 60 "$root/bin/pg_isready" -q -h "$run"
    ready store 60 store_ready
    prepare_database
    start_relay
    ready relay 30 http_ok "$relay_port" /readyz
    ready page 30 http_ok "$page_port" /
}

# ---- the whole demo

announce() {
    local admin
    admin=$("$top/build/clairon" token --sub me --admin --publish --ttl 12h -c "$dir/relay.conf")
    printf '%s\n' "$dsn" >"$dir/dsn"
    printf 'http://127.0.0.1:%s\n' "$page_port" >"$dir/address"
    step "ready"
    cat <<EOF

    The page:        http://127.0.0.1:$page_port
    The relay:       http://127.0.0.1:$relay_port  (/v1/ws, /healthz, /metrics)
    The console:     http://127.0.0.1:$relay_port/console#token=$admin
                     (for 12 hours; another token: $top/build/clairon token --sub me --admin --publish -c $dir/relay.conf)
    Examples:        http://127.0.0.1:$page_port/examples/minimal.html?user=u1, and live.html, inbox.html, messages.html,
                     the sources are in $top/client/examples
    SQL:             $root/bin/psql '$dsn'
                     (user=postgres instead is the superuser, for clairon.member and clairon.doctor())
                     UPDATE assignments SET status = 'graded', grade = 17 WHERE student_id = 'u1';
    Your own table:  CREATE TABLE tasks (id int PRIMARY KEY, owner text, title text);
                     SELECT clairon.watch('tasks', 'USER', 'owner');
                     INSERT INTO tasks VALUES (1, 'u1', 'try it');
                     The page shows the row to Ana Lima, who is u1. For your own page, see $top/client/README.md
    More changes:    make demo-traffic
    Logs:            $dir/log

Ctrl-C stops everything; the data is kept.
EOF
}

# When the terminal closes, only the session leader receives SIGHUP: make, which waits for this script. So this script
# checks the terminal.
watch_terminal() {
    (exec 6</dev/tty && exec setpriv --pdeathsig TERM /usr/bin/python3 -c 'import os, select, signal
terminal = select.poll()
terminal.register(6, 0)
terminal.poll()
os.kill(os.getppid(), signal.SIGHUP)') 2>/dev/null 7>&- 9>&- &
}

# Waits for a child to exit. A killed relay is restarted, as a service manager would do;
# if another child exits, the demo stops.
supervise() {
    local ended status name
    while :; do
        status=0
        wait -n -p ended "${pid[@]}" 2>/dev/null || status=$?
        for name in "${names[@]}"; do
            [ "${pid[$name]}" = "${ended:-}" ] || continue
            if [ "$name" = relay ] && [ "$status" -gt 128 ] && [ "$relay_restarts_left" -gt 0 ]; then
                relay_restarts_left=$((relay_restarts_left - 1))
                step "the relay was killed by signal $((status - 128))"
                start_relay
                continue 2
            fi
            fail "$name exited (status $status)"
        done
    done
}

run_traffic() {
    [ -s "$dir/dsn" ] || die "no running demo; start 'make demo' in another terminal first"
    exec /usr/bin/python3 "$top/client/demo/traffic.py" --dsn "$(cat "$dir/dsn")" "$@"
}

main() {
    case ${1:-} in
        traffic)
            shift
            run_traffic "$@"
            ;;
        "") ;;
        *) die "unknown argument \"$1\"; usage: demo.sh [traffic]" ;;
    esac
    [ "$(id -u)" != 0 ] || die "PostgreSQL does not run as root; use tests/tools/unprivileged.sh docker/demo.sh"
    started_us=${EPOCHREALTIME//[.,]/}
    check_parts
    prepare_folder
    trap on_signal INT TERM HUP
    trap stop_all EXIT
    watch_terminal
    relay_port=$(free_port "${CLAIRON_DEMO_RELAY_PORT:-8080}")
    page_port=$(free_port "${CLAIRON_DEMO_PAGE_PORT:-8088}" "$relay_port")
    report_port relay "${CLAIRON_DEMO_RELAY_PORT:-8080}" "$relay_port"
    report_port page "${CLAIRON_DEMO_PAGE_PORT:-8088}" "$page_port"
    dsn="host=$run port=5432 dbname=demo user=demo"
    write_config
    start_all
    announce
    supervise
}

main "$@"
