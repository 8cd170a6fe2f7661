#!/usr/bin/env bash
# embed-lua.sh: writes a C source with each expanded Lua script as the string store_script_NAME, and its SHA-1 as
# store_script_sha_NAME.
set -euo pipefail

echo '/* Generated from relay/store/scripts by relay/tools/expand-lua.sh and relay/tools/embed-lua.sh. */'
echo '#include "store/scripts/scripts.h"'
for file in "$@"; do
    name=$(basename "$file" .lua)
    printf '\nconst char store_script_%s[] =\n' "${name//-/_}"
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^\(.*\)$/    "\1\\n"/' "$file"
    echo '    "";'
    sha=$(sha1sum "$file")
    printf 'const char store_script_sha_%s[] = "%s";\n' "${name//-/_}" "${sha%% *}"
done
