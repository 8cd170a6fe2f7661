/* feed_history.c: what a new timeline, or a slot that is gone, leaves of the store's progress. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "feed/feed_private.h"

/* The store does what is asked and then comes back as after a break, and the feed with it. */
static void
reset(struct feed *feed, const char *position, uint64_t read_lsn, bool is_gap)
{
    const struct store_progress progress = {
        .position = position, .read_lsn = read_lsn, .timeline = feed->timeline};

    feed_set_state(feed, FEED_RESETTING);
    if (store_reset(feed->store, feed->config->feed.slot, &progress, is_gap) != RC_OK)
        feed_restart(feed, "the store is away");
}

bool
feed_progress_is_void(struct feed *feed)
{
    if ((!feed->must_create && !feed->is_lost) || feed->furthest[0] == '\0')
        return false;
    log_error("feed",
              "slot \"%s\" %s, and with it all changes since LSN %.16s are gone: clients are told "
              "of a gap, memberships are copied anew",
              feed->config->feed.slot, feed->is_lost ? "is lost" : "does not exist any more",
              feed->furthest);
    reset(feed, "", 0, true);
    return true;
}

/*
 * PostgreSQL is told to let WAL go only once the store has written down that it may. So a slot that
 * begins beyond that was made again or moved by someone, or the store is an old copy of itself.
 * One that we made again ourselves is no exception: clients were told of the loss before, and what
 * was committed while it was being made (on a standby that may take minutes) is gone for those who
 * reloaded at once.
 */
bool
feed_slot_moved_on(struct feed *feed)
{
    if (feed->read_lsn == 0 || feed->slot_lsn <= feed->read_lsn)
        return false;
    log_error("feed",
              "slot \"%s\" begins at LSN %016" PRIx64 ", but the store knows WAL only up to "
              "%016" PRIx64 ": the slot was made again or moved on, or the store restored from an "
              "old copy; changes between are gone, clients are told of a gap, memberships are "
              "copied anew",
              feed->config->feed.slot, feed->slot_lsn, feed->read_lsn);
    reset(feed, "", feed->slot_lsn, true);
    return true;
}

/* Where `timeline` ends in a history file: lines of timeline, LSN, reason. 0: not in it. */
static uint64_t
switch_point(const char *history, uint32_t timeline)
{
    for (const char *line = history; line != NULL; line = strchr(line, '\n')) {
        char *at;
        unsigned long of_line;

        line += strspn(line, "\n");
        of_line = strtoul(line, &at, 10);
        if (*at == '\t' && of_line == timeline)
            return feed_lsn_read(at + 1);
    }
    return 0;
}

void
feed_on_history(struct feed *feed, const char *history)
{
    uint64_t fork = switch_point(history, feed->stored_timeline);
    uint64_t read_lsn = feed->read_lsn < fork ? feed->read_lsn : fork;
    char position[FRAME_POSITION_TEXT + 1];

    frame_position_text(fork, 0, position);
    if (fork == 0) {
        log_error("feed",
                  "timeline %" PRIu32 " of the store's progress is no ancestor of timeline %" PRIu32
                  ": it starts over, clients are told of a gap",
                  feed->stored_timeline, feed->timeline);
        reset(feed, "", feed->slot_lsn, true);
    } else if (strcmp(feed->furthest, position) <= 0) {
        log_info("feed", "following timeline %" PRIu32, feed->timeline);
        reset(feed, position, read_lsn, false);
    } else {
        log_warn("feed",
                 "timeline %" PRIu32 " forked at LSN %.16s, before what the store holds: changes "
                 "beyond were undone by the failover, clients are told of a gap",
                 feed->timeline, position);
        reset(feed, position, read_lsn, true);
    }
}
