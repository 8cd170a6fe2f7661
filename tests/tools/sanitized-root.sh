#!/usr/bin/env bash
# sanitized-root.sh: creates a private PostgreSQL installation with clairon built with UBSan.
#
#   tests/tools/sanitized-root.sh DIR     ->  DIR/root, as private-root.sh makes it; DIR/decoder, the build
#
# A UBSan report is written to the server's log and aborts the backend. ASan would have to be preloaded into the
# packaged server, which then hangs at startup (in bindtextdomain). Unit tests and fuzz targets cover the
# server-independent parts of the decoder with ASan.
set -euo pipefail
# shellcheck source=relay/tools/lib.sh
. "$(dirname "$0")/../../relay/tools/lib.sh"

flags='-fsanitize=undefined,bounds-strict,float-cast-overflow -fno-sanitize-recover=all -O1'

# Otherwise moved or deleted sources would still be compiled, because the Makefile finds sources by folder.
remove_former_sources() {
    local file
    while read -r file; do
        [ -e "$(top_dir)/$file" ] || rm -f "$1/$file"
    done < <(cd "$1" && find decoder -name '*.[ch]' 2>/dev/null)
}

main() {
    local directory config
    [ $# = 1 ] || die "usage: sanitized-root.sh DIR"
    mkdir -p "$1"
    directory=$(cd "$1" && pwd)
    config=$(pg_config_path)
    # Copies only sources, because objects of the normal build must not be used.
    mkdir -p "$directory/sql"
    remove_former_sources "$directory"
    (cd "$(top_dir)" && cp -u --preserve=timestamps --parents decoder/Makefile decoder/*.[ch] decoder/*/*.[ch] "$directory")
    cp -u --preserve=timestamps "$(top_dir)"/sql/*.* "$directory/sql/"
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -j"$(nproc)" -C "$directory/decoder" PG_CONFIG="$config" COPT="$flags" all
    "$(dirname "$0")/private-root.sh" "$directory/root"
    install -m 755 "$directory/decoder/clairon.so" "$directory/root$("$config" --pkglibdir)/clairon.so"
    chmod -R go+rX "$directory"
}

main "$@"
