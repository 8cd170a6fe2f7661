#!/usr/bin/env bash
# man-page.sh: prints clairon(1), made of what each command of the PROGRAM says with --help.
#
#   relay/tools/man-page.sh PROGRAM
set -euo pipefail
# shellcheck source=docker/lib.sh
. "$(dirname "$0")/../../docker/lib.sh"
[ $# = 1 ] || die "usage: man-page.sh PROGRAM"

# Text as it is: no backslash, dot or quote of it may be taken for a command of roff.
verbatim() {
    print_line .nf
    sed -e 's/\\/\\e/g' -e "s/^[.']/\\\\\&&/" -e 's/-/\\-/g'
    print_line .fi
}

help_of() {
    print_line ".SH $1"
    "${@:2}" --help | verbatim
}

said=$("$1" --version)
cat <<END
.TH CLAIRON 1 "" "$said" "User commands"
.SH NAME
clairon \- from PostgreSQL's committed changes to the people they are for
.SH SYNOPSIS
END
"$1" --help | sed '1s/^Usage: //' | verbatim
help_of RELAY "$1" relay
cat <<'END'
.SH SIGNALS OF THE RELAY
.TP
SIGTERM, SIGINT
The slot is let go, clients are sent away within gate.drain, then it ends.
.TP
SIGHUP
Reads gate.tls_cert, gate.tls_key and the key file of [auth] again.
.TP
SIGUSR1, SIGUSR2
Turns push off, and on again; both at once: off.
END
help_of DOCTOR "$1" doctor
help_of ERRORS "$1" errors
help_of TRACE "$1" trace
help_of TOKEN "$1" token
cat <<'END'
.SH EXIT STATUS
0: all is well, or warnings of doctor alone. 1: it failed, or a check of doctor did. 2: settings or command are wrong.
.SH SEE ALSO
The folder of the documents, for instance /usr/share/doc/clairon\-relay: README.md, docs/REFERENCE.md, docker/OPERATIONS.md, client/PROTOCOL.md.
END
