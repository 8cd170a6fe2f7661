#!/usr/bin/env bash
# embed-page.sh: writes a C source with each file of the console as the string gate_console_NAME.
set -euo pipefail

echo '/* Generated from relay/gate/console by relay/tools/embed-page.sh. */'
echo '#include "gate/routes.h"'
for file in "$@"; do
    name=$(basename "$file")
    printf '\nconst char gate_console_%s[] =\n' "${name//[-.]/_}"
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^\(.*\)$/    "\1\\n"/' "$file"
    echo '    "";'
done
