#!/bin/sh
# store-entry.sh: starts the store that this image has, durable and with a password; "health" asks it.
set -eu

for name in keydb valkey redis; do
    command -v "$name-server" >/dev/null && break
done
password=$(cat /run/secrets/store_password)
if [ "${1:-}" = health ]; then
    REDISCLI_AUTH=$password "$name-cli" -h "${LISTEN:-127.0.0.1}" ping | grep -qx PONG
    exit
fi
# By standard input, for an argument could be read by others.
exec "$name-server" - <<CONF
bind ${LISTEN:-0.0.0.0}
requirepass $password
dir /data
appendonly yes
appendfsync everysec
maxmemory-policy noeviction
CONF
