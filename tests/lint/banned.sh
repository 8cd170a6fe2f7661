#!/usr/bin/env bash
# banned.sh: finds calls that have no bound or report no error, and markers of unfinished work.
set -euo pipefail
cd "$(dirname "$0")/../.."

bad=0
# banned PATTERN PATH..: fails when the pattern is found, or when grep itself fails.
banned() {
    local found
    found=$(grep -rnE "$@") || [ $? = 1 ] || exit
    [ -z "$found" ] || { echo "$found"; bad=1; }
}

functions='strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atol|atoll|atof|sscanf|alloca|system|popen'
banned "(^|[^_[:alnum:]])($functions)[[:space:]]*\(" relay decoder tests/unit --include='*.[ch]'
banned '\<(TODO|FIXME|XXX)\>' relay decoder sql client tests/unit tests/tools docker \
    --include='*.[ch]' --include='*.lua' --include='*.sql' --include='*.js' --include='*.py' --include='*.sh' \
    --exclude-dir=node_modules
exit "$bad"
