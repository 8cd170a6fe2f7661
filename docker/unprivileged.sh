#!/usr/bin/env bash
# unprivileged.sh: runs a command of this checkout as a user that PostgreSQL accepts.
#
#   docker/unprivileged.sh COMMAND [ARGUMENT..]      COMMAND is seen from the top of the checkout
#
# Not root: runs it as it is. Root: as `postgres`, else `nobody`, in this checkout
# when that user can read all of it, else in a copy under /var/tmp (a copy keeps its
# .demo, all else is renewed). CLAIRON_WORK names a folder the command may write to.
set -euo pipefail
# shellcheck source=docker/lib.sh
. "$(dirname "$0")/lib.sh"
top=$(top_dir)

as_user() {
    setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups -- "$@"
}

# shellcheck disable=SC2016
readable_by_user() {
    as_user bash -c 'cd "$1" 2>/dev/null && ! find . -path ./.git -prune -o -path ./.demo -prune \
        -o -path ./build/work -prune -o -path ./build/roots -prune -o \( -type f ! -readable -o -type d ! -executable \) -print 2>&1 |
        grep -q .' - "$top"
}

# Sets `place` to a folder of the user's own that mirrors the checkout.
copy_for_user() {
    place=/var/tmp/clairon-$user-$(cksum <<<"$top" | cut -d' ' -f1)
    as_user mkdir -p -m 700 "$place"
    [ "$(stat -c %U "$place")" = "$user" ] || die "$place belongs to somebody else; remove it"
    if [ -e "$place/.demo/lock" ] && ! as_user flock -n "$place/.demo/lock" true; then
        [ "$1" = docker/demo.sh ] || die "a demo runs in $place; stop it first"
        return # the demo itself says what to do about it
    fi
    as_user find "$place" -mindepth 1 -maxdepth 1 ! -name .demo -exec rm -rf {} +
    tar -C "$top" -c --exclude=./.git --exclude=./.demo --exclude=./build/work --exclude=./build/roots \
        --exclude='*.o' . |
        as_user tar -C "$place" -x --no-same-owner --no-same-permissions
}

if [ "$(id -u)" != 0 ]; then
    cd "$top"
    export CLAIRON_WORK=${CLAIRON_WORK:-$top/build/work}
    mkdir -p "$CLAIRON_WORK"
    exec "$@"
fi

user=nobody
! id -u postgres >/dev/null 2>&1 || user=postgres
cd /
if readable_by_user; then
    place=$top
    mkdir -p "$place/build/work" "$place/.demo"
    chown -R "$user:" "$place/build/work" "$place/.demo"
else
    copy_for_user "$1"
    say "$user cannot read $top; working in $place"
    as_user mkdir -p "$place/build/work"
fi
cd "$place"
as_user mkdir -p build/work/home
export CLAIRON_WORK=$place/build/work HOME=$place/build/work/home USER=$user LOGNAME=$user
unset XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_CACHE_HOME TMPDIR
exec setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups -- "$@"
