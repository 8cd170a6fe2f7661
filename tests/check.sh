#!/usr/bin/env bash
# check.sh: runs layers of tests in parallel and counts the results.
#
#   tests/check.sh [unit] [model] [regress] [isolation] [sanitized] [tap] [client] [e2e]
#                  [root] [replica] [packages] [operations] [images] [release] [asan]
#
#   TESTS='FILE..'    runs only these files of the layers unit, tap, client and e2e:
#                     make check-tap TESTS=tests/tap/gate/workers_share_a_port.pl
#   LAYERS=N          runs N layers at a time and prints the output of each when it ends, in the order of the
#                     arguments. A single layer, or LAYERS=1, prints while it runs.
#   TIMES=N           prints the wall and CPU seconds of each layer, the N slowest files (1: 20), and the N TAP files
#                     that need most CPU time
#
# A failed layer does not stop the others. A layer without tests is a failure. The last line is the
# total. Run it with tests/tools/unprivileged.sh: PostgreSQL does not run as root.
# shellcheck disable=SC2317 # layers are called by name
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=tests/env.sh
. tests/env.sh
# shellcheck source=tests/bounded.sh
. tests/bounded.sh

logs=$CLAIRON_WORK/log
mkdir -p "$logs" "$CLAIRON_WORK/home"
total_passed=0 total_failed=0 total_skipped=0

# files_of PATTERN: the matching test files, limited to TESTS if it is set.
files_of() {
    local file
    for file in $1; do
        [ -e "$file" ] || continue
        [ -z "${TESTS:-}" ] || [[ " $TESTS " == *" $file "* ]] || continue
        echo "$file"
    done
}

# A name in TESTS that is not a test file would run no test.
check_tests() {
    local name word near
    for name in ${TESTS:-}; do
        case $name in
            tests/unit/*/test_*.c | tests/fuzz/fuzz_*.c | tests/tap/*/*.pl | client/tests/*.test.js | tests/e2e/test_*.py)
                [ ! -e "$name" ] || continue
                ;;
        esac
        word=${name##*/}
        near=$(find tests/unit tests/fuzz tests/tap tests/e2e client/tests -type f -name "*${word%%.*}*" \
            \( -name 'test_*.c' -o -name 'fuzz_*.c' -o -name '*.pl' -o -name '*.test.js' -o -name 'test_*.py' \) | sort | head -n 5)
        die "TESTS: \"$name\" is not a test file${near:+; did you mean $(tr '\n' ' ' <<<"$near")}"
    done
}

# ---- the layers: each prints the output of its tests and returns non-zero on a failure

layer_unit() {
    local source program status=0
    for source in $(files_of 'tests/unit/*/test_*.c'); do
        program=build/asan/${source%.c}
        echo "# $program"
        timed "$source" unit_program "$program" || status=1
    done
    for source in $(files_of 'tests/fuzz/fuzz_*.c'); do
        program=build/asan/${source%.c}
        echo "# $program"
        timed "$source" unit_program "$program" "tests/fuzz/corpus/${program##*/fuzz_}" || status=1
    done
    return "$status"
}

# timed FILE COMMAND..: runs COMMAND and prints a line with its seconds, as prove and tests/e2e/parallel.py do.
timed() {
    local file=$1 began=${EPOCHREALTIME/./} status=0
    shift
    "$@" || status=$?
    printf '# %.1f s %s\n' "$(((${EPOCHREALTIME/./} - began) / 100000))e-1" "$file"
    return "$status"
}

# Reports a program that ended by a crash or a sanitizer.
unit_program() {
    local program=$1 out=$logs/unit_program.log status=0 planned ended
    shift
    if [ ! -x "$program" ]; then
        echo "not ok - $program was not built"
        return 1
    fi
    CMOCKA_MESSAGE_OUTPUT=TAP bounded 600 "$program" "$@" >"$out" 2>&1 || status=$?
    cat "$out"
    planned=$(sed -n 's/^1\.\.\([0-9]*\)$/+\1/p' "$out" | tr -d '\n')
    ended=$(grep -cE '^(not )?ok [0-9]' "$out")
    if [ "$ended" != "$((0$planned))" ]; then
        echo "not ok - $program ran $ended of $((0$planned)) tests, status $status"
        return 1
    fi
    if [ "$status" != 0 ] && ! grep -q '^not ok' "$out"; then
        echo "not ok - $program ended with status $status"
    fi
    return "$status"
}

# The models in Promela need three minutes of CPU. The limit allows for a machine that is busy with other work.
layer_model() { bounded 3600 tests/model/run.sh "$CLAIRON_WORK/model"; }

layer_regress() {
    local out=$CLAIRON_WORK/regress names=()
    rm -rf "$out" && mkdir -p "$out"
    server_settings "$CLAIRON_ROOT" >"$out/server.conf"
    # Autovacuum writes to catalogs, and PostgreSQL streams no transaction during such a write.
    echo "autovacuum = off" >>"$out/server.conf"
    if [ -e tests/regress/schedule ]; then
        names=(--schedule=tests/regress/schedule)
    else
        names=(tests/regress/sql/*.sql)
        names=("${names[@]##*/}")
        names=("${names[@]%.sql}")
    fi
    [ ${#names[@]} -gt 0 ] || return 1
    bounded 1800 "$PG_REGRESS" --bindir="$CLAIRON_ROOT/bin" --inputdir=tests/regress \
        --outputdir="$out" --temp-instance="$out/instance" --temp-config="$out/server.conf" \
        --encoding=UTF8 --no-locale --dbname=regression "${names[@]}" 2>&1
    local status=$?
    [ ! -s "$out/regression.diffs" ] || head -200 "$out/regression.diffs"
    return "$status"
}

# Concurrent sessions, step by step.
layer_isolation() {
    local out=$CLAIRON_WORK/isolation
    rm -rf "$out" && mkdir -p "$out"
    server_settings "$CLAIRON_ROOT" >"$out/server.conf"
    bounded 1800 "$PG_ISOLATION" --bindir="$CLAIRON_ROOT/bin" --inputdir=tests/isolation \
        --outputdir="$out" --temp-instance="$out/instance" --temp-config="$out/server.conf" \
        --encoding=UTF8 --no-locale --dbname=isolation --schedule=tests/isolation/schedule 2>&1
    local status=$?
    [ ! -s "$out/regression.diffs" ] || head -200 "$out/regression.diffs"
    return "$status"
}

layer_tap() {
    local files
    mapfile -t files <<<"$(files_of 'tests/tap/*/*.pl')"
    tap_files "${files[@]}"
}

# A standby, live rows and the decoder on a PostgreSQL that decodes on standbys: the installed one, otherwise one in a Debian root.
layer_replica() {
    if [ "$(pg_major)" -ge 16 ]; then
        tap_files tests/tap/standby/*.pl tests/tap/extension/*.pl tests/tap/client/live_lists.pl \
            tests/tap/rows/{live_rules_end_to_end,live_lists_against_model,hostile_owner_holds_few_backends}.pl \
            tests/tap/decoder/{transaction_ids,walsender_of_a_relay_role,server_encodings,rules_after_dump_and_restore,rules_in_a_walsender}.pl \
            tests/tap/store/tls_certificate_verified.pl tests/tap/cluster/tls_of_{all_nodes,sentinels}.pl
    else
        recorded replica
    fi
}

layer_root() { recorded root; }
layer_packages() { recorded packages; }
layer_operations() { recorded operations; }
layer_images() { recorded images; }
layer_release() { recorded release; }

# Prints the output of the script with this name, which tests/as_root.sh runs.
recorded() {
    local folder=${CLAIRON_RECORDED:-/nonexistent} ended=false
    until [ -e "$folder/$1.log" ] || [ -e "$folder/ended" ] || [ ! -d "$folder" ]; do
        pause "$logs/pause" 0.2
    done
    if [ ! -e "$folder/$1.log" ]; then
        echo "not ok - tests/$1.sh was not run; run make check-$1"
        return 1
    fi
    exec 3<"$folder/$1.log"
    until $ended; do
        ! [ -e "$folder/$1.ended" ] && ! [ -e "$folder/ended" ] || ended=true
        cat <&3
        $ended || pause "$logs/pause" 1
    done
    [ -e "$folder/$1.ended" ] || echo "not ok - tests/$1.sh did not finish"
}

# Runs TAP_JOBS files at a time (3 per core, because they mostly wait), the longest first. CLAIRON_LONG=1: their
# long forms.
tap_files() (
    local out=$CLAIRON_WORK/tap data files measured=() seconds=${CLAIRON_FILE_SECONDS:-15} most=${CLAIRON_TEST_SECONDS:-1200}
    [ -z "${CLAIRON_LONG:-}" ] || most=7200 seconds=600
    data=$(cluster_folder)
    rm -rf "$out" "$data" && mkdir -p "$out/log" "$data"
    trap 'rm -rf "$data"' EXIT
    # PostgreSQL 15 derives both directories from TESTDIR.
    ln -sfn "$data" "$out/tmp_check" && ln -sfn "$out/log" "$data/log"
    mapfile -t files <<<"$(long_first "$@")"
    [ -z "${TIMES:-}" ] || measured=(--exec "tests/measure.pl --append $logs/files.times perl")
    # Reserves ports, so that no other run on this machine chooses the same ones.
    PG_TEST_PORT_DIR=${PG_TEST_PORT_DIR:-${TMPDIR:-/tmp}/clairon-ports-$(id -u)} \
        TESTDIR=$out TESTDATADIR=$out/tmp_check TESTLOGDIR=$out/log PERL5LIB=tests/perl:$PG_PERL \
        PG_TEST_TIMEOUT_DEFAULT="${PG_TEST_TIMEOUT_DEFAULT:-180}" CLAIRON_TEST_SECONDS="$most" \
        bounded $((1500 + seconds * $#)) prove --jobs "${TAP_JOBS:-$((3 * $(nproc)))}" \
        --formatter Clairon::Test::Output --merge --verbose "${measured[@]}" "${files[@]}" 2>&1
)

# The directory for clusters, in memory if there is room: each cluster is a short-lived copy of a thousand files.
# The inode distinguishes work directories that have the same path in different Debian roots.
cluster_folder() {
    local free
    free=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)
    if [ "${free:-0}" -gt 8000000 ] && [ -w /dev/shm ]; then
        echo "/dev/shm/clairon-$(stat -c %d-%i "$CLAIRON_WORK")"
    else
        echo "$CLAIRON_WORK/tap/clusters"
    fi
}

# The files listed in tests/tap/long, in that order, then the others.
long_first() {
    local file long
    long=$(cat tests/tap/long 2>/dev/null)
    for file in $long; do
        [[ " $* " != *" $file "* ]] || echo "$file"
    done
    for file; do
        [[ $'\n'"$long"$'\n' == *$'\n'"$file"$'\n'* ]] || echo "$file"
    done
}

# The TAP files with a relay under ASan, LSan and UBSan. A sanitizer report ends the process, which
# not every test would detect. Reports are therefore written to files, and each file is a failure.
layer_asan() {
    local status=0 reports=$CLAIRON_WORK/asan/reports report files
    export CLAIRON_PROGRAM=$CLAIRON_TOP/build/asan/clairon
    CLAIRON_WORK=$CLAIRON_WORK/asan
    if [ ! -x "$CLAIRON_PROGRAM" ]; then
        echo "not ok - $CLAIRON_PROGRAM was not built"
        return 1
    fi
    rm -rf "$reports" && mkdir -p "$reports"
    export ASAN_OPTIONS=log_path=$reports/report:detect_stack_use_after_return=1
    export UBSAN_OPTIONS=log_path=$reports/report:print_stacktrace=1
    export PG_TEST_TIMEOUT_DEFAULT=180 CLAIRON_TEST_SECONDS=1800 CLAIRON_FILE_SECONDS=180
    unset CLAIRON_LONG # takes hours
    mapfile -t files <<<"$(files_of 'tests/tap/*/*.pl')"
    tap_files "${files[@]}" || status=1
    for report in "$reports"/*; do
        [ -e "$report" ] || continue
        echo "not ok - sanitizer report $report"
        sed 's/^/# /' "$report"
        status=1
    done
    return "$status"
}

# The decoder's tests with a plugin under UBSan. CLAIRON_SANITIZED=all: all of them.
layer_sanitized() (
    local status=0 names=(tests/tap/decoder/{transaction_ids,walsender_of_a_relay_role,server_encodings,differential_against_test_decoding,random_annotations}.pl)
    CLAIRON_ROOT=$CLAIRON_TOP/build/sanitized/root
    CLAIRON_WORK=$CLAIRON_WORK/sanitized
    if [ ! -e "$CLAIRON_ROOT/bin/postgres" ]; then
        echo "not ok - $CLAIRON_ROOT was not built"
        return 1
    fi
    export PATH="$CLAIRON_ROOT/bin:$PATH" UBSAN_OPTIONS=print_stacktrace=1
    if [ "${CLAIRON_SANITIZED:-}" = all ] || [ -n "${CLAIRON_LONG:-}" ]; then
        names=(tests/tap/decoder/*.pl)
    else
        export CLAIRON_DIFF_TRANSACTIONS=500
    fi
    mkdir -p "$CLAIRON_WORK"
    # Fewer jobs, because it runs in parallel with the layer tap.
    export TAP_JOBS=${TAP_JOBS:-$(nproc)}
    layer_regress || status=1
    tap_files "${names[@]}" || status=1
    return "$status"
)

# Tests the shipped files; dist.test.js checks that they are built from src/. CLAIRON_LONG=1: tests src/ too.
layer_client() (
    local status=0 command=(bounded 1800 env --default-signal=INT node --test --test-reporter=tap)
    mapfile -t files < <(files_of 'client/tests/*.test.js')
    [ "${#files[@]}" -gt 0 ] || return 0 # without a name, node runs all files
    cd client || return
    "${command[@]}" "${files[@]#client/}" 2>&1 || status=1
    [ -z "${CLAIRON_LONG:-}" ] || "${command[@]}" --conditions=source "${files[@]#client/}" 2>&1 || status=1
    return "$status"
)

# Each file, or group of files, has a separate browser and demo.
layer_e2e() {
    local files
    mapfile -t files < <(files_of 'tests/e2e/test_*.py')
    bounded 2700 /usr/bin/python3 tests/e2e/parallel.py "${files[@]}" 2>&1
}

# ---- counting

# Reads a layer's output, prints "passed failed skipped". Recognizes unindented TAP, pg_regress
# before 16, and Python's unittest.
count() {
    awk '
        function number(name,    at) {
            at = match($0, "[(, ]" name "=[0-9]+")
            return at ? substr($0, at + length(name) + 2) + 0 : 0
        }
        /^(not )?ok .*# *(SKIP|skip)/ { skipped++; next }
        /^1\.\.0 # *(SKIP|skip)/ { skipped++; next }
        # A TAP file that skips all of its tests
        /^tests\/[^ ]+ \.\.+ skipped: / { skipped++; next }
        /^not ok .*# *TODO/ { skipped++; next }
        /^ok / { passed++; next }
        /^not ok / { failed++; next }
        # prove reports a file as failed even if all of its tests passed.
        /^Dubious, test returned/ { dubious = 1; next }
        dubious && /^(All [0-9]+ subtests passed|No subtests run)/ { failed++ }
        { dubious = 0 }
        /^(test|    |parallel)? *[^ ]+ +\.\.\. ok / { passed++; next }
        /^(test|    |parallel)? *[^ ]+ +\.\.\. FAILED/ { failed++; next }
        /^Ran [0-9]+ tests? in / { ran = $2; next }
        ran != "" && /^(OK|FAILED)( |$)/ {
            bad = number("failures") + number("errors") + number("unexpected successes")
            out = number("skipped") + number("expected failures")
            failed += bad; skipped += out; passed += ran - bad - out; ran = ""
        }
        END { print passed + 0, failed + 0, skipped + 0 }' "$1"
}

# ---- parallel layers, each a process in a separate session

declare -A process=() locks=() result=()
running=() streaming=false

is_recorded() { [[ " root replica packages operations images " == *" $1 "* ]]; }

# Layers that only wait for a script that runs as root are not counted.
may_start() {
    local layer slots=$parallel_layers
    ! is_recorded "$1" || $streaming || return 0
    for layer in "${running[@]}"; do
        is_recorded "$layer" && ! $streaming || slots=$((slots - 1))
    done
    [ "$slots" -gt 0 ]
}

start_layer() {
    local layer=$1 lock measured=()
    [ -z "${TIMES:-}" ] || measured=(tests/measure.pl "$logs/$layer.times")
    # Two runs of one layer must not overwrite each other's files.
    exec {lock}>>"$logs/$layer.lock"
    flock -n "$lock" || { echo "another run of the layer $layer is active, waiting"; flock "$lock"; }
    locks[$layer]=$lock
    : >"$logs/$layer.log"
    (
        # The servers must not inherit these locks, or the lock of tests/tools/unprivileged.sh.
        for lock in "${locks[@]}" 7; do
            exec {lock}>&-
        done
        exec setsid "${measured[@]}" "$0" --layer "$layer" </dev/null >>"$logs/$layer.log" 2>&1
    ) &
    process[$layer]=$!
    running+=("$layer")
}

# finish_layer NAME: counts its results. A failure outside of tests, and a layer without tests, count as one failure each.
finish_layer() {
    local layer=$1 log=$logs/$1.log lock=${locks[$1]} status=0 passed failed skipped still=() each
    wait "${process[$layer]}" || status=$?
    # No process substitution: a minimal root has no /dev/fd.
    read -r passed failed skipped <<<"$(count "$log")"
    if [ "$((passed + failed + skipped))" = 0 ]; then
        echo "$layer: no test ran" >>"$log"
        failed=1
    elif [ "$status" != 0 ] && [ "$failed" = 0 ]; then
        echo "$layer: ended with status $status" >>"$log"
        failed=1
    fi
    total_passed=$((total_passed + passed))
    total_failed=$((total_failed + failed))
    total_skipped=$((total_skipped + skipped))
    result[$layer]="$passed passed, $failed failed, $skipped skipped"
    exec {lock}>&-
    unset "locks[$layer]"
    for each in "${running[@]}"; do
        [ "$each" = "$layer" ] || still+=("$each")
    done
    running=("${still[@]}")
    $streaming || printf '%6d s  %s: %s\n' "$SECONDS" "$layer" "${result[$layer]}"
}

# print_output [LAYER..]: prints the new output of the layers in order. Descriptor 3 is the current log.
print_output() {
    while [ "$printed" -lt $# ]; do
        local layer=${*:printed+1:1}
        [ -n "${result[$layer]:-}" ] || $streaming && [ -n "${process[$layer]:-}" ] || return 0
        [ "$opened" = "$layer" ] || { echo "---- $layer"; exec 3<"$logs/$layer.log"; opened=$layer; }
        cat <&3
        [ -n "${result[$layer]:-}" ] || return 0
        printed=$((printed + 1))
    done
}

# Prints the number of passed tests per layer every fifteen seconds.
print_progress() {
    local layer line=''
    [ "$SECONDS" -ge "$next_progress" ] || return 0
    next_progress=$((SECONDS + 15))
    for layer in "${running[@]}"; do
        line+=", $layer $(grep -acE '^ok |\.\.\. ok' "$logs/$layer.log")"
    done
    printf '%6d s  %s\n' "$SECONDS" "${line#, }"
}

run_layers() {
    local waiting=("$@") layer printed=0 opened='' next_progress=15 parallel_layers=${LAYERS:-$(($(nproc) + 1))}
    [ $# -gt 1 ] && [ "${LAYERS:-}" != 1 ] || streaming=true
    while [ ${#waiting[@]} -gt 0 ] || [ ${#running[@]} -gt 0 ]; do
        while [ ${#waiting[@]} -gt 0 ] && may_start "${waiting[0]}"; do
            start_layer "${waiting[0]}"
            waiting=("${waiting[@]:1}")
        done
        pause "$logs/pause" 0.5
        [ -d "/proc/$PPID" ] || interrupted HUP
        for layer in "${running[@]}"; do
            kill -0 "${process[$layer]}" 2>/dev/null || finish_layer "$layer"
        done
        print_output "$@"
        $streaming || [ ${#running[@]} = 0 ] || print_progress
    done
}

# interrupted SIGNAL: stops the layers, which stop their servers, and ends with the same signal.
interrupted() {
    local layer waited=0
    trap '' INT TERM HUP
    echo "---- interrupted by SIG$1 in ${running[*]}"
    for layer in "${running[@]}"; do
        kill -s TERM -- "-${process[$layer]}" 2>/dev/null
    done
    for layer in "${running[@]}"; do
        while kill -0 -- "-${process[$layer]}" 2>/dev/null; do
            waited=$((waited + 1))
            [ "$waited" -lt 900 ] || kill -s KILL -- "-${process[$layer]}" 2>/dev/null
            sleep 0.1
        done
    done
    trap - "$1"
    kill -s "$1" $$
}

# Prints the durations of layers and preparation steps, then the TIMES slowest and the most expensive files.
print_times() {
    local layer file wall cpu most=$TIMES
    [ "$most" != 1 ] || most=20
    printf '%8s %8s  %s\n' 'wall s' 'CPU s' layer
    for layer in build build_root "$@"; do
        file=$logs/$layer.times
        # A script that runs as root is measured by tests/as_root.sh.
        [ ! -e "${CLAIRON_RECORDED:-}/$layer.log.times" ] || file=$CLAIRON_RECORDED/$layer.log.times
        [ ! -e "$file" ] || ! read -r wall cpu <"$file" || printf '%8.1f %8.1f  %s\n' "$wall" "$cpu" "$layer"
    done
    printf '%8d %8s  total\n' "$((SECONDS + ${CLAIRON_SECONDS:-0}))" ''
    printf '%8s  %s\n' seconds file
    for layer in "$@"; do
        sed -n "s/^# \([0-9.]* s\) \(tests.*\)/\1 $layer \2/p" "$logs/$layer.log"
    done | sort -rn | head -n "$most" | awk '{ printf "%8.1f  %s (%s)\n", $1, $4, $3 }'
    printf '%8s  %s\n' 'CPU s' 'TAP file'
    [ ! -e "$logs/files.times" ] || sort -k2,2 -rn "$logs/files.times" | head -n "$most" | awk '{ printf "%8.1f  %s\n", $2, $3 }'
}

# Prints each failed test again, with its file and the reason, because the output of a whole run is long and often
# truncated at its start.
print_failures() {
    local layer
    for layer in "$@"; do
        [[ "${result[$layer]}" != *" 0 failed"* ]] || continue
        awk -v layer="$layer" '
            function show(line) { if (++count <= 60) printf "failed: %s %s %s\n", layer, file, substr(line, 1, 300) }
            /^tests\/[^ ]+ \.\.+ *$/ { file = $1; lines = 0 }
            /^# build\/asan\// { file = $2 }
            /^not ok .*# *TODO/ { next }
            /^not ok |^(FAIL|ERROR): |\.\.\. FAILED/ { show($0); reasons = 8; next }
            # Clairon::Test prints the end of the output of a test that died.
            /^# end of its output:/ { lines = 0; in_end = 1; next }
            # The start of PostgreSQL is in each such output.
            in_end && /^# +(performing|Sync to disk|The data directory|Success|pg_ctl|waiting for server|server st|initdb:|creating|selecting|running boot|syncing)/ { next }
            in_end && /^#   / { end[++lines] = $0; next }
            /^Dubious, test returned/ { show($0); for (i = 1; i <= lines; i++) show(end[i]); next }
            reasons > 0 && /^(#|  )/ { show($0); reasons--; next }
            { reasons = 0; in_end = 0 }
            END { if (count == 0) printf "failed: %s, see its output\n", layer }' "$logs/$layer.log"
    done
}

if [ "${1:-}" = --layer ]; then
    "layer_$2"
    exit
fi
# A function, so that bash reads the whole file before running it, and edits do not affect a running script.
main() {
    local layer signal
    [ $# -gt 0 ] || set -- tap e2e client regress isolation unit
    for layer in "$@"; do
        declare -F "layer_$layer" >/dev/null || die "unknown layer \"$layer\""
    done
    check_tests
    for signal in INT TERM HUP; do
        # shellcheck disable=SC2064 # expand now
        trap "interrupted $signal" "$signal"
    done
    rm -f "$logs/files.times"
    run_layers "$@"
    [ -z "${TIMES:-}" ] || print_times "$@"
    echo "----"
    print_failures "$@"
    for layer in "$@"; do
        printf '%-10s %s\n' "$layer" "${result[$layer]}"
    done
    if [ "$total_skipped" = 0 ]; then
        echo "$total_passed passed, $total_failed failed"
    else
        echo "$total_passed passed, $total_failed failed, $total_skipped skipped"
    fi
    exit $((total_failed > 0))
}

main "$@"
