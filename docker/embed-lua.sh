#!/usr/bin/env bash
# embed-lua.sh: writes a C source that holds each Lua script given as store_script_NAME. A line
# `-- include: NAME.lua` stands for the file parts/NAME.lua beside it.
set -euo pipefail

echo '/* Generated from the .lua files by docker/embed-lua.sh. */'
echo '#include "store/connection/scripts.h"'
for file in "$@"; do
    name=$(basename "$file" .lua)
    printf '\nconst char store_script_%s[] =\n' "${name//-/_}"
    awk -v parts="$(dirname "$file")/parts/" '
        /^-- include: / { while ((getline line < (parts $3)) > 0) print line; close(parts $3); next }
        { print }' "$file" |
        sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^\(.*\)$/    "\1\\n"/'
    echo '    "";'
done
