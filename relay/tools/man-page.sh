#!/usr/bin/env bash
# man-page.sh: prints clairon(1), generated from the --help of each command of PROGRAM.
#
#   relay/tools/man-page.sh PROGRAM
set -euo pipefail
# shellcheck source=relay/tools/lib.sh
. "$(dirname "$0")/lib.sh"
[ $# = 1 ] || die "usage: man-page.sh PROGRAM"

# Literal text: escapes backslashes, dots and quotes, which roff would interpret.
verbatim() {
    print_line .nf
    sed -e 's/\\/\\e/g' -e "s/^[.']/\\\\\&&/" -e 's/-/\\-/g'
    print_line .fi
}

help_of() {
    print_line ".SH $1"
    "${@:2}" --help | verbatim
}

version=$("$1" --version)
cat <<END
.TH CLAIRON 1 "" "$version" "User commands"
.SH NAME
clairon \- deliver committed PostgreSQL changes to browsers, with acknowledgements
.SH SYNOPSIS
END
"$1" --help | sed '1s/^Usage: //' | verbatim
help_of RELAY "$1" relay
cat <<'END'
.SH SIGNALS OF THE RELAY
.TP
SIGTERM, SIGINT
Graceful shutdown: releases the slot, responds to /readyz with 503 for gate.notice, disconnects clients within gate.drain, then exits.
.TP
SIGHUP
Reloads gate.tls_cert, gate.tls_key, and the key files of [auth] and of issuers; fetches jwks_url.
.TP
SIGUSR1, SIGUSR2
Turn real-time delivery off and on, respectively. If both are pending, real-time delivery is turned off.
END
help_of DOCTOR "$1" doctor
help_of ERRORS "$1" errors
help_of DROP "$1" drop
help_of KICK "$1" kick
help_of FORGET "$1" forget
help_of TRACE "$1" trace
help_of WHY "$1" why
help_of STORE "$1" store
help_of TOKEN "$1" token
help_of TYPES "$1" types
help_of VAPID "$1" vapid
cat <<'END'
.SH EXIT STATUS
0: success; doctor may have printed warnings. 1: failure, or a failed doctor check. 2: invalid settings or command line.
3: the relay stopped because the store belongs to another database or slot, or has another number of shards.
.SH SEE ALSO
The documentation, for example in /usr/share/doc/clairon\-relay: README.md, docs/REFERENCE.md, docker/OPERATIONS.md, client/PROTOCOL.md.
END
