#!/bin/sh
# store-entry.sh: starts the store server of this image, with an append-only file and passwords. "health" checks it.
#
# MAXMEMORY: memory of its data; a store that is full rejects writes.
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
# The relay's user may run what `clairon doctor` tries, and the commands of connections, transactions and clusters.
commands="+config|get +del +eval +evalsha +exists +get +hdel +hexists +hget +hgetall +hincrby +hkeys +hlen +hmget \
    +hmset +hscan +hset +hsetnx +info +lindex +lpush +lrange +lrem +ltrim +memory|usage +persist +pexpire \
    +ping +pttl +rename +renamenx +rpush +sadd +scan +scard +script|exists +script|load +set +sinter +sismember +smembers +spop \
    +srem +sscan +time +type +unlink +xack +xadd +xclaim +xdel +xgroup|create +xgroup|delconsumer \
    +xgroup|setid +xinfo|consumers +xinfo|groups +xinfo|stream +xlen +xpending +xrange +xread +xreadgroup \
    +xrevrange +xsetid +xtrim +zadd +zcard +zcount +zincrby +zrange +zrangebylex +zrangebyscore +zrem +zremrangebyscore \
    +zrevrange +zrevrangebylex +zscan +zscore +select +multi +exec +discard +cluster|slots +cluster|nodes \
    +cluster|info +cluster|countkeysinslot"
# The passwords go to standard input, because other users can read arguments.
exec "$name-server" - <<CONF
bind ${LISTEN:-0.0.0.0}
requirepass $password
dir /data
appendonly yes
appendfsync everysec
maxmemory ${MAXMEMORY:-1gb}
maxmemory-policy noeviction
user relay on >$(cat /run/secrets/store_relay_password) ~clairon:* -@all $commands
${cluster:-}
CONF
