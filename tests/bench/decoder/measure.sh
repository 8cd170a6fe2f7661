#!/usr/bin/env bash
# measure.sh: decodes the same WAL with clairon and other plugins, and prints the cost of each.
# Called by run.sh and `make bench`, through tests/tools/unprivileged.sh, after `make bench-tools`.
set -euo pipefail
cd "$(dirname "$0")/../../.."
# shellcheck source=tests/env.sh
. tests/env.sh

all_workloads="small narrow copy wide toast spill watch"
all_contenders="null byte test_decoding wal2json1 wal2json2 pgoutput pgoutput-binary"
all_contenders+=" clairon clairon-columns clairon-text clairon-before"

usage() {
    cat <<EOF
usage: tests/bench/decoder/run.sh [OPTION..]
  -w NAME,..   workloads: $all_workloads (default: all)
  -c NAME,..   contenders: $all_contenders
               (default: all that are installed)
  -r N         measured rounds (default 3)
  -s FACTOR    size of the workloads (default CLAIRON_BENCH_SCALE, else 1)
  -k           keep the loaded clusters, and reuse clusters that were kept
  --perf       instead of measuring, print a CPU profile, by perf
EOF
}

workloads=$all_workloads contenders=$all_contenders rounds=3
scale=${CLAIRON_BENCH_SCALE:-1} keep=false perf=false
spill_scale=${CLAIRON_BENCH_SPILL:-1} # additional factor for the size of the workload `spill`
while [ $# -gt 0 ]; do
    case $1 in
        -w) workloads=${2//,/ } && shift ;;
        -c) contenders=${2//,/ } && shift ;;
        -r) rounds=$2 && shift ;;
        -s) scale=$2 && shift ;;
        -k) keep=true ;;
        --perf) perf=true ;;
        -h | --help) usage && exit ;;
        *) usage >&2 && exit 2 ;;
    esac
    shift
done

folder=tests/bench/decoder
root=$CLAIRON_TOP/build/bench/root
library=$root$("$(pg_config_path)" --pkglibdir)
receive=$CLAIRON_TOP/build/bench/receive
home=$CLAIRON_WORK/bench-decoder
results=$home/results
most_seconds=1800
export PATH="$root/bin:$PATH" PGUSER=bench PGDATABASE=bench PGOPTIONS='-c client_min_messages=warning'

# Sets `plugin`, its `options`, and `rules`, which selects one of the workload's two clusters.
describe() {
    rules=plain
    case $1 in
        null) plugin=bench_null options= ;;
        byte) plugin=bench_byte options= ;;
        test_decoding) plugin=test_decoding options= ;;
        wal2json1) plugin=wal2json options="\"format-version\" '1'" ;;
        wal2json2) plugin=wal2json options="\"format-version\" '2'" ;;
        pgoutput) plugin=pgoutput options="proto_version '1', publication_names 'bench'" ;;
        pgoutput-binary)
            plugin=pgoutput options="proto_version '1', publication_names 'bench', binary 'true'"
            ;;
        clairon) plugin=clairon options="mode 'framed'" ;;
        clairon-columns) plugin=clairon options="mode 'framed'" rules=columns ;;
        clairon-text) plugin=clairon options="mode 'text'" ;;
        clairon-before) plugin=clairon_before options="mode 'framed'" ;;
        *) die "unknown contender \"$1\"; valid are $all_contenders" ;;
    esac
}

# ---- clusters: one per workload and rule set, so that the WAL contains only this workload

# Prints the size of a workload.
scale_of() {
    if [ "$1" = spill ]; then awk "BEGIN { print $scale * $spill_scale }"; else echo "$scale"; fi
}

# Sets `port` and `cluster`.
locate() {
    cluster=$home/$1-$2
    [ "$2" = plain ] && port=5432 || port=5433
    export PGPORT=$port
}

start() {
    [ ! -S "$sockets/.s.PGSQL.$port" ] || return 0
    stop "$cluster" # a killed run may have left a server
    pg_ctl -D "$cluster/data" -l "$cluster/log" -w -s -o "-k $sockets -p $port" start 9>&- ||
        die "the server did not start; its log is $cluster/log"
}

stop() {
    [ ! -e "$1/data/postmaster.pid" ] || pg_ctl -D "$1/data" -m immediate -s -w stop || true
}

settings() {
    server_settings "$root" | sed "s/^\(output_plugin_libraries = '.*\)'/\1, wal2json, bench_null, bench_byte, clairon_before'/"
    cat <<EOF
listen_addresses = ''
fsync = off
synchronous_commit = off
full_page_writes = off
autovacuum = off
jit = off
shared_buffers = 256MB
max_wal_size = 100GB
checkpoint_timeout = 1d
logical_decoding_work_mem = 2GB
EOF
}

load() {
    local workload=$1 kind=$2 want found columns=off
    want=$({ scale_of "$workload" && postgres --version && settings &&
        cat "$folder/workloads/$workload.sql" "$folder/workloads/begin.sql" sql/tables.sql sql/rules.sql; } | cksum)
    found=$(cat "$cluster/loaded" 2>/dev/null || true)
    if [ "$want" != "$found" ]; then
        echo "loading $workload ($kind)" >&2
        stop "$cluster"
        rm -rf "$cluster"
        mkdir -p "$cluster"
        initdb -D "$cluster/data" -U bench -A trust --no-sync --locale=C --encoding=UTF8 >"$cluster/log"
        settings >>"$cluster/data/postgresql.conf"
        start
        createdb bench
        psql -X -q -c 'CREATE EXTENSION clairon'
        [ "$kind" = plain ] || columns=on
        psql -X -q -v ON_ERROR_STOP=1 -v scale="$(scale_of "$workload")" -v columns="$columns" \
            -v directory="$cluster" -f "$folder/workloads/$workload.sql" >/dev/null
        psql -X -At -c 'SELECT pg_current_wal_insert_lsn()' >"$cluster/end"
        psql -X -q -c 'CHECKPOINT'
        echo "$want" >"$cluster/loaded"
    fi
    start
}

finish() {
    local kind
    for kind in plain columns; do
        stop "$home/$1-$kind"
        $keep || rm -rf "$home/$1-$kind"
    done
}

# ---- measuring

# Runs the receiver under the given command.
read_wal() {
    timeout "$most_seconds" "$@" "$receive" \
        "host=$sockets port=$port dbname=bench user=bench replication=database" \
        bench "$plugin" "$(cat "$cluster/end")" "$options"
}

# The server restarts after a plugin has crashed.
await_server() {
    local deadline=$((SECONDS + 60))
    until pg_isready -q; do
        [ "$SECONDS" -lt "$deadline" ] || die "the server did not restart; its log is $cluster/log"
        sleep 0.1
    done
}

declare -A failed

# Runs one measurement. A contender that failed is not run again on this workload.
measure() {
    local workload=$1 round=$2 name=$3 line status=0
    [ -z "${failed[$workload/$name]:-}" ] || return 0
    line=$(read_wal 2>"$home/errors") || status=$?
    if [ "$status" = 0 ]; then
        [ "$round" = 0 ] || echo "run $workload $name $line" >>"$results"
        awk -v what="$workload, round $round, $name" \
            '{ printf "%s: %.2f s CPU, %.2f s\n", what, $1 / 1e9, $2 / 1e9 }' <<<"$line" >&2
    else
        failed[$workload/$name]=1
        [ "$status" != 124 ] || echo "not done within $most_seconds s" >>"$home/errors"
        echo "failed $workload $name $(head -1 "$home/errors")" >>"$results"
        echo "$workload, round $round, $name: $(head -1 "$home/errors")" >&2
        await_server
    fi
}

# Prints a profile of the walsender. perf follows the postmaster's children.
profile() {
    local workload=$1 name=$2 data=$home/perf-$1-$2.data columns
    read_wal perf record -q -g -o "$data" -p "$(head -1 "$cluster/data/postmaster.pid")" -- >/dev/null
    echo "== $workload, $name: share of the walsender's time by library, then by function"
    echo "   (call chains: perf report -i $data)"
    [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -le 1 ] ||
        echo "   (kernel time excluded; sysctl kernel.perf_event_paranoid=1 includes it)"
    for columns in overhead,dso overhead,dso,sym; do
        perf report -i "$data" --no-children -g none -F "$columns" --percent-limit 0.5 --stdio 2>/dev/null |
            sed '/^#/d; /^$/d; s/ *$//' | head -50
        echo
    done
}

available() {
    local name
    for name in $contenders; do
        describe "$name"
        if [ -e "$library/$plugin.so" ]; then
            echo "$name"
        elif [ "$contenders" != "$all_contenders" ] || [ "$plugin" = wal2json ]; then
            echo "$name is skipped: no $library/$plugin.so" >&2
        fi
    done
}

bench() {
    local workload=$1 round name
    local title part=''
    title=$(sed -n '1s/^-- //p' "$folder/workloads/$workload.sql")
    [ "$(scale_of "$workload")" = "$scale" ] || part=", scaled by $spill_scale"
    echo "workload $workload $title$part" >>"$results"
    for name in "${names[@]}"; do
        describe "$name"
        locate "$workload" "$rules"
        load "$workload" "$rules"
    done
    for ((round = 0; round <= rounds; round++)); do
        for name in "${names[@]}"; do
            describe "$name"
            locate "$workload" "$rules"
            if $perf; then
                profile "$workload" "$name"
            else
                measure "$workload" "$round" "$name"
            fi
            # One run is enough to warm the caches, or for a profile.
            if [ "$round" = 0 ] && ! $perf && [ "$name" = "${names[0]}" ]; then break; fi
        done
        ! $perf || break
    done
    finish "$workload"
}

[[ "$scale $spill_scale" =~ ^[0-9]*\.?[0-9]+\ [0-9]*\.?[0-9]+$ && $rounds =~ ^[1-9][0-9]*$ ]] || die "-s requires a number, -r a count"
for name in $contenders; do describe "$name"; done
for name in $workloads; do
    [ -e "$folder/workloads/$name.sql" ] || die "unknown workload \"$name\"; valid are $all_workloads"
done
! $perf || command -v perf >/dev/null || die "perf is not installed; Debian's package is linux-perf"
mkdir -p "$home"
exec 9>"$home/lock"
flock -n 9 || die "another bench runs in $home"
sockets=$(mktemp -d)
export PGHOST=$sockets
trap 'for name in $workloads; do finish "$name"; done; rm -rf "$sockets"' EXIT
trap 'exit 130' INT TERM
mapfile -t names < <(available)
[ ${#names[@]} -gt 0 ] || die "no contender is installed"
echo "scale $scale" >"$results"
for name in $workloads; do bench "$name"; done
$perf || perl "$folder/report.pl" "$results"
