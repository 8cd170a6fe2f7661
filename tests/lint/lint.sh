#!/usr/bin/env bash
# lint.sh: runs every rule, then fails if any rule failed.
#
#   lint.sh [fast]     fast: only the rules that neither compile nor run clang-tidy; at most two minutes
#
# Prints the name of each rule when it starts. The rules accept the same code with the tools of Debian 12 and 13.
# shellcheck disable=SC2317 # rules are called by name
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
status=0
is_fast=false
[ "${1:-}" != fast ] || is_fast=true

rule() {
    local name=$1 found began=$SECONDS
    shift
    printf 'lint: %s ..' "$name"
    if found=$("$@" 2>&1); then
        echo " ok ($((SECONDS - began)) s)"
    else
        echo " failed ($((SECONDS - began)) s):"
        [ -z "$found" ] || printf '    %s\n' "${found//$'\n'/$'\n'    }"
        status=1
    fi
}

slow_rule() { "$is_fast" || rule "$@"; }

# A missing tool fails the rule: a silent skip would look like a pass.
with_tool() {
    local tool=$1
    shift
    command -v "$tool" >/dev/null || { echo "$tool is missing; 'make deps' installs it"; return 1; }
    "$@"
}

c_sources() {
    find relay decoder tests/unit tests/fuzz tests/bench -name '*.[ch]' | sort
}

rule_format() {
    c_sources | xargs -r clang-format --dry-run --Werror 2>&1 | { grep -E 'error:|warning:' || true; } |
        cut -d: -f1,2 | sort -t: -k1,1 -k2,2n | awk -F: '{ n[$1]++; if (n[$1] == 1) first[$1] = $2 }
            END { for (f in n) { print f ":" first[f] ": not formatted by clang-format (make fmt)"; bad = 1 }
                  exit bad }'
}

# Reads the compiled objects.
rule_graph() {
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s WERROR=1 && python3 tests/lint/graph.py
}

rule_cppcheck() {
    local files
    mapfile -t files < <(find relay decoder -name '*.c' | sort)
    cppcheck -j "$(nproc)" --quiet --error-exitcode=1 --std=c11 --inline-suppr -Irelay -Idecoder -I. \
        --enable=warning,portability,performance --suppress=missingIncludeSystem \
        --include=tests/lint/cppcheck.h \
        --suppress=normalCheckLevelMaxBranches --suppress=checkersReport "${files[@]}"
}

# tests/lint/spelling lists correct words that codespell reports as misspelled.
rule_spelling() {
    git ls-files | grep -vE '^LICENSE|/(corpus|expected|dist)/|\.(png|svg|out)$' |
        xargs codespell --ignore-words tests/lint/spelling
}

# The last 50 commits other than merges: "area: summary", at most 100 characters, without a full stop.
rule_subjects() {
    local bad
    git rev-parse --git-dir >/dev/null 2>&1 || return 0 # a source archive without a repository
    bad=$(git log --no-merges -50 --format=%s |
        grep -vE '^[a-zA-Z][a-zA-Z0-9_./-]*(, [a-zA-Z0-9_./-]+)*: [^A-Z ].{0,90}[^.]$' || true)
    [ -z "$bad" ] || { echo "not \"area: imperative summary\":"; echo "$bad"; return 1; }
}

rule_shell() {
    find docker relay tests .ci -type f \( -name '*.sh' -o -path .ci/run \) -print0 | xargs -0 shellcheck -x
}

# Server and log folders have the name of the test file, so names must be unique. Files listed in tests/tap/long must
# exist.
rule_tap_files() {
    local bad=0 name file
    for name in $(find tests/tap -name '*.pl' -printf '%f\n' | sort | uniq -d); do
        echo "tests/tap contains two files named $name"
        bad=1
    done
    for file in $(compgen -G 'tests/tap/*.pl'); do
        echo "$file: must be in the folder of its subject"
        bad=1
    done
    while read -r file; do
        [ -e "$file" ] || { echo "tests/tap/long: $file does not exist"; bad=1; }
    done <tests/tap/long
    return "$bad"
}

rule "include arrows" tests/lint/include_arrows.sh
slow_rule "call and include graph" with_tool python3 rule_graph
rule "banned functions" tests/lint/banned.sh
rule "one version" tests/lint/one_version.sh
rule "sizes" with_tool ctags tests/lint/sizes.sh
rule "format" with_tool clang-format rule_format
rule "cppcheck" with_tool cppcheck rule_cppcheck
rule "words" with_tool python3 tests/lint/words.py
rule "identifiers" with_tool python3 tests/lint/identifiers.py
rule "spelling" with_tool codespell rule_spelling
rule "commit subjects" rule_subjects
slow_rule "clang-tidy" with_tool clang-tidy tests/lint/tidy.sh
rule "shell scripts" with_tool shellcheck rule_shell
rule "TAP files" rule_tap_files
rule "pages" with_tool python3 tests/lint/pages.py
rule "Helm chart" with_tool python3 tests/lint/chart.py
rule "mutants" tests/mutants/run.pl --check
exit "$status"
