#!/usr/bin/env bash
# one_version.sh: checks the copies of the version: a package of npm and a chart must contain it literally.
set -euo pipefail
cd "$(dirname "$0")/../.."

# shellcheck source=relay/tools/lib.sh
. relay/tools/lib.sh

version=$(source_version)
bad=0

must_contain() { # FILE TEXT
    grep -qF -- "$2" "$1" || { echo "$1: no $2, but decoder/protocol/version.h has version $version"; bad=1; }
}

must_contain client/package.json "\"version\": \"$version\""
must_contain docker/helm/Chart.yaml "version: $version"
must_contain CHANGELOG.md "## [$version]"
exit "$bad"
