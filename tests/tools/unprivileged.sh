#!/usr/bin/env bash
# unprivileged.sh: runs a command of this checkout as a user that PostgreSQL accepts.
#
#   tests/tools/unprivileged.sh COMMAND [ARGUMENT..]      COMMAND is seen from the top of the checkout
#
# Not root: runs it as it is. Root: as `postgres`, else `nobody`, in this checkout when that user can
# read all of it, else in a copy below /var/tmp. The demo and the tests have a copy each, renewed at each
# start; that of the demo keeps its .demo. Only one run at a time uses a copy. CLAIRON_WORK names a
# folder the command may write to.
set -euo pipefail
# shellcheck source=docker/lib.sh
. "$(dirname "$0")/../../docker/lib.sh"
top=$(top_dir)

as_user() {
    setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups -- "$@"
}

# A file that vanishes meanwhile, as while something is built, is no reason for a copy.
# shellcheck disable=SC2016
readable_by_user() {
    as_user bash -c 'cd "$1" 2>/dev/null && ! find . -path ./.git -prune -o -path ./.demo -prune \
        -o -path ./build/work -prune -o -path ./build/roots -prune -o \( -type f ! -readable \
        -o -type d ! \( -readable -executable \) \) -print 2>/dev/null | grep -q .' - "$top"
}

# copy_for_user COMMAND: sets `place` to a folder of the user's own that mirrors the checkout. Descriptor 7
# holds its lock until the command ends.
copy_for_user() {
    local what=tests
    place=/var/tmp/clairon-$user-$(cksum <<<"$top" | cut -d' ' -f1)
    if [ "$1" = docker/demo.sh ]; then
        what=demo
    else
        place=$place-tests
    fi
    as_user mkdir -p -m 700 "$place"
    [ "$(stat -c %U "$place")" = "$user" ] || die "$place belongs to another user; remove it"
    as_user touch "$place/.lock"
    exec 7<"$place/.lock"
    if ! flock -n 7; then
        [ "$what" != demo ] || return 0 # demo.sh reports the demo that runs
        say "another run uses $place: waiting for it"
        flock 7
    fi
    say "$user cannot read $top: the $what run$([ "$what" = tests ] || echo s) in a copy, $place; edits are not seen until the next start"
    as_user find "$place" -mindepth 1 -maxdepth 1 ! -name .demo ! -name .lock -exec rm -rf {} +
    tar -C "$top" -c --exclude=./.git --exclude=./.demo --exclude=./build/work --exclude=./build/roots \
        --exclude='*.o' . |
        as_user tar -C "$place" -x --no-same-owner --no-same-permissions
}

# The demo ends with its parent, also with a make that was killed.
with_parent=()
[ "$1" != docker/demo.sh ] || with_parent=(--pdeathsig HUP)

if [ "$(id -u)" != 0 ]; then
    cd "$top"
    export CLAIRON_WORK=${CLAIRON_WORK:-$top/build/work}
    mkdir -p "$CLAIRON_WORK"
    exec setpriv "${with_parent[@]}" -- "$@"
fi

user=nobody
! id -u postgres >/dev/null 2>&1 || user=postgres
cd /
if readable_by_user; then
    place=$top
    mkdir -p "$place/build/work" "$place/.demo"
    # Files of another run may vanish meanwhile.
    find "$place/build/work" "$place/.demo" -ignore_readdir_race ! -user "$user" -exec chown -h "$user:" {} +
else
    copy_for_user "$1"
    as_user mkdir -p "$place/build/work"
fi
cd "$place"
as_user mkdir -p build/work/home
export CLAIRON_WORK=$place/build/work HOME=$place/build/work/home USER=$user LOGNAME=$user
unset XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_CACHE_HOME TMPDIR
exec setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups "${with_parent[@]}" -- "$@"
