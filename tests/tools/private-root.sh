#!/usr/bin/env bash
# private-root.sh: creates a private PostgreSQL installation with clairon in a directory.
#
#   tests/tools/private-root.sh DIR     ->  DIR/usr/lib/postgresql/NN/bin/postgres, also reached as DIR/bin
#
# The programs are copies, because a server searches for its lib and share directories relative to its program file.
# Those directories contain links to the system's files. Nothing outside of DIR is changed.
set -euo pipefail
# shellcheck source=relay/tools/lib.sh
. "$(dirname "$0")/../../relay/tools/lib.sh"

# link_folder DIR: creates DIR below $root as a directory of links, recursively where clairon installs files.
link_folder() {
    local from=$1 to=$root$1 entry name
    mkdir -p "$to"
    # Valid links are kept, because a running server may use them.
    find "$to" -maxdepth 1 -xtype l -delete
    for entry in "$from"/*; do
        name=${entry##*/}
        case $name in
            clairon*) ;; # skip a system-wide installation of clairon
            extension | bitcode) link_folder "$entry" ;;
            *) [ -e "$to/$name" ] || ln -s "$entry" "$to/$name" ;;
        esac
    done
}

# Replaces only changed files, by renaming, so that a running server always finds complete files.
# make must not use the job slots of a calling make.
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
    command -v "$config" >/dev/null || die "$config not found; relay/tools/install-packages.sh installs it"
    bin=$("$config" --bindir) lib=$("$config" --pkglibdir) share=$("$config" --sharedir)
    [ -x "$bin/postgres" ] || die "$bin/postgres not found; relay/tools/install-packages.sh installs it"

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
