#!/bin/sh
# store-entry.sh: starts the store server of this image, with an append-only file and a password. "health" checks it.
#
# CLUSTER_ADDRESS: makes the server a cluster node with this address. "join HOST:PORT .." joins these nodes to a
# cluster, half of them as replicas.
set -eu

for name in keydb valkey redis; do
    command -v "$name-server" >/dev/null && break
done
password=$(cat /run/secrets/store_password)
if [ "${1:-}" = health ]; then
    REDISCLI_AUTH=$password "$name-cli" -h "${CLUSTER_ADDRESS:-${LISTEN:-127.0.0.1}}" ping | grep -qx PONG
    exit
fi
if [ "${1:-}" = join ]; then
    export REDISCLI_AUTH="$password"
    shift
    "$name-cli" -h "${1%:*}" -p "${1#*:}" cluster info | grep -q '^cluster_slots_assigned:16384' && exit
    exec "$name-cli" --cluster create "$@" --cluster-replicas 1 --cluster-yes
fi
if [ -n "${CLUSTER_ADDRESS:-}" ]; then
    LISTEN=$CLUSTER_ADDRESS
    cluster="masterauth $password
cluster-enabled yes
cluster-announce-ip $CLUSTER_ADDRESS
cluster-node-timeout 5000
cluster-require-full-coverage no"
fi
# The password goes to standard input, because other users can read arguments.
exec "$name-server" - <<CONF
bind ${LISTEN:-0.0.0.0}
requirepass $password
dir /data
appendonly yes
appendfsync everysec
maxmemory-policy noeviction
${cluster:-}
CONF
