#!/usr/bin/env bash
# make-secrets.sh: creates the passwords and the key that docker/compose.yaml mounts, unless they exist.
#
#   docker/images/make-secrets.sh [DIR]      DIR is docker/secrets if not given
#
# Only the owner can access the directory. The files in it are readable by all users, because compose mounts them with
# their mode, and the users in the containers are not the owner.
set -euo pipefail
dir=${1:-$(dirname "$0")/../secrets}
mkdir -p "$dir"
chmod 700 "$dir"
for name in postgres standby relay demo store store_relay; do
    [ -s "$dir/${name}_password" ] || od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"$dir/${name}_password"
done
[ -s "$dir/token_key" ] || od -An -N48 -tx1 /dev/urandom | tr -d ' \n' >"$dir/token_key"
chmod 444 "$dir"/*
