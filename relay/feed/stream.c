/*
 * stream.c: streams frames from the slot into the store, in batches, and confirms the WAL that is
 * stored and safe on disk.
 */
#include "feed/feed_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "store/entry.h"
#include "wire/frame.h"

#define FLIGHTS_TARGET 64
#define FLIGHTS_BATCHING 2 /* from this number of batches in flight, only full batches are sent */
/* Maximum bytes in flight: hiredis moves all unsent bytes at each write. */
#define FLIGHT_BYTES_MAX (1u << 20)
#define BATCH_BYTES (128u << 10)
#define HELD_BYTES (1u << 20)          /* maximum bytes of held messages, including sent frames */
#define WAL_PAGE_BYTES_MAX (64 * 1024) /* PostgreSQL can be built with WAL pages of this size */
#define LAG_IDLE_US 2000000            /* after this time without transactions the lag is 0 */
#define IDLE_EVERY_US 50000 /* WAL without notifications is recorded at most this often */
/*
 * With several shards: when all of them record the progress. A relay that starts searches the
 * streams for the last record (start_position.lua).
 */
#define RECORD_EVERY_US 5000000
#define RECORD_FRAMES 512
#define STATUS_EVERY_US 10000000 /* used if the server has no wal_sender_timeout */

/* ---- from a batch to the store */

bool
feed_flights_have_room(const struct feed_flights *flights)
{
    return flights->count < FLIGHTS_TARGET && flights->bytes < FLIGHT_BYTES_MAX;
}

void
feed_pace_reading(struct feed *feed)
{
    if (feed_flights_have_room(&feed->flights))
        ev_io_start(feed->loop, &feed->connection.readable);
    else
        ev_io_stop(feed->loop, &feed->connection.readable);
}

/* Batches for different shards may end in another order. */
static void
end_flights(struct feed *feed)
{
    struct feed_flights *flights = &feed->flights;

    while (flights->count > 0 && flights->ring[flights->first].is_stored) {
        const struct flight *flight = &flights->ring[flights->first];

        flights->first = (flights->first + 1) % FEED_FLIGHTS_MAX;
        flights->count--;
        flights->bytes -= flight->bytes;
        if (flight->record_lsn > feed->confirm.stored_lsn)
            feed->confirm.stored_lsn = flight->record_lsn;
        if (flight->commit_us != 0)
            stats_time(feed->stats, TIME_STORED, clock_wall_us() - flight->commit_us);
    }
}

static void
on_ingested(void *ctx, enum rc rc)
{
    const unsigned flight = ((struct feed_attempt *)ctx)->flight;
    struct feed *feed = feed_ticket_redeem(ctx);

    if (feed == NULL || feed->flights.count == 0)
        return;
    if (rc != RC_OK) {
        feed_restart(feed, rc == RC_CLOSED ? "store connection lost before the reply to a batch"
                                           : "store rejected a batch");
        return;
    }
    backoff_reset(&feed->connection.backoff);
    feed->flights.ring[flight].is_stored = true;
    end_flights(feed);
    if (feed->state == FEED_COPYING || feed->state == FEED_STREAMING)
        feed->resume_reading(feed);
}

/*
 * A batch goes to the shards for which it has frames, and to the first available one. WAL is
 * confirmed once every shard has recorded that it is processed. So a slot never starts beyond the
 * progress of a shard (feed_reset_if_slot_advanced).
 */
static bool
is_record_due(const struct feed *feed)
{
    const struct feed_confirm *confirm = &feed->confirm;

    return store_shards(feed->store) == 1 || feed->state == FEED_COPYING || confirm->is_requested ||
           confirm->unrecorded >= RECORD_FRAMES ||
           clock_monotonic_us() - confirm->recorded_us >= RECORD_EVERY_US;
}

static struct flight
begin_flight(struct feed *feed, bool is_record)
{
    struct feed_confirm *confirm = &feed->confirm;

    if (feed->batch.confirm_lsn > confirm->sent_lsn)
        confirm->sent_lsn = feed->batch.confirm_lsn;
    confirm->unrecorded += (unsigned)store_batch_count(feed->batch.frames);
    if (is_record) {
        confirm->recording_lsn = confirm->sent_lsn;
        confirm->recorded_us = clock_monotonic_us();
        confirm->unrecorded = 0;
        confirm->is_requested = confirm->is_requested && confirm->sent_lsn < confirm->idle_lsn;
    }
    return (struct flight){.record_lsn = is_record ? confirm->sent_lsn : 0,
                           .bytes = store_batch_bytes(feed->batch.frames),
                           .commit_us = feed->batch.commit_us};
}

static void
send_batch(struct feed *feed)
{
    struct feed_flights *flights = &feed->flights;
    const bool is_record = is_record_due(feed);
    struct store_ingest_order order = {.slot = feed->config->feed.slot,
                                       .position = feed->batch.sent_position,
                                       .is_record = is_record};
    struct feed_attempt *ticket;
    struct flight flight;

    if (flights->count == FEED_FLIGHTS_MAX) {
        feed_restart(feed, "plugin sent more frames per message than allowed");
        return;
    }
    flight = begin_flight(feed, is_record);
    if (flight.bytes > 0)
        frame_position_text(feed->batch.lsn, feed->batch.ordinal, feed->batch.sent_position);
    order.read_lsn = is_record ? feed->confirm.sent_lsn : feed->batch.confirm_lsn;
    ticket = feed_ticket_new(feed);
    ticket->flight = (flights->first + flights->count) % FEED_FLIGHTS_MAX;
    if (store_ingest(feed->store, &order, feed->batch.frames, on_ingested, ticket) != RC_OK) {
        free(ticket);
        feed_restart(feed, "store is unavailable");
        return;
    }
    flights->ring[(flights->first + flights->count++) % FEED_FLIGHTS_MAX] = flight;
    flights->bytes += flight.bytes;
    feed->batch.confirm_lsn = 0;
    feed->batch.commit_us = 0;
    feed_batch_release(&feed->batch);
}

/* Without further batches, the shards record what was sent. */
static void
record_when_due(struct feed *feed)
{
    if (feed->confirm.recording_lsn < feed->confirm.sent_lsn &&
        feed_flights_have_room(&feed->flights) && is_record_due(feed))
        send_batch(feed);
}

void
feed_stream_flush(struct feed *feed)
{
    if (store_batch_count(feed->batch.frames) > 0)
        send_batch(feed);
}

/* ---- frames */

/* After a restart the server repeats changes that were stored but not confirmed. */
static bool
is_stored(const struct feed *feed, const struct frame *frame)
{
    return frame->commit_lsn < feed->slot.acquired_lsn ||
           (frame->commit_lsn == feed->slot.acquired_lsn &&
            frame->ordinal <= feed->slot.acquired_ordinal);
}

/*
 * A frame that is not after the previous one would be skipped as stored. Returns false if the feed
 * was restarted.
 */
static bool
check_order(struct feed *feed, const struct frame *frame)
{
    char position[FRAME_POSITION_TEXT + 1], previous[FRAME_POSITION_TEXT + 1];

    if (position_less((struct position){feed->batch.lsn, feed->batch.ordinal},
                      (struct position){frame->commit_lsn, frame->ordinal}))
        return true;
    frame_position_text(frame->commit_lsn, frame->ordinal, position);
    frame_position_text(feed->batch.lsn, feed->batch.ordinal, previous);
    feed_restart(feed, "frame out of order from the plugin", LOG_TEXT("position", position),
                 LOG_TEXT("previous_position", previous));
    return false;
}

static void
reject_notification(struct feed *feed, const struct frame *frame)
{
    char id[FRAME_UUID_TEXT + 1];

    frame_id_text(frame->as.notification.id, id);
    log_error(
        "feed",
        "notification exceeds the store's proto-max-bulk-len: added to the error log as rejected",
        LOG_TEXT("id", id), LOG_UINT("size_bytes", frame->as.notification.data.len));
    store_batch_reject(feed->batch.frames, frame);
    stats_add(feed->stats, STAT_FEED_REJECTED, 1);
}

/*
 * Logs the trace id together with the notification's id. Later log messages contain only the
 * notification's id.
 */
static void
log_trace(const struct frame *frame)
{
    char traceparent[TRACEPARENT_LEN + 1];
    char id[FRAME_UUID_TEXT + 1];

    if (frame->kind != FRAME_KIND_NOTIFICATION ||
        !notification_traceparent(frame->as.notification.data, traceparent))
        return;
    frame_id_text(frame->as.notification.id, id);
    log_event(traceparent_is_sampled(traceparent) ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG, "feed",
              "notification decoded", LOG_TEXT("id", id), LOG_TEXT("traceparent", traceparent));
}

/* Adds a frame to the batch. May restart the feed and drop the frame. */
static void
handle_frame(struct feed *feed, const struct frame *frame)
{
    int64_t commit_us = frame->kind == FRAME_KIND_COMMIT ? frame->as.commit.commit_us : 0;

    stats_add(feed->stats, STAT_FEED_FRAMES, 1);
    if (is_stored(feed, frame)) {
        stats_add(feed->stats, STAT_STORE_REPLAYED, 1);
        if (store_accepts(feed->store, frame))
            store_batch_skip(feed->batch.frames, frame);
    } else {
        if (store_batch_is_full(feed->batch.frames, frame))
            send_batch(feed);
        if (feed->state == FEED_WAITING)
            return;
        if (store_accepts(feed->store, frame))
            store_batch_add(feed->batch.frames, frame);
        else
            reject_notification(feed, frame);
        if ((frame->flags & FRAME_UNDECODABLE) != 0)
            stats_add(feed->stats, STAT_FEED_UNDECODABLE, 1);
        if (frame->kind == FRAME_KIND_NOTIFICATION && (frame->flags & FRAME_WEB_PUSH) != 0 &&
            !frame_has_web_push(&frame->as.notification))
            stats_add(feed->stats,
                      frame->as.notification.web_push.len == 0 ? STAT_PUSH_DENIED_TITLE
                                                               : STAT_PUSH_DENIED_TEXT,
                      1);
        if ((frame->flags & FRAME_TRACED) != 0)
            log_trace(frame);
        if (frame->kind == FRAME_KIND_COMMIT)
            stats_add(feed->stats, STAT_REPEATS_DATABASE, frame->flags >> FRAME_REPEATS_SHIFT);
    }
    feed->batch.lsn = frame->commit_lsn;
    feed->batch.ordinal = frame->ordinal;
    if (frame->kind != FRAME_KIND_COMMIT)
        return;
    feed->batch.confirm_lsn = frame->as.commit.end_lsn;
    if (commit_us == 0)
        return; /* this commit frame does not end a transaction */
    if (feed->batch.commit_us == 0)
        feed->batch.commit_us = commit_us;
    feed->feedback.last_commit_us = feed->feedback.received_us;
    feed->feedback.last_commit_lag_us = clock_wall_us() - commit_us;
    stats_time(feed->stats, TIME_DECODED, feed->feedback.last_commit_lag_us);
}

/* Owns the bytes of a message until the batch that points into them is sent. */
static void
own_message(struct feed_batch *batch, char *owned, size_t bytes)
{
    if (batch->held_count == batch->held_room) {
        batch->held_room = batch->held_room == 0 ? 64 : batch->held_room * 2;
        batch->held = memory_grow(batch->held, batch->held_room * sizeof(*batch->held));
    }
    batch->held[batch->held_count++] = owned;
    batch->held_bytes += bytes;
}

bool
feed_stream_receive(struct feed *feed, char *owned, struct bytes frames)
{
    size_t bytes = frames.len;

    while (frames.len > 0) {
        struct frame frame;
        size_t len;

        if (frame_parse(frames, &frame, &len) != RC_OK)
            feed_restart(
                feed, "invalid frame from the plugin: relay and plugin must have the same version");
        else if (check_order(feed, &frame))
            handle_frame(feed, &frame);
        if (feed->state == FEED_WAITING) {
            free(owned);
            return false;
        }
        frames = (struct bytes){frames.at + len, frames.len - len};
    }
    if (store_batch_count(feed->batch.frames) == 0) {
        free(owned); /* every frame was already stored */
        return true;
    }
    /* Only after the loop, because sending a batch frees its messages. */
    own_message(&feed->batch, owned, bytes);
    if (store_batch_bytes(feed->batch.frames) >= BATCH_BYTES ||
        feed->batch.held_bytes >= HELD_BYTES)
        feed_stream_flush(feed);
    return feed->state != FEED_WAITING;
}

/*
 * When nothing is in flight, confirms all WAL that the server has read, so that idle tables do not
 * retain WAL, and clients that wait for a commit without notifications continue. The store is
 * updated first: it must record every position that the slot has passed.
 */
static void
confirm_idle(struct feed *feed)
{
    if (feed->flights.count > 0 || store_batch_count(feed->batch.frames) > 0 ||
        feed->confirm.idle_lsn <= feed->confirm.sent_lsn)
        return;
    feed->confirm.idle_us = clock_monotonic_us();
    feed->batch.confirm_lsn = feed->confirm.idle_lsn;
    send_batch(feed);
}

void
feed_on_idle(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct feed *feed = timer->data;

    (void)loop;
    (void)events;
    if (feed->state == FEED_STREAMING)
        confirm_idle(feed);
}

/* While batches are in flight, the reply to the last one continues. */
static void
confirm_idle_when_due(struct feed *feed)
{
    int64_t wait_us;

    if (feed->confirm.idle_lsn <= feed->confirm.sent_lsn || ev_is_active(&feed->feedback.idle))
        return;
    wait_us = feed->confirm.idle_us + IDLE_EVERY_US - clock_monotonic_us();
    if (wait_us <= 0) {
        confirm_idle(feed);
        return;
    }
    ev_timer_set(&feed->feedback.idle, (double)wait_us / 1e6, 0.0);
    ev_timer_start(feed->loop, &feed->feedback.idle);
}

/* ---- messages of the stream */

static void
handle_keepalive(struct feed *feed, const struct walmsg *message)
{
    uint64_t read_lsn = feed_confirm_read_lsn(feed, message);

    if (message->wal_end > feed->confirm.received_lsn)
        feed->confirm.received_lsn = message->wal_end;
    if (read_lsn > feed->confirm.idle_lsn)
        feed->confirm.idle_lsn = read_lsn;
    if (!message->reply_requested)
        return;
    feed->confirm.is_requested = true; /* a server that shuts down waits for the confirmation */
    feed_send_feedback(feed);
}

/* False if the feed was restarted. Owns the buffer. */
static bool
handle_message(struct feed *feed, char *buffer, size_t len)
{
    struct walmsg message;

    feed->feedback.received_us = clock_monotonic_us();
    stats_add(feed->stats, STAT_FEED_BYTES, len);
    if (walmsg_parse((struct bytes){(unsigned char *)buffer, len}, &message) != RC_OK) {
        free(buffer);
        feed_restart(feed, "invalid replication message from PostgreSQL");
        return false;
    }
    if (message.kind == WALMSG_KEEPALIVE) {
        handle_keepalive(feed, &message);
        free(buffer);
        return feed->state == FEED_STREAMING;
    }
    if (message.wal_end > feed->confirm.received_lsn)
        feed->confirm.received_lsn = message.wal_end;
    return feed_stream_receive(feed, buffer, message.data);
}

/* Logs the reason from the result. */
static void
stream_ended(struct feed *feed)
{
    PGresult *result = PQgetResult(feed->connection.conn);
    const char *message = result != NULL ? PQresultErrorMessage(result) : "";
    /* The hint depends on the primary message only: the context of every error names the plugin. */
    const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *hint = "";

    if (primary != NULL)
        hint = postgres_error_hint(PQresultErrorField(result, PG_DIAG_SQLSTATE), primary);
    if (message[0] == '\0')
        message = PQerrorMessage(feed->connection.conn);
    feed_fail(feed, "PostgreSQL ended the stream",
              message[0] != '\0' ? message : "server is shutting down", hint);
    PQclear(result);
}

void
feed_stream_pump(struct feed *feed)
{
    while (feed->state == FEED_STREAMING && feed_flights_have_room(&feed->flights)) {
        char *buffer = NULL;
        int len = PQgetCopyData(feed->connection.conn, &buffer, 1);

        if (len == 0) {
            if (feed->flights.count < FLIGHTS_BATCHING)
                feed_stream_flush(feed);
            break;
        }
        if (len < 0) {
            stream_ended(feed);
            return;
        }
        if (!handle_message(feed, buffer, (size_t)len))
            return;
    }
    if (feed->state == FEED_STREAMING)
        confirm_idle_when_due(feed);
    if (feed->state == FEED_STREAMING)
        record_when_due(feed);
    if (feed->state == FEED_STREAMING)
        feed_pace_reading(feed);
}

void
feed_stream_start(struct feed *feed)
{
    const char *position = feed->batch.sent_position;
    char stored_lsn[FEED_LSN_TEXT];

    feed_set_state(feed, FEED_STREAMING);
    feed->resume_reading = feed_stream_pump;
    ev_timer_stop(feed->loop, &feed->connection.timeout);
    feed->slot.holder = SLOT_FREE;
    memcpy(feed->connection.streamed, feed->connection.process, sizeof(feed->connection.streamed));
    feed->batch.lsn = feed->batch.ordinal = 0; /* the slot may start before the end of the copy */
    feed->feedback.received_us = clock_monotonic_us();
    stats_set(feed->stats, STAT_FEED_CONNECTED, 1);
    feed_status_start(feed);
    log_info("feed", "streaming from slot", LOG_TEXT("slot", feed->config->feed.slot),
             LOG_UINT("timeline", feed->slot.timeline),
             LOG_TEXT("stored_lsn", feed_position_lsn(position, stored_lsn)));
    feed_stream_pump(feed);
}

/* ---- confirmation */

/*
 * A server that waits for new WAL sends keepalives without a reply request. A keepalive with a
 * reply request may arrive while the server is still reading WAL and the decoder buffers earlier
 * transactions. The decoder flushes them before it reads another WAL page. So all changes up to the
 * previous keepalive have arrived if the server is now on another page or has not advanced.
 */
uint64_t
feed_confirm_read_lsn(struct feed *feed, const struct walmsg *keepalive)
{
    uint64_t before = feed->confirm.keepalive_lsn;

    feed->confirm.keepalive_lsn = keepalive->wal_end;
    if (!keepalive->reply_requested || keepalive->wal_end == before)
        return keepalive->wal_end;
    return keepalive->wal_end / WAL_PAGE_BYTES_MAX > before / WAL_PAGE_BYTES_MAX ? before : 0;
}

/*
 * Until its fsync is complete, a stored notification can be lost if the machine fails, or if the
 * store is killed during a slow background fsync. KeyDB has no WAITAOF, so the feed waits for a
 * fixed delay. If the store restarts with less data before that, its progress is also older, and
 * PostgreSQL still has the lost changes.
 */
static void
update_synced(struct feed *feed)
{
    int64_t now_us = clock_monotonic_us();
    int64_t delay_us = store_fsync_delay_us(feed->store);

    if (delay_us == 0) {
        feed->confirm.mark_count = 0;
        feed->confirm.synced_lsn = feed->confirm.stored_lsn;
        return;
    }
    while (feed->confirm.mark_count > 0 &&
           feed->confirm.marks[feed->confirm.mark_first].at_us + delay_us <= now_us) {
        feed->confirm.synced_lsn = feed->confirm.marks[feed->confirm.mark_first].lsn;
        feed->confirm.mark_first = (feed->confirm.mark_first + 1) % FEED_MARKS_MAX;
        feed->confirm.mark_count--;
    }
    if (feed->confirm.stored_lsn <= feed->confirm.marked_lsn ||
        feed->confirm.mark_count == FEED_MARKS_MAX)
        return;
    feed->confirm.marks[(feed->confirm.mark_first + feed->confirm.mark_count) % FEED_MARKS_MAX] =
        (struct feed_mark){now_us, feed->confirm.stored_lsn};
    feed->confirm.mark_count++;
    feed->confirm.marked_lsn = feed->confirm.stored_lsn;
}

/*
 * While a shard is unavailable, no WAL is confirmed, so PostgreSQL sends the shard's notifications
 * again.
 */
void
feed_confirm_update(struct feed *feed)
{
    bool wants_replicas = store_min_replicas(feed->store) > 0;

    if (!store_is_complete(feed->store))
        return;
    update_synced(feed);
    feed->confirm.confirmed_lsn =
        wants_replicas && feed->confirm.replicated_lsn < feed->confirm.synced_lsn
            ? feed->confirm.replicated_lsn
            : feed->confirm.synced_lsn;
}

static void
on_replicated(void *ctx, enum rc rc)
{
    struct feed *feed = feed_ticket_redeem(ctx);

    if (feed == NULL)
        return;
    if (rc == RC_OK)
        feed->confirm.replicated_lsn = feed->confirm.replicating_lsn;
    feed->confirm.replicating_lsn = 0;
}

static void
confirm_replicas(struct feed *feed)
{
    struct feed_attempt *ticket;

    if (store_min_replicas(feed->store) == 0 || !store_is_complete(feed->store) ||
        feed->confirm.replicating_lsn != 0 ||
        feed->confirm.stored_lsn <= feed->confirm.replicated_lsn)
        return;
    ticket = feed_ticket_new(feed);
    if (store_replicate(feed->store, on_replicated, ticket) != RC_OK)
        free(ticket); /* the feedback timer retries the request */
    else
        feed->confirm.replicating_lsn = feed->confirm.stored_lsn;
}

/* ---- status messages */

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
    if (PQputCopyData(feed->connection.conn, (const char *)status, sizeof(status)) < 0) {
        feed_restart(feed, "could not send status message to PostgreSQL",
                     LOG_TEXT("error", postgres_error_line(PQerrorMessage(feed->connection.conn))));
        return;
    }
    feed->feedback.sent_us = clock_monotonic_us();
    feed->feedback.reported_lsn = feed->confirm.confirmed_lsn;
    stats_set(feed->stats, STAT_FEED_RECEIVED_LSN, feed->confirm.received_lsn);
    stats_set(feed->stats, STAT_FEED_CONFIRMED_LSN, feed->confirm.confirmed_lsn);
    feed_flush_socket(feed);
}

static void
update_lag(struct feed *feed)
{
    uint64_t start_lsn =
        feed->confirm.confirmed_lsn > feed->slot.lsn ? feed->confirm.confirmed_lsn : feed->slot.lsn;
    int64_t oldest_commit_us =
        feed->flights.count > 0 ? feed->flights.ring[feed->flights.first].commit_us : 0;
    int64_t lag_us = 0;

    if (oldest_commit_us > 0)
        lag_us = clock_wall_us() - oldest_commit_us;
    else if (clock_monotonic_us() - feed->feedback.last_commit_us < LAG_IDLE_US)
        lag_us = feed->feedback.last_commit_lag_us;
    stats_set(feed->stats, STAT_FEED_LAG, lag_us > 0 ? (uint64_t)lag_us : 0);
    stats_set(feed->stats, STAT_FEED_UNCONFIRMED,
              feed->confirm.received_lsn > start_lsn ? feed->confirm.received_lsn - start_lsn : 0);
}

/*
 * Detects a server that became unreachable without closing the connection: it sends nothing for
 * wal_sender_timeout. A reachable server requests a reply halfway through that timeout. The feed
 * must not request replies (decoder/FRAMES.md), so it sends its own status messages late enough for
 * the server to request one. A confirmation postpones that request, and so the end of the timeout:
 * a silent server sends no WAL, so confirmations end. Returns false if the feed was restarted.
 */
static bool
server_is_alive(struct feed *feed)
{
    int64_t now_us = clock_monotonic_us();

    if (!feed_flights_have_room(&feed->flights))
        feed->feedback.received_us = now_us; /* backpressure: the feed is not reading */
    if (feed->feedback.timeout_us == 0 ||
        now_us - feed->feedback.received_us <= feed->feedback.timeout_us)
        return true;
    feed_restart(feed, "no message from PostgreSQL within wal_sender_timeout",
                 LOG_SECONDS("timeout_s", (double)feed->feedback.timeout_us / 1e6));
    return false;
}

void
feed_on_feedback(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct feed *feed = timer->data;
    int64_t every_us = STATUS_EVERY_US;
    bool has_news;

    (void)loop;
    (void)events;
    if (feed->state != FEED_STREAMING)
        return;
    update_lag(feed);
    feed_denials_report(feed);
    if (!server_is_alive(feed))
        return;
    record_when_due(feed);
    if (feed->state != FEED_STREAMING)
        return;
    confirm_replicas(feed);
    feed_confirm_update(feed);
    has_news = feed->confirm.confirmed_lsn != feed->feedback.reported_lsn;
    if (has_news) /* the status message postpones the server's reply request */
        feed->feedback.received_us = clock_monotonic_us();
    if (feed->feedback.timeout_us > 0) /* after the server's request, well before the timeout */
        every_us = feed->feedback.timeout_us / 10 * 6;
    if (has_news || clock_monotonic_us() - feed->feedback.sent_us > every_us)
        feed_send_feedback(feed);
}
