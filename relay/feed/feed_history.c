/* feed_history.c: resets the store's progress after a timeline switch or the loss of the slot. */
#include "feed/feed_history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "feed/feed_parts.h"

/* The store rewinds and closes its connections, which restarts the feed. */
static void
reset(struct feed *feed, struct store_rewind rewind)
{
    rewind.timeline = feed->slot.timeline;
    if (!rewind.resets_members)
        feed->copy.to[0] = '\0';
    feed_set_state(feed, FEED_RESETTING);
    if (store_rewind(feed->store, feed->config->feed.slot, &rewind) != RC_OK)
        feed_restart(feed, "store is unavailable");
}

/*
 * The read LSN until a slot is created. The slot starts beyond it, so clients receive another gap.
 * The former read LSN may be higher than that of the slot, on WAL that was undone.
 */
#define READ_NOTHING 1

static bool
lacks_slot(const struct feed *feed)
{
    return feed->slot.must_create || feed->slot.is_lost;
}

/* Whether the WAL ends before the store's progress. `end` receives the position of its end. */
static bool
wal_ends_early(const struct feed *feed, char end[FRAME_POSITION_TEXT + 1])
{
    frame_position_text(feed->slot.wal_lsn, 0, end);
    return strcmp(feed->slot.furthest, end) > 0;
}

/*
 * Whether the server may lack transactions that the store has processed. Two restores may lead to
 * timelines of the same number. Then the WAL may already have passed the store's progress, so it is
 * not known whether changes were undone. A server that was never promoted has no other history, but
 * a restore that still recovers is not promoted yet: its WAL ends before the store's progress. So
 * may that of a standby with replication lag, whose clients receive another gap for the new slot.
 */
static bool
may_have_undone(const struct feed *feed)
{
    char end[FRAME_POSITION_TEXT + 1];

    if (!feed->slot.must_create)
        return false;
    return feed->slot.timeline > 1 || wal_ends_early(feed, end);
}

bool
feed_server_lacks_progress(const struct feed *feed)
{
    char end[FRAME_POSITION_TEXT + 1];

    return (lacks_slot(feed) && feed->slot.furthest[0] != '\0') || wal_ends_early(feed, end);
}

bool
feed_reset_if_slot_lost(struct feed *feed)
{
    if (!lacks_slot(feed) || feed->slot.furthest[0] == '\0')
        return false;
    log_error("feed",
              "changes lost with the slot: clients receive a gap, memberships are copied again",
              LOG_TEXT("slot", feed->config->feed.slot),
              LOG_TEXT("reason", feed->slot.is_lost ? "slot is lost" : "slot does not exist"),
              LOG_BYTES("since_lsn", feed->slot.furthest, strnlen(feed->slot.furthest, 16)));
    reset(feed, (struct store_rewind){.position = "",
                                      .read_lsn = READ_NOTHING,
                                      .is_gap = true,
                                      .is_undone = may_have_undone(feed)});
    return true;
}

/*
 * On a primary, the progress never passes the end of the WAL. If it does, the server was restored
 * from an older copy, and writes other changes at the LSNs that the store has already processed.
 */
bool
feed_reset_if_wal_went_back(struct feed *feed)
{
    char end[FRAME_POSITION_TEXT + 1];
    bool has_slot = !lacks_slot(feed);

    if (feed->slot.in_recovery || !wal_ends_early(feed, end))
        return false;
    log_error("feed",
              "WAL ends before the store's progress: clients receive a gap, memberships are copied "
              "again",
              LOG_TEXT("slot", feed->config->feed.slot), LOG_BYTES("wal_lsn", end, 16),
              LOG_BYTES("store_lsn", feed->slot.furthest, strnlen(feed->slot.furthest, 16)),
              LOG_TEXT("detail", "the server was restored from an older copy"));
    snprintf(feed->copy.to, sizeof(feed->copy.to), "%s", has_slot ? end : "");
    reset(feed, (struct store_rewind){.position = has_slot ? end : "",
                                      .read_lsn = has_slot ? feed->slot.wal_lsn : READ_NOTHING,
                                      .is_gap = true,
                                      .is_undone = true,
                                      .resets_members = has_slot});
    return true;
}

/*
 * WAL is confirmed only after the store has recorded its position. So a slot that starts beyond
 * that position was recreated or advanced manually, or the store was restored from an old copy.
 * Slots that the feed recreated are included: their clients have already received a gap, but a
 * client that reloaded early misses the changes committed while the slot was created (minutes on a
 * standby).
 */
bool
feed_reset_if_slot_advanced(struct feed *feed)
{
    char slot_lsn[17], store_lsn[17];

    if (feed->slot.read_lsn == 0 || feed->slot.lsn <= feed->slot.read_lsn)
        return false;
    snprintf(slot_lsn, sizeof(slot_lsn), "%016" PRIx64, feed->slot.lsn);
    snprintf(store_lsn, sizeof(store_lsn), "%016" PRIx64, feed->slot.read_lsn);
    log_error(
        "feed",
        "slot starts beyond the store's progress: clients receive a gap, memberships are copied "
        "again",
        LOG_TEXT("slot", feed->config->feed.slot), LOG_TEXT("slot_lsn", slot_lsn),
        LOG_TEXT("store_lsn", store_lsn),
        LOG_TEXT("detail",
                 "the slot was recreated or advanced, or the store was restored from an old copy"));
    reset(feed, (struct store_rewind){.position = "",
                                      .read_lsn = feed->slot.lsn,
                                      .read_lsn_below = feed->slot.lsn,
                                      .is_gap = true});
    return true;
}

/*
 * Returns the end of `timeline`, or 0 if the history does not contain it. Each line of a history
 * file contains timeline, LSN and reason.
 */
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

static void
log_switch(const struct feed *feed, uint64_t fork, bool is_gap)
{
    char fork_text[32];

    snprintf(fork_text, sizeof(fork_text), "%016" PRIx64, fork);
    if (fork == 0)
        log_error("feed",
                  "timeline of the store's progress is not an ancestor: clients receive a gap",
                  LOG_UINT("timeline", feed->slot.timeline),
                  LOG_UINT("stored_timeline", feed->slot.stored_timeline));
    else if (!is_gap)
        log_info("feed", "following new timeline", LOG_UINT("timeline", feed->slot.timeline));
    else
        log_warn("feed",
                 "timeline forked before the store's progress: clients receive a gap, memberships "
                 "are copied again",
                 LOG_UINT("timeline", feed->slot.timeline), LOG_TEXT("fork_lsn", fork_text),
                 LOG_TEXT("reason", "the failover undid changes after fork_lsn"));
}

/* The new timeline contains the progress up to the fork, unless the slot is lost. */
void
feed_on_history(struct feed *feed, const char *history)
{
    uint64_t fork = switch_point(history, feed->slot.stored_timeline);
    uint64_t read_lsn = feed->slot.read_lsn < fork ? feed->slot.read_lsn : fork;
    char position[FRAME_POSITION_TEXT + 1];
    bool is_undone;

    frame_position_text(fork, 0, position);
    is_undone = strcmp(feed->slot.furthest, position) > 0;
    log_switch(feed, fork, is_undone);
    if (lacks_slot(feed) && feed->slot.furthest[0] != '\0')
        reset(feed, (struct store_rewind){.position = "",
                                          .read_lsn = READ_NOTHING,
                                          .is_gap = true,
                                          .is_undone = is_undone,
                                          .undone_lsn = fork});
    else if (fork == 0)
        reset(feed, (struct store_rewind){.position = "",
                                          .read_lsn = feed->slot.lsn,
                                          .of_timeline = feed->slot.stored_timeline,
                                          .is_gap = true,
                                          .is_undone = true});
    else {
        if (is_undone)
            snprintf(feed->copy.to, sizeof(feed->copy.to), "%s",
                     strcmp(feed->batch.sent_position, position) < 0 ? feed->batch.sent_position
                                                                     : position);
        reset(feed, (struct store_rewind){.position = position,
                                          .read_lsn = read_lsn,
                                          .of_timeline = feed->slot.stored_timeline,
                                          .is_gap = is_undone,
                                          .is_undone = is_undone,
                                          .undone_lsn = fork,
                                          .resets_members = is_undone});
    }
}
