/* followed.c: selects the shards that the reader follows: the shards of the connected users. */
#include "hub/followed.h"

#include "base/clock.h"
#include "hub/hub_state.h"

/* Longer than a client needs to reconnect or to poll again. */
#define UNFOLLOW_AFTER_US (30 * INT64_C(1000000))

void
followed_add_session(struct hub *hub, unsigned shard)
{
    hub->followed[shard].sessions++;
    if (hub->reader != NULL)
        reader_follow(hub->reader, shard);
}

void
followed_remove_session(struct hub *hub, unsigned shard)
{
    if (--hub->followed[shard].sessions == 0)
        hub->followed[shard].left_us = clock_monotonic_us();
}

bool
followed_is_ready(const struct hub *hub, unsigned shard)
{
    /* A hub that is closing has no reader, and its sessions end. */
    return hub->has_head && (hub->reader == NULL || reader_follows(hub->reader, shard));
}

void
followed_sweep(struct hub *hub)
{
    const int64_t now_us = clock_monotonic_us();

    for (unsigned shard = 1; shard < hub->shards; shard++) {
        const struct followed *followed = &hub->followed[shard];

        if (followed->sessions == 0 && followed->left_us != 0 &&
            now_us - followed->left_us >= UNFOLLOW_AFTER_US) {
            hub->followed[shard].left_us = 0;
            reader_unfollow(hub->reader, shard);
        }
    }
}
