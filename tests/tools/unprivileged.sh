#!/usr/bin/env bash
# unprivileged.sh: runs a command of this checkout as a user other than root, which PostgreSQL requires.
#
#   tests/tools/unprivileged.sh COMMAND [ARGUMENT..]      COMMAND is relative to the top of the checkout
#
# A normal user runs the command directly. Root runs it as `postgres`, or as `nobody` if there is no such user: in this
# checkout if the user can read all of it, otherwise in a copy below /var/tmp. The demo and the tests have separate
# copies, which are replaced at each start, except for the demo's .demo. A copy is used by one run at a time.
# CLAIRON_WORK is a writable directory for the command.
set -euo pipefail
# shellcheck source=relay/tools/lib.sh
. "$(dirname "$0")/../../relay/tools/lib.sh"
top=$(top_dir)

as_user() {
    setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups -- "$@"
}

# Ignores files that disappear during the search, for example in a parallel build.
# shellcheck disable=SC2016
readable_by_user() {
    as_user bash -c 'cd "$1" 2>/dev/null && ! find . -path ./.git -prune -o -path ./.demo -prune \
        -o -path ./build/work -prune -o -path ./build/roots -prune -o \( -type f ! -readable \
        -o -type d ! \( -readable -executable \) \) -print 2>/dev/null | grep -q .' - "$top"
}

# copy_for_user COMMAND: copies the checkout to a directory of the user and sets `directory` to it. Descriptor 7 locks
# the directory until the command ends.
copy_for_user() {
    local what=tests
    directory=/var/tmp/clairon-$user-$(cksum <<<"$top" | cut -d' ' -f1)
    if [ "$1" = docker/demo.sh ]; then
        what=demo
    else
        directory=$directory-tests
    fi
    as_user mkdir -p -m 700 "$directory"
    [ "$(stat -c %U "$directory")" = "$user" ] || die "$directory belongs to another user; remove it"
    as_user touch "$directory/.lock"
    exec 7<"$directory/.lock"
    if ! flock -n 7; then
        [ "$what" != demo ] || return 0 # demo.sh reports the running demo
        print_line "another run uses $directory, waiting"
        flock 7
    fi
    print_line "$user cannot read $top: the $what run$([ "$what" = tests ] || echo s) in a copy, $directory; edits have no effect until the next start"
    as_user find "$directory" -mindepth 1 -maxdepth 1 ! -name .demo ! -name .lock -exec rm -rf {} +
    tar -C "$top" -c --exclude=./.git --exclude=./.demo --exclude=./build/work --exclude=./build/roots \
        --exclude=./build/deb --exclude='*.o' . |
        as_user tar -C "$directory" -x --no-same-owner --no-same-permissions
}

# The demo stops when its parent ends, even if make is killed.
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
    directory=$top
    mkdir -p "$directory/build/work" "$directory/.demo"
    # Files of another run may disappear during the search.
    find "$directory/build/work" "$directory/.demo" -ignore_readdir_race ! -user "$user" -exec chown -h "$user:" {} +
else
    copy_for_user "$1"
    as_user mkdir -p "$directory/build/work"
fi
cd "$directory"
as_user mkdir -p build/work/home
export CLAIRON_WORK=$directory/build/work HOME=$directory/build/work/home USER=$user LOGNAME=$user
unset XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_CACHE_HOME TMPDIR
exec setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups "${with_parent[@]}" -- "$@"
