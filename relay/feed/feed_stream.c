/* feed_stream.c: frames from the slot into the store; confirmations back. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "feed/feed_parts.h"
#include "wire/traceparent.h"

#define LAG_QUIET_US 2000000 /* nothing came for so long: there is nothing more */

static void
on_ingested(void *ctx, enum rc rc)
{
    struct feed *feed = feed_take_ticket(ctx);
    struct flight flight;

    if (feed == NULL || feed->flights.count == 0)
        return;
    if (rc != RC_OK) {
        feed_restart(feed, "the store did not take a batch");
        return;
    }
    backoff_reset(&feed->link.backoff);
    flight = feed_flights_land(&feed->flights);
    if (flight.confirm_lsn > feed->confirm.stored_lsn)
        feed->confirm.stored_lsn = flight.confirm_lsn;
    if (flight.commit_us != 0)
        stats_time(feed->stats, TIME_STORED, clock_wall_us() - flight.commit_us);
    if (feed->state == FEED_COPYING || feed->state == FEED_STREAMING)
        feed->on_room(feed);
}

static void
send_batch(struct feed *feed)
{
    struct feed_ticket *ticket;
    size_t bytes = store_batch_bytes(feed->batch.frames);
    char after[FRAME_POSITION_TEXT + 1];

    if (feed->flights.count == FEED_FLIGHTS_MAX) {
        feed_restart(feed, "the plugin sent more frames at once than it may");
        return;
    }
    memcpy(after, feed->batch.sent_position, sizeof(after));
    if (bytes > 0)
        frame_position_text(feed->batch.lsn, feed->batch.ordinal, feed->batch.sent_position);
    ticket = memory_new(sizeof(*ticket));
    *ticket = (struct feed_ticket){feed, feed->link.attempt};
    if (store_ingest(feed->store, feed->config->feed.slot, after, feed->batch.sent_position,
                     feed->batch.confirm_lsn, feed->batch.frames, on_ingested, ticket) != RC_OK) {
        free(ticket);
        feed_restart(feed, "the store is away");
        return;
    }
    feed_flights_add(&feed->flights,
                     (struct flight){feed->batch.confirm_lsn, bytes, feed->batch.commit_us});
    feed->batch.confirm_lsn = 0;
    feed->batch.commit_us = 0;
    feed_batch_release(&feed->batch);
}

void
feed_stream_flush(struct feed *feed)
{
    if (store_batch_count(feed->batch.frames) > 0)
        send_batch(feed);
}

/*
 * When nothing is under way, all WAL the server has read can go: quiet tables pin nothing. The
 * store is told first: it must know of all that the slot forgets.
 */
void
feed_stream_idle(struct feed *feed)
{
    if (feed->flights.count > 0 || store_batch_count(feed->batch.frames) > 0 ||
        feed->confirm.idle_lsn <= feed->confirm.stored_lsn)
        return;
    feed->batch.confirm_lsn = feed->confirm.idle_lsn;
    send_batch(feed);
}

/* What the store had when we came is read again when the slot was not confirmed so far. */
static bool
is_stored(const struct feed *feed, const struct frame *frame)
{
    return frame->commit_lsn < feed->slot.claimed_lsn ||
           (frame->commit_lsn == feed->slot.claimed_lsn &&
            frame->ordinal <= feed->slot.claimed_ordinal);
}

static void
reject_note(struct feed *feed, const struct frame *frame)
{
    char id[FRAME_UUID_TEXT + 1];

    frame_id_text(frame->as.note.id, id);
    log_errorf("feed",
               "notification %s of %zu bytes is longer than the store takes "
               "(its proto-max-bulk-len): it goes to the error log alone, as rejected",
               id, frame->as.note.data.len);
    store_batch_reject(feed->batch.frames, frame);
    stats_add(feed->stats, STAT_FEED_REJECTED, 1);
}

/* Where the trace goes on: by this line, the id leads to all that becomes of it. */
static void
log_trace(const struct frame *frame)
{
    char traceparent[TRACEPARENT_LEN + 1];
    char id[FRAME_UUID_TEXT + 1];

    if (frame->kind != FRAME_KIND_NOTIFICATION ||
        !traceparent_of_line(frame->as.note.data, traceparent))
        return;
    frame_id_text(frame->as.note.id, id);
    log_eventf(traceparent_is_sampled(traceparent) ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG, "feed",
               "decoded %s, traceparent %s", id, traceparent);
}

/* The feed may have been restarted: then nothing of the frame is kept. */
static void
take_frame(struct feed *feed, const struct frame *frame)
{
    int64_t commit_us = frame->kind == FRAME_KIND_COMMIT ? frame->as.commit.commit_us : 0;

    stats_add(feed->stats, STAT_FEED_FRAMES, 1);
    if (is_stored(feed, frame)) {
        stats_add(feed->stats, STAT_STORE_REPLAYED, 1);
    } else {
        if (store_batch_is_full(feed->batch.frames, frame))
            send_batch(feed);
        if (feed->state == FEED_WAITING)
            return;
        if (store_accepts(feed->store, frame))
            store_batch_add(feed->batch.frames, frame);
        else
            reject_note(feed, frame);
        if ((frame->flags & FRAME_UNDECODABLE) != 0)
            stats_add(feed->stats, STAT_FEED_UNDECODABLE, 1);
        if ((frame->flags & FRAME_TRACED) != 0)
            log_trace(frame);
        if (frame->kind == FRAME_KIND_COMMIT)
            stats_add(feed->stats, STAT_REPEATS_DATABASE, frame->flags >> FRAME_REPEATS_SHIFT);
        feed->batch.lsn = frame->commit_lsn;
        feed->batch.ordinal = frame->ordinal;
    }
    if (frame->kind != FRAME_KIND_COMMIT)
        return;
    feed->batch.confirm_lsn = frame->as.commit.end_lsn;
    if (commit_us == 0)
        return; /* what has no commit of its own */
    if (feed->batch.commit_us == 0)
        feed->batch.commit_us = commit_us;
    feed->feedback.came_us = feed->feedback.heard_us;
    feed->feedback.came_late_us = clock_wall_us() - commit_us;
    stats_time(feed->stats, TIME_DECODED, feed->feedback.came_late_us);
}

bool
feed_stream_take(struct feed *feed, char *owned, struct bytes packet)
{
    size_t bytes = packet.len;

    while (packet.len > 0) {
        struct frame frame;
        size_t len;

        if (frame_parse(packet, &frame, &len) != RC_OK)
            feed_restart(feed, "the plugin sent a frame that cannot be read: relay and plugin "
                               "must be of one version");
        else
            take_frame(feed, &frame);
        if (feed->state == FEED_WAITING) {
            free(owned);
            return false;
        }
        packet = (struct bytes){packet.at + len, packet.len - len};
    }
    if (store_batch_count(feed->batch.frames) == 0) {
        free(owned); /* the store had all of it */
        return true;
    }
    /* Not before: a batch that is sent amid it lets go of what is held. */
    feed_batch_hold(&feed->batch, owned, bytes);
    if (store_batch_bytes(feed->batch.frames) >= FEED_BATCH_BYTES ||
        feed->batch.held_bytes >= FEED_HELD_BYTES)
        feed_stream_flush(feed);
    return feed->state != FEED_WAITING;
}

static void
take_keepalive(struct feed *feed, const struct walmsg *message)
{
    uint64_t read_lsn = feed_confirm_read_lsn(feed, message);

    if (message->wal_end > feed->confirm.received_lsn)
        feed->confirm.received_lsn = message->wal_end;
    if (read_lsn > feed->confirm.idle_lsn)
        feed->confirm.idle_lsn = read_lsn;
    if (message->reply_requested)
        feed_send_feedback(feed);
}

/* False when the feed was restarted. Owns the buffer. */
static bool
take_message(struct feed *feed, char *buffer, size_t len)
{
    struct walmsg message;

    feed->feedback.heard_us = clock_monotonic_us();
    stats_add(feed->stats, STAT_FEED_BYTES, len);
    if (walmsg_parse((struct bytes){(unsigned char *)buffer, len}, &message) != RC_OK) {
        free(buffer);
        feed_restart(feed, "PostgreSQL sent a replication message that cannot be read");
        return false;
    }
    if (message.kind == WALMSG_KEEPALIVE) {
        take_keepalive(feed, &message);
        free(buffer);
        return feed->state == FEED_STREAMING;
    }
    if (message.wal_end > feed->confirm.received_lsn)
        feed->confirm.received_lsn = message.wal_end;
    return feed_stream_take(feed, buffer, message.packet);
}

/* The stream ended: the result says why. */
static void
stream_ended(struct feed *feed)
{
    PGresult *result = PQgetResult(feed->link.conn);
    const char *message = result != NULL ? PQresultErrorMessage(result) : "";
    /* Not of all it says: its context names the output plugin, whatever went wrong. */
    const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *hint = "";

    if (primary != NULL)
        hint = feed_error_hint(PQresultErrorField(result, PG_DIAG_SQLSTATE), primary);
    if (message[0] == '\0')
        message = PQerrorMessage(feed->link.conn);
    feed_fail(feed, "PostgreSQL ended the stream",
              message[0] != '\0' ? message : "the server shuts down", hint);
    PQclear(result);
}

void
feed_stream_pump(struct feed *feed)
{
    while (feed->state == FEED_STREAMING && feed_flights_have_room(&feed->flights)) {
        char *buffer = NULL;
        int len = PQgetCopyData(feed->link.conn, &buffer, 1);

        if (len == 0) {
            if (feed->flights.count < FEED_FLIGHTS_HURRY)
                feed_stream_flush(feed);
            break;
        }
        if (len < 0) {
            stream_ended(feed);
            return;
        }
        if (!take_message(feed, buffer, (size_t)len))
            return;
    }
    if (feed->state != FEED_STREAMING)
        return;
    /* While the store is behind, PostgreSQL waits: TCP holds it back. */
    if (feed_flights_have_room(&feed->flights))
        ev_io_start(feed->loop, &feed->link.readable);
    else
        ev_io_stop(feed->loop, &feed->link.readable);
}

/* Logs where the stream goes on, as PostgreSQL writes positions. */
static void
log_beginning(const struct feed *feed)
{
    char stored[32] = "nothing yet";
    uint64_t lsn = 0, ordinal = 0;

    if (frame_position_read(feed->batch.sent_position, strlen(feed->batch.sent_position), &lsn,
                            &ordinal) == RC_OK &&
        lsn != 0)
        snprintf(stored, sizeof(stored), "%" PRIX64 "/%" PRIX64, lsn >> 32, lsn & 0xffffffff);
    log_infof("feed", "streaming from slot \"%s\", timeline %" PRIu32 ", stored up to %s",
              feed->config->feed.slot, feed->slot.timeline, stored);
}

void
feed_stream_begin(struct feed *feed)
{
    feed_set_state(feed, FEED_STREAMING);
    feed->on_room = feed_stream_pump;
    ev_timer_stop(feed->loop, &feed->link.patience);
    feed->slot.is_standby = false;
    feed->feedback.heard_us = clock_monotonic_us();
    stats_set(feed->stats, STAT_FEED_CONNECTED, 1);
    if (feed->slot.in_recovery)
        feed_standby_begin(feed);
    log_beginning(feed);
    feed_stream_pump(feed);
}

void
feed_send_feedback(struct feed *feed)
{
    unsigned char status[WALMSG_STATUS_SIZE];
    uint64_t received;

    feed_confirm_update(feed);
    received = feed->confirm.received_lsn > feed->confirm.confirmed_lsn
                   ? feed->confirm.received_lsn
                   : feed->confirm.confirmed_lsn;
    walmsg_status(status, received, feed->confirm.confirmed_lsn, clock_wall_us());
    if (PQputCopyData(feed->link.conn, (const char *)status, sizeof(status)) < 0) {
        feed_restart(feed, "could not confirm: %s",
                     feed_error_line(PQerrorMessage(feed->link.conn)));
        return;
    }
    feed->feedback.sent_us = clock_monotonic_us();
    feed->feedback.told_lsn = feed->confirm.confirmed_lsn;
    stats_set(feed->stats, STAT_FEED_RECEIVED_LSN, feed->confirm.received_lsn);
    stats_set(feed->stats, STAT_FEED_CONFIRMED_LSN, feed->confirm.confirmed_lsn);
    feed_flush_socket(feed);
}

void
feed_show_lag(struct feed *feed)
{
    uint64_t kept_from =
        feed->confirm.confirmed_lsn > feed->slot.lsn ? feed->confirm.confirmed_lsn : feed->slot.lsn;
    int64_t waits_since_us =
        feed->flights.count > 0 ? feed->flights.ring[feed->flights.first].commit_us : 0;
    int64_t lag_us = 0;

    if (waits_since_us > 0)
        lag_us = clock_wall_us() - waits_since_us;
    else if (clock_monotonic_us() - feed->feedback.came_us < LAG_QUIET_US)
        lag_us = feed->feedback.came_late_us;
    stats_set(feed->stats, STAT_FEED_LAG, lag_us > 0 ? (uint64_t)lag_us : 0);
    stats_set(feed->stats, STAT_FEED_UNCONFIRMED,
              feed->confirm.received_lsn > kept_from ? feed->confirm.received_lsn - kept_from : 0);
}
