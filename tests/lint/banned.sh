#!/usr/bin/env bash
# banned.sh: finds calls that cannot be bounded, that cannot report an error, or that never belong in a commit.
set -euo pipefail
cd "$(dirname "$0")/../.."

bad=0
functions='strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atol|atoll|atof|sscanf|alloca|system|popen'
if grep -rnE "(^|[^_[:alnum:]])($functions)[[:space:]]*\(" relay decoder tests/unit --include='*.[ch]' 2>/dev/null; then
    bad=1
fi
if grep -rnE '\<(TODO|FIXME|XXX)\>' relay decoder sql client tests/unit docker \
    --include='*.[ch]' --include='*.lua' --include='*.sql' --include='*.js' --include='*.py' --include='*.sh' \
    --exclude-dir=node_modules 2>/dev/null; then
    bad=1
fi
exit "$bad"
