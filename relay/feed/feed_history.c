/* feed_history.c: what a new timeline, or a slot that is gone, leaves of the store's progress. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "feed/feed_private.h"

/* The store does what is asked and then comes back as after a break, and the feed with it. */
static void
reset(struct feed *feed, const char *position, bool is_gap)
{
    if (store_reset(feed->store, feed->config->feed.slot, feed->timeline, position, is_gap) !=
        RC_OK)
        feed_restart(feed, "the store is away");
}

bool
feed_progress_is_void(struct feed *feed)
{
    if (!feed->must_create || feed->sent_position[0] == '\0')
        return false;
    log_error("feed",
              "slot \"%s\" does not exist any more, and with it all changes since LSN %.16s are "
              "gone: clients are told of a gap, memberships are copied anew",
              feed->config->feed.slot, feed->sent_position);
    feed_set_state(feed, FEED_RESETTING);
    reset(feed, "", true);
    return true;
}

/* Where `timeline` ends in a history file: lines of timeline, LSN, reason. 0: not in it. */
static uint64_t
switch_point(const char *history, uint32_t timeline)
{
    for (const char *line = history; line != NULL; line = strchr(line, '\n')) {
        char *at;
        unsigned long of_line, high, low;

        line += strspn(line, "\n");
        of_line = strtoul(line, &at, 10);
        if (*at != '\t' || of_line != timeline)
            continue;
        high = strtoul(at + 1, &at, 16);
        low = *at == '/' ? strtoul(at + 1, NULL, 16) : 0;
        return (uint64_t)high << 32 | low;
    }
    return 0;
}

void
feed_on_history(struct feed *feed, const char *history)
{
    uint64_t fork = switch_point(history, feed->stored_timeline);
    char position[FRAME_POSITION_TEXT + 1];

    feed_set_state(feed, FEED_RESETTING);
    frame_position_text(fork, 0, position);
    if (fork == 0) {
        log_error("feed",
                  "timeline %" PRIu32 " of the store's progress is no ancestor of timeline %" PRIu32
                  ": it starts over, clients are told of a gap",
                  feed->stored_timeline, feed->timeline);
        reset(feed, "", true);
    } else if (strcmp(feed->sent_position, position) <= 0) {
        log_info("feed", "following timeline %" PRIu32, feed->timeline);
        reset(feed, feed->sent_position, false);
    } else {
        log_warn("feed",
                 "timeline %" PRIu32 " forked at LSN %.16s, before what the store holds: changes "
                 "beyond were undone by the failover, clients are told of a gap",
                 feed->timeline, position);
        reset(feed, position, true);
    }
}
