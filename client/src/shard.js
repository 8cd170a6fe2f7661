// shard.js: the URL of a relay with the user's shard, by which a proxy selects the relay.

/** FNV-1a with 64 bits, as in the relay. */
function hashOf(text) {
  let hash = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(text)) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  return hash;
}

/** Returns the shard of a user: `user` is the claim `sub` of the token, `shards` the relay's store.shards. */
export function shardOf(user, shards) {
  if (!Number.isInteger(shards) || shards < 1) throw new TypeError(`clairon: shards: ${shards} must be the relay's store.shards`);
  return shards === 1 ? 0 : 1 + Number(hashOf(user) % BigInt(shards - 1));
}

/**
 * Returns `url` with the parameter `shard`. With a wrong value delivery still works, but an additional relay reads the
 * user's shard.
 */
export function shardUrl(url, user, shards) {
  return `${url}${url.includes('?') ? '&' : '?'}shard=${shardOf(user, shards)}`;
}
