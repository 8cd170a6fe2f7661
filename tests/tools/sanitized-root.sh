#!/usr/bin/env bash
# sanitized-root.sh: creates a private PostgreSQL installation with clairon built with UBSan.
#
#   tests/tools/sanitized-root.sh DIR     ->  DIR/root, as private-root.sh makes it; DIR/decoder, the build
#
# An UBSan report aborts the backend and is in the server's log. ASan would have to
# be preloaded into the packaged server, which then hangs at startup (in bindtextdomain);
# unit tests and fuzz targets cover the server-independent parts of the decoder with ASan.
set -euo pipefail
# shellcheck source=docker/lib.sh
. "$(dirname "$0")/../../docker/lib.sh"

flags='-fsanitize=undefined,bounds-strict,float-cast-overflow -fno-sanitize-recover=all -O1'

main() {
    local place config
    [ $# = 1 ] || die "usage: sanitized-root.sh DIR"
    mkdir -p "$1"
    place=$(cd "$1" && pwd)
    config=$(pg_config_path)
    # Copies only sources: objects of the normal build must not be used.
    mkdir -p "$place/sql"
    (cd "$(top_dir)" && cp -u --preserve=timestamps --parents decoder/Makefile decoder/*.[ch] decoder/*/*.[ch] "$place")
    cp -u --preserve=timestamps "$(top_dir)"/sql/*.* "$place/sql/"
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -j"$(nproc)" -C "$place/decoder" PG_CONFIG="$config" COPT="$flags" all
    "$(dirname "$0")/private-root.sh" "$place/root"
    install -m 755 "$place/decoder/clairon.so" "$place/root$("$config" --pkglibdir)/clairon.so"
    chmod -R go+rX "$place"
}

main "$@"
