# shellcheck shell=bash
# lib.sh: what the scripts of docker/, relay/tools and tests/ share. Sourced by bash, sets nothing but functions.

top_dir() {
    cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd
}

say() {
    printf '%s\n' "$*"
}

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# with_progress LOG COMMAND..: runs it with all its output in LOG. Whoever waits is shown every ten seconds
# how long it has taken, and the log's last line.
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

# watch_log LOG PROCESS: until that process ends. The sleeps are short and hold no pipe: nobody waits for them.
watch_log() {
    local began=$SECONDS next=$((SECONDS + 10)) last
    while sleep 1 >/dev/null 2>&1 && kill -0 "$2" 2>/dev/null; do
        [ "$SECONDS" -ge "$next" ] || continue
        next=$((SECONDS + 10))
        last=$(grep -av '^[[:blank:]]*$' "$1" | tail -n 1 | tr -cd '[:print:]' | cut -c1-100) || true
        printf '%6d s  %s\n' $((SECONDS - began)) "$last"
    done
}

# The PostgreSQL major to work with: the caller's wish, else the newest server
# that is installed, else what this distribution ships.
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

# pg_config of that major's own server package; the plain name is a fallback.
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

# The store's server: the caller's wish in STORE_SERVER, else the first there is, by
# preference; empty when there is none. (Not CLAIRON_STORE_..: those are settings.)
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

# What a PostgreSQL server below the private root $1 needs in postgresql.conf.
# output_plugin_libraries came with minor releases: a server that does not know
# it would refuse to start.
server_settings() {
    echo "wal_level = logical"
    echo "max_wal_senders = 10"
    echo "max_replication_slots = 10"
    if [ -n "$("$1/bin/postgres" --describe-config | sed -n '/^output_plugin_libraries/p')" ]; then
        echo "output_plugin_libraries = 'pgoutput, test_decoding, clairon'"
    fi
}
