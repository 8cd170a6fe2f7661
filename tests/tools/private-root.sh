#!/usr/bin/env bash
# private-root.sh: makes a PostgreSQL of our own below a directory, with clairon installed in it.
#
#   tests/tools/private-root.sh DIR     ->  DIR/usr/lib/postgresql/NN/bin/postgres, also reached as DIR/bin
#
# The programs are copies, because a server looks for its lib and share folders
# beside the file it was started from; what is in those folders are links to the
# system's files. Nothing outside DIR is changed.
set -euo pipefail
# shellcheck source=docker/lib.sh
. "$(dirname "$0")/../../docker/lib.sh"

# The folder $1 appears below $root as real folders (as deep as we install) full of links.
link_folder() {
    local from=$1 to=$root$1 entry name
    mkdir -p "$to"
    # Links that hold stay: a server that runs from here may load through them at any time.
    find "$to" -maxdepth 1 -xtype l -delete
    for entry in "$from"/*; do
        name=${entry##*/}
        case $name in
            clairon*) ;; # one that the system has is not ours
            extension | bitcode) link_folder "$entry" ;;
            *) [ -e "$to/$name" ] || ln -s "$entry" "$to/$name" ;;
        esac
    done
}

# Only what differs is replaced, by renaming: a server that runs from here finds every file whole at any
# time. make runs without the job slots of a make above it.
install_clairon() {
    local file
    stage=$(mktemp -d "$root/stage.XXXXXX")
    trap 'rm -rf "$stage"' EXIT
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make --no-print-directory -s -C "$(top_dir)/decoder" install \
        PG_CONFIG="$1" DESTDIR="$stage" >/dev/null
    chmod -R go+rX "$stage"
    (cd "$stage" && find . -type f) | while read -r file; do
        cmp -s "$stage/$file" "$root/$file" && continue
        mkdir -p "$root/$(dirname "$file")"
        mv -f "$stage/$file" "$root/$file"
    done
}

main() {
    local config bin lib share program
    [ $# = 1 ] || die "usage: private-root.sh DIR"
    mkdir -p "$1"
    root=$(cd "$1" && pwd)
    config=$(pg_config_path)
    command -v "$config" >/dev/null || die "$config is not there; docker/install-packages.sh installs it"
    bin=$("$config" --bindir) lib=$("$config" --pkglibdir) share=$("$config" --sharedir)
    [ -x "$bin/postgres" ] || die "$bin/postgres is not there; docker/install-packages.sh installs it"

    mkdir -p "$root$bin"
    for program in "$bin"/*; do
        [ -L "$root$program" ] || cp -u --preserve=timestamps "$program" "$root$bin/"
    done
    link_folder "$lib"
    link_folder "$share"
    [ "$(readlink "$root/bin")" = "${bin#/}" ] || ln -sfn "${bin#/}" "$root/bin"
    install_clairon "$config"
    chmod -R go+rX "$root"
}

main "$@"
