/** The shard of a user: `user` is the claim `sub` of the token, `shards` the relay's store.shards. */
export function shardOf(user: string, shards: number): number;

/**
 * `url` with the parameter `shard`, by which a proxy chooses the relay. With a wrong one everything works, but one
 * relay more reads the user's shard.
 */
export function shardUrl(url: string, user: string, shards: number): string;
