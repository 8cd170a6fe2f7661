#!/usr/bin/env bash
# one_version.sh: checks that relay, decoder, extension and client have the same version.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=$(sed -n 's/^#define CLAIRON_VERSION "\(.*\)"$/\1/p' decoder/protocol/version.h)
bad=0

must_contain() { # FILE TEXT
    grep -qF -- "$2" "$1" || { echo "$1: no $2, but decoder/protocol/version.h has version $version"; bad=1; }
}

must_contain sql/clairon.control "default_version = '$version'"
must_contain decoder/Makefile "clairon--$version.sql"
must_contain client/package.json "\"version\": \"$version\""
exit "$bad"
