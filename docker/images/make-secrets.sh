#!/usr/bin/env bash
# make-secrets.sh: makes the passwords and the key that docker/compose.yaml mounts, where there are none yet.
#
#   docker/images/make-secrets.sh [DIR]      DIR is docker/secrets if not given
#
# The folder is its owner's alone. The files can be read by all, for compose mounts them as they
# are, and the containers' users are not its owner.
set -euo pipefail
dir=${1:-$(dirname "$0")/../secrets}
mkdir -p "$dir"
chmod 700 "$dir"
for name in postgres standby relay demo store; do
    [ -s "$dir/${name}_password" ] || od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"$dir/${name}_password"
done
[ -s "$dir/token_key" ] || od -An -N48 -tx1 /dev/urandom | tr -d ' \n' >"$dir/token_key"
chmod 444 "$dir"/*
