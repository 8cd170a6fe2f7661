#!/bin/sh
# store-entry.sh: starts the store server of this image, durable and with a password. "health" checks it.
set -eu

for name in keydb valkey redis; do
    command -v "$name-server" >/dev/null && break
done
password=$(cat /run/secrets/store_password)
if [ "${1:-}" = health ]; then
    REDISCLI_AUTH=$password "$name-cli" -h "${LISTEN:-127.0.0.1}" ping | grep -qx PONG
    exit
fi
# On standard input, because other users could read an argument.
exec "$name-server" - <<CONF
bind ${LISTEN:-0.0.0.0}
requirepass $password
dir /data
appendonly yes
appendfsync everysec
maxmemory-policy noeviction
CONF
