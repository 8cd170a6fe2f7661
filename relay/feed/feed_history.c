/* feed_history.c: what a new timeline, or a slot that is gone, leaves of the store's progress. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "feed/feed_parts.h"

/* The store does what is asked and then comes back as after a break, and the feed with it. */
static void
reset(struct feed *feed, struct store_rewind setback)
{
    setback.timeline = feed->slot.timeline;
    if (!setback.members_too)
        feed->copy.to[0] = '\0';
    feed_set_state(feed, FEED_RESETTING);
    if (store_rewind(feed->store, feed->config->feed.slot, &setback) != RC_OK)
        feed_restart(feed, "the store is away");
}

bool
feed_progress_is_void(struct feed *feed)
{
    if ((!feed->slot.must_create && !feed->slot.is_lost) || feed->slot.furthest[0] == '\0')
        return false;
    log_errorf("feed",
               "slot \"%s\" %s, and with it all changes since LSN %.16s are gone: clients are told "
               "of a gap, memberships are copied anew",
               feed->config->feed.slot, feed->slot.is_lost ? "is lost" : "does not exist any more",
               feed->slot.furthest);
    reset(feed, (struct store_rewind){.position = "", .is_gap = true});
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
    if (feed->slot.read_lsn == 0 || feed->slot.lsn <= feed->slot.read_lsn)
        return false;
    log_errorf("feed",
               "slot \"%s\" begins at LSN %016" PRIx64 ", but the store knows WAL only up to "
               "%016" PRIx64 ": the slot was made again or moved on, or the store restored from an "
               "old copy; changes between are gone, clients are told of a gap, memberships are "
               "copied anew",
               feed->config->feed.slot, feed->slot.lsn, feed->slot.read_lsn);
    reset(feed, (struct store_rewind){.position = "",
                                      .read_lsn = feed->slot.lsn,
                                      .knows_less_than = feed->slot.lsn,
                                      .is_gap = true});
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
    uint64_t fork = switch_point(history, feed->slot.stored_timeline);
    char position[FRAME_POSITION_TEXT + 1];
    struct store_rewind setback = {.position = position,
                                   .read_lsn =
                                       feed->slot.read_lsn < fork ? feed->slot.read_lsn : fork,
                                   .of_timeline = feed->slot.stored_timeline};

    frame_position_text(fork, 0, position);
    setback.is_gap = fork == 0 || strcmp(feed->slot.furthest, position) > 0;
    if (fork == 0) {
        log_errorf("feed",
                   "timeline %" PRIu32
                   " of the store's progress is no ancestor of timeline %" PRIu32
                   ": it starts over, clients are told of a gap",
                   feed->slot.stored_timeline, feed->slot.timeline);
        setback.position = "";
        setback.read_lsn = feed->slot.lsn;
    } else if (!setback.is_gap) {
        log_infof("feed", "following timeline %" PRIu32, feed->slot.timeline);
    } else {
        log_warnf("feed",
                  "timeline %" PRIu32 " forked at LSN %.16s, before what the store holds: changes "
                  "beyond were undone by the failover, clients are told of a gap, memberships are "
                  "copied anew",
                  feed->slot.timeline, position);
        setback.members_too = true;
        snprintf(feed->copy.to, sizeof(feed->copy.to), "%s",
                 strcmp(feed->batch.sent_position, position) < 0 ? feed->batch.sent_position
                                                                 : position);
    }
    reset(feed, setback);
}
