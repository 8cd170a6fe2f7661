#!/usr/bin/env bash
# include_arrows.sh: checks that modules and folders include only lower ones, and that only the listed files
# include each library.
set -euo pipefail
cd "$(dirname "$0")/../.."

# The modules that each module may include. feed, gate and sink never include each other; only main.c includes daemon and
# doctor. protocol is decoder/protocol/, shared by the plugin and the relay. It is in decoder/ because PGXS builds the
# plugin from that folder alone.
declare -A below=(
    [base]="protocol"
    [wire]="protocol base"
    [store]="protocol base wire"
    [postgres]="protocol base"
    [http_client]="protocol base"
    [feed]="protocol base wire store postgres"
    [rows]="protocol base wire postgres"
    [hub]="protocol base wire store rows"
    [web_push]="protocol base wire store http_client"
    [gate]="protocol base wire store rows hub http_client web_push"
    [sink]="protocol base wire store postgres http_client web_push"
    [daemon]="protocol base wire store postgres feed rows web_push hub gate sink"
    [cli]="protocol base wire store postgres"
    [doctor]="protocol base wire store postgres feed gate sink cli"
)

# The folders of modules that have subfolders, lowest first: each may include itself and the folders before it. "."
# means the files in the folder of the module itself.
declare -A folders=(
    [store]="scripts . connection servers shards read write admin"
    [gate]="net http ws ."
    [decoder]="protocol base encode rules . output plan changes sql"
)

# The only files that may include each library: header pattern, then path pattern.
libraries='libwebsockets\.h  relay/gate/net/carrier\.c
libpq-fe\.h                  relay/postgres/connection\.h|relay/base/urls\.c|relay/doctor/postgresql\.c
hiredis/.*\.h                relay/store/(servers/link\.c|connection/(connect\.c|send_queue\.h|reply\.c))
curl/.*\.h                   relay/http_client/http_client\.c
jansson\.h                   relay/store/admin/(admin|command_pending)\.c|relay/cli/(token_command|errors)\.[ch]|relay/doctor/check_gate\.c
ev\.h                        relay/(base|store|postgres|http_client|web_push|feed|rows|hub|gate|sink|daemon)/|relay/doctor/probe\.c
postgres\.h                  decoder/'

bad=0
report() {
    echo "$*"
    bad=1
}

# Reports includes of modules that are not in `below`.
check_modules() {
    local file module line target
    while IFS=: read -r file line target; do
        module=${file#relay/}
        [ "$module" != main.c ] || continue # may include all modules
        [[ $module == */* ]] || { report "$file: must be in a module; only main.c is in none"; continue; }
        module=${module%%/*}
        [[ -v below[$module] ]] || report "$file: no module is named \"$module\""
        [ "$target" = "$module" ] || [[ " ${below[$module]-} " == *" $target "* ]] ||
            report "$file:$line: $module must not include $target"
    done < <(grep -rnE '^#include "[a-z_]+/' relay --include='*.[ch]' |
        sed -E 's/#include "(decoder\/)?([a-z_]+)[\/.].*/\2/')
    # The relay, the unit tests and the plugin compile decoder/protocol, so it is pure C.
    ! grep -rnE '^#include "([^"]*/|postgres)' decoder/protocol || report "decoder/protocol includes only itself"
}

# folder_of PATH-BELOW-relay/: sets `folder`, the folder within the module, "." for none.
folder_of() {
    local rest=${1#*/}
    folder=.
    [[ $rest != */* ]] || folder=${rest%%/*}
}

check_folders() {
    local file module line target from to
    while IFS=: read -r file line target; do
        module=${file#relay/}
        [[ $module == */* && ${module%%/*} == "${target%%/*}" ]] || continue
        folder_of "$module"
        from=$folder module=${module%%/*}
        folder_of "$target"
        to=$folder
        [ "$from" != "$to" ] || continue
        [[ " ${folders[$module]-} " =~ " $to "(.*" ")?"$from " ]] ||
            report "$file:$line: $module/$from must not include $target"
    done < <(grep -rnoE '^#include "[a-z0-9_]+/[a-z0-9_/]+' relay --include='*.[ch]' | sed -E 's/#include "//')
}

# Include paths in the decoder are relative to decoder/.
check_decoder() {
    local file line target from to
    while IFS=: read -r file line target; do
        folder_of "$file"
        from=$folder
        folder_of "decoder/$target"
        to=$folder
        if [ ! -e "decoder/$target" ] || [ "$from" = "$to" ]; then continue; fi
        [[ " ${folders[decoder]} " =~ " $to "(.*" ")?"$from " ]] ||
            report "$file:$line: decoder/$from must not include $target"
    done < <(grep -rnoE '^#include "[a-z0-9_/]+\.h' decoder --include='*.[ch]' | sed -E 's/#include "//')
}

check_libraries() {
    local header paths file
    while read -r header paths; do
        while read -r file; do
            [[ $file =~ ^($paths) ]] || report "$file: only ${paths//\\/} may include <${header//\\/}>"
        done < <(grep -rlE "^#include [<\"]${header}[>\"]" relay decoder --include='*.[ch]' || true)
    done <<<"$libraries"
}

check_modules
check_folders
check_decoder
check_libraries
exit "$bad"
