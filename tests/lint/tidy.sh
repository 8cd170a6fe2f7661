#!/usr/bin/env bash
# tidy.sh: runs clang-tidy, with the checks of .clang-tidy, on each C file that was compiled since its last clean run.
#
# CLANG_FLAGS contains the compiler flags of the relay. The analyzer checks one function at a time, with at most 20 000
# states in each. ANALYZE=all also follows calls, which takes ten times as long.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=${BUILD:-build}
pg_flags="-Idecoder -isystem $(${PG_CONFIG:-pg_config} --includedir-server)"
depth=(-Xclang -analyzer-config -Xclang 'ipa=none,max-nodes=20000')
[ "${ANALYZE:-}" != all ] || depth=()

check_file() {
    local file=$1 stamp=$build/tidy/$1.ok flags=()
    read -ra flags <<<"${CLANG_FLAGS:-}"
    [[ $file != decoder/* || $file == decoder/protocol/* ]] || read -ra flags <<<"-std=gnu11 -I. $pg_flags"
    mkdir -p "${stamp%/*}"
    if found=$(clang-tidy --quiet "$file" -- "${flags[@]}" -Wno-unknown-warning-option "${depth[@]}" 2>/dev/null); then
        touch "$stamp"
    else
        echo "${found//$PWD\/}"
        return 1
    fi
}

if [ $# -gt 0 ]; then
    bad=0
    for file; do check_file "$file" || bad=1; done
    exit "$bad"
fi

find relay decoder -name '*.c' | sort | while read -r file; do
    stamp=$build/tidy/$file.ok
    object=$build/obj/${file%.c}.o
    [[ $file != decoder/* ]] || object=${file%.c}.o
    [ "$stamp" -nt "$object" ] && [ "$stamp" -nt .clang-tidy ] || echo "$file"
done | xargs -r -n 4 -P "$(nproc)" "$0"
