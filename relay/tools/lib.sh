# shellcheck shell=bash
# lib.sh: functions shared by the scripts of relay/tools, docker/ and tests/. Source it from bash; it only defines functions.

top_dir() {
    cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd
}

# The version of the sources.
source_version() {
    sed -n 's/^#define CLAIRON_VERSION "\(.*\)"$/\1/p' "$(top_dir)/decoder/protocol/version.h"
}

print_line() {
    printf '%s\n' "$*"
}

# pause FIFO SECONDS: waits between two polls without starting a process. A read of FIFO times out, because nothing is
# written to it. The first call creates FIFO.
pause() {
    [ -p "$1" ] || mkfifo "$1" 2>/dev/null || { sleep "$2"; return; }
    read -rt "$2" _ <>"$1" || true
}

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# with_progress LOG COMMAND..: runs COMMAND with its output in LOG. Every ten seconds it prints the
# elapsed time and the last line of the log.
with_progress() {
    local log=$1 watcher status=0
    shift
    : >"$log"
    watch_log "$log" "$BASHPID" &
    watcher=$!
    "$@" >"$log" 2>&1 || status=$?
    kill "$watcher" 2>/dev/null || true
    wait "$watcher" 2>/dev/null || true
    return "$status"
}

# watch_log LOG PID: prints progress until the process ends. The sleeps are short and do not inherit the caller's pipes,
# so readers of the pipes are not delayed.
watch_log() {
    local began=$SECONDS next=$((SECONDS + 10)) last
    while sleep 1 >/dev/null 2>&1 && kill -0 "$2" 2>/dev/null; do
        [ "$SECONDS" -ge "$next" ] || continue
        next=$((SECONDS + 10))
        last=$(grep -av '^[[:blank:]]*$' "$1" | tail -n 1 | tr -cd '[:print:]' | cut -c1-100) || true
        printf '%6d s  %s\n' $((SECONDS - began)) "$last"
    done
}

# Prints the PostgreSQL major version to use: PG_MAJOR, else the version of PG_CONFIG, else of the newest installed
# server, else of this distribution.
pg_major() {
    local found
    if [ -n "${PG_MAJOR:-}" ]; then
        echo "$PG_MAJOR"
        return
    fi
    if [ -n "${PG_CONFIG:-}" ] && found=$("$PG_CONFIG" --version 2>/dev/null); then
        found=${found#PostgreSQL }
        echo "${found%%[!0-9]*}"
        return
    fi
    found=$(printf '%s\n' /usr/lib/postgresql/[0-9]*/bin/postgres | cut -d/ -f5 | sort -n | tail -1)
    found=${found##\[*}
    echo "${found:-$(pg_major_default)}"
}

pg_major_default() {
    local VERSION_ID=
    [ -r /etc/os-release ] && . /etc/os-release
    case ${VERSION_ID:-} in
        12) echo 15 ;;
        13) echo 17 ;;
        *)
            VERSION_ID=$(apt-cache depends postgresql 2>/dev/null |
                sed -n 's/.*Depends: postgresql-\([0-9]*\)$/\1/p' | head -1)
            echo "${VERSION_ID:-17}"
            ;;
    esac
}

# Prints PG_CONFIG, else the path of pg_config in the server package of that major version, else pg_config.
pg_config_path() {
    local own
    own=/usr/lib/postgresql/$(pg_major)/bin/pg_config
    if [ -n "${PG_CONFIG:-}" ]; then
        echo "$PG_CONFIG"
    elif [ -x "$own" ]; then
        echo "$own"
    else
        echo pg_config
    fi
}

# Prints the store's server program: STORE_SERVER, else the first installed one in order of preference, else nothing.
# (CLAIRON_STORE_.. variables are settings of the relay.)
store_server() {
    local name
    if [ -n "${STORE_SERVER:-}" ]; then
        echo "$STORE_SERVER"
        return
    fi
    for name in keydb-server valkey-server redis-server; do
        if command -v "$name"; then
            return
        fi
    done
    return 0
}

# Prints the postgresql.conf settings for a server in the private root $1.
# output_plugin_libraries was added in minor releases; older servers do not start with it.
server_settings() {
    echo "wal_level = logical"
    echo "max_wal_senders = 10"
    echo "max_replication_slots = 10"
    if [ -n "$("$1/bin/postgres" --describe-config | sed -n '/^output_plugin_libraries/p')" ]; then
        echo "output_plugin_libraries = 'pgoutput, test_decoding, clairon'"
    fi
}
