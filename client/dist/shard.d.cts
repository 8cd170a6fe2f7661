/** The shard of a user: `user` is the claim `sub` of the token, `shards` the relay's store.shards. */
export function shardOf(user: string, shards: number): number;

/**
 * `url` with the parameter `shard`, by which a proxy selects the relay. With a wrong value everything works, but an
 * additional relay reads the user's shard.
 */
export function shardUrl(url: string, user: string, shards: number): string;
