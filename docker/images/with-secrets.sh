#!/bin/bash
# with-secrets.sh COMMAND..: converts /run/secrets to a libpq password file and to settings of the relay, then executes COMMAND.
#
# VAPID_KEY: file in which the relay's key for Web Push is created, if it does not exist.
set -euo pipefail
umask 077

# libpq ignores a password file that other users can read, as mounted secrets are.
for role in relay demo; do
    [ ! -r "/run/secrets/${role}_password" ] ||
        printf '*:*:*:%s:%s\n' "$role" "$(sed 's/[\\:]/\\&/g' "/run/secrets/${role}_password")"
done >/tmp/pgpass
export PGPASSFILE=/tmp/pgpass
if [ -r /run/secrets/store_relay_password ]; then
    # STORE_NODES: some nodes of a cluster, as host:port,host:port.
    if [ -n "${STORE_NODES:-}" ]; then
        CLAIRON_STORE_URL=redis+cluster://relay:$(cat /run/secrets/store_relay_password)@$STORE_NODES
    else
        CLAIRON_STORE_URL=redis://relay:$(cat /run/secrets/store_relay_password)@${STORE_HOST:-store}:6379
    fi
    export CLAIRON_STORE_URL
fi
# The key must outlive the container: with another one, all browsers must subscribe again.
if [ -n "${VAPID_KEY:-}" ] && [ ! -s "$VAPID_KEY" ]; then
    clairon vapid >"$VAPID_KEY.new"
    mv "$VAPID_KEY.new" "$VAPID_KEY"
fi
exec "$@"
