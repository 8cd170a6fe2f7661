#!/usr/bin/env bash
# expand-lua.sh: prints the script that is sent to the store. A line `-- include: NAME.lua` is replaced by the
# file parts/NAME.lua, once. The name of a constant is replaced by its value. Comments and indents are removed: some
# transactions contain a script, and the store hashes it each time.
#
#   relay/tools/expand-lua.sh CONSTANTS SCRIPT     CONSTANTS: C macros, as `cc -E -dM` prints them
set -euo pipefail

awk -v parts="$(dirname "$2")/parts/" -v script="$2" '
    # Only literals: Lua cannot evaluate C expressions. A string may contain escaped double quotes, but no single
    # quotes.
    /^#define (KEY|META|FRAME|STORE|ENVELOPE)_[A-Z0-9_]+ ("([^"\\\047]|\\")*"|[0-9]+|0x[0-9A-Fa-f]+)$/ {
        name = $2
        sub(/^#define [A-Z0-9_]+ /, "")
        sub(/^"/, "\047")
        sub(/"$/, "\047")
        gsub(/\\"/, "\"")
        value[name] = $0
    }
    function expanded(line,    before, name, done) {
        while (match(line, /[A-Za-z0-9_]+/)) {
            name = substr(line, RSTART, RLENGTH)
            before = substr(line, 1, RSTART - 1)
            line = substr(line, RSTART + RLENGTH)
            if (name ~ /^(KEY|META|FRAME|STORE|ENVELOPE)_[A-Z]/) {
                if (!(name in value)) {
                    print script ": " name " is not defined in relay/store/scripts/constants.h" >"/dev/stderr"
                    exit_status = 1
                }
                name = value[name]
            }
            done = done before name
        }
        return done line
    }
    function emit(file,    line, read) {
        while ((read = (getline line < file)) > 0) {
            if (line ~ /^-- include: / && !included[substr(line, 13)]++)
                emit(parts substr(line, 13))
            sub(/^ */, "", line)
            if (line !~ /^(--|$)/)
                print expanded(line)
        }
        if (read < 0) {
            print "could not read " file >"/dev/stderr"
            exit_status = 1
        }
        close(file)
    }
    END {
        emit(script)
        exit exit_status
    }' "$1"
