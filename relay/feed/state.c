/*
 * state.c: changes the state of the feed: commands to the server, requests for the progress to the
 * store, and the return to WAITING.
 */
#include "feed/feed_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/states.h"
#include "store/store.h"

#define FEED_HELD_RECONNECT_S 0.5
#define RESTART_FIELDS_MAX 6

/* The transitions of enum feed_state. */
static const struct states states = {
    "feed",
    {
        [FEED_WAITING] = "waiting",
        [FEED_CONNECTING] = "connecting",
        [FEED_SETTING] = "setting",
        [FEED_IDENTIFYING] = "identifying",
        [FEED_FINDING] = "finding",
        [FEED_DROPPING] = "dropping",
        [FEED_CREATING] = "creating",
        [FEED_ACQUIRING] = "acquiring",
        [FEED_READING_HISTORY] = "reading history",
        [FEED_RESETTING] = "resetting",
        [FEED_COPYING] = "copying",
        [FEED_STARTING] = "starting",
        [FEED_REACQUIRING] = "reacquiring",
        [FEED_STREAMING] = "streaming",
    },
    {
        [FEED_WAITING] = ~0u,
        [FEED_CONNECTING] = 1u << FEED_WAITING,
        [FEED_SETTING] = 1u << FEED_CONNECTING,
        [FEED_IDENTIFYING] = 1u << FEED_SETTING | 1u << FEED_ACQUIRING,
        [FEED_FINDING] = 1u << FEED_IDENTIFYING,
        [FEED_DROPPING] = 1u << FEED_FINDING,
        [FEED_CREATING] = 1u << FEED_ACQUIRING,
        [FEED_ACQUIRING] = 1u << FEED_FINDING | 1u << FEED_DROPPING | 1u << FEED_CREATING,
        [FEED_READING_HISTORY] = 1u << FEED_ACQUIRING,
        [FEED_RESETTING] = 1u << FEED_ACQUIRING | 1u << FEED_READING_HISTORY,
        [FEED_COPYING] = 1u << FEED_ACQUIRING,
        [FEED_STARTING] = 1u << FEED_ACQUIRING | 1u << FEED_COPYING,
        [FEED_REACQUIRING] = 1u << FEED_STARTING,
        [FEED_STREAMING] = 1u << FEED_REACQUIRING,
    },
};

void
feed_set_state(struct feed *feed, enum feed_state state)
{
    if (!states_allow(&states, feed->state, state, feed->stats)) {
        feed_restart(feed, "internal error");
        return;
    }
    feed->state = state;
    feed_publish_availability(feed);
}

void
feed_batch_release(struct feed_batch *batch)
{
    for (size_t i = 0; i < batch->held_count; i++)
        free(batch->held[i]);
    batch->held_count = 0;
    batch->held_bytes = 0;
}

void
feed_batch_reset(struct feed_batch *batch, struct store *store)
{
    store_batch_free(batch->frames);
    batch->frames = store_batch_new(store);
    feed_batch_release(batch);
    batch->confirm_lsn = 0;
    batch->commit_us = 0;
    batch->lsn = 0;
    batch->ordinal = 0;
}

void
feed_drop_connection(struct feed *feed)
{
    ev_io_stop(feed->loop, &feed->connection.readable);
    ev_io_stop(feed->loop, &feed->connection.writable);
    ev_timer_stop(feed->loop, &feed->connection.timeout);
    ev_timer_stop(feed->loop, &feed->feedback.idle);
    feed->connection.timeout.repeat = FEED_CONNECT_TIMEOUT_S;
    postgres_query_end(&feed->snapshot_request.query);
    feed_status_end(feed);
    postgres_query_end(&feed->rules.query);
    feed_denials_end(feed);
    postgres_connect_end(&feed->connection.connect);
    PQclear(feed->connection.result);
    feed->connection.result = NULL;
    PQfinish(feed->connection.conn);
    feed->connection.conn = NULL;
    feed->connection.attempt++; /* invalidates pending replies */
    feed_batch_reset(&feed->batch, feed->store);
    feed->flights.first = feed->flights.count = 0;
    feed->flights.bytes = 0;
    feed->confirm = (struct feed_confirm){0}; /* after a restart, the store may have less data */
    feed->feedback.reported_lsn = 0;
    stats_set(feed->stats, STAT_FEED_CONNECTED, 0);
    stats_set(feed->stats, STAT_FEED_LAG, 0);
    stats_set(feed->stats, STAT_FEED_UNCONFIRMED, 0);
}

static const char *
text_of(const struct log_field *fields, const char *key)
{
    for (; fields->type != LOG_FIELD_END; fields++)
        if (fields->type == LOG_FIELD_TEXT && strcmp(fields->key, key) == 0)
            return fields->text.bytes;
    return NULL;
}

void
feed_restart_with(struct feed *feed, const char *reason, const struct log_field *fields)
{
    struct log_field all[RESTART_FIELDS_MAX + 2];
    size_t count = 0;
    double delay_s = FEED_HELD_RECONNECT_S;

    if (feed->state == FEED_WAITING || feed->closing)
        return;
    if (feed->slot.holder == SLOT_FREE ||
        (feed->state != FEED_STARTING && feed->state != FEED_FINDING)) {
        feed->slot.holder = SLOT_FREE;
        delay_s = (double)backoff_next_ms(&feed->connection.backoff) / 1000.0;
        if (feed->state == FEED_STREAMING)
            stats_add(feed->stats, STAT_FEED_RECONNECTS, 1);
        feed_report_reason(feed, reason, text_of(fields, "error"), text_of(fields, "hint"));
        feed_wal_start(feed);
        for (; fields->type != LOG_FIELD_END && count < RESTART_FIELDS_MAX; fields++)
            all[count++] = *fields;
        all[count++] = LOG_SECONDS("retry_s", delay_s);
        all[count] = LOG_END;
        /* before the connection is freed, because the fields may point into it */
        log_write(LOG_LEVEL_WARN, "feed", reason, all);
    }
    feed_set_state(feed, FEED_WAITING);
    feed_drop_connection(feed);
    ev_timer_stop(feed->loop, &feed->connection.reconnect);
    ev_timer_set(&feed->connection.reconnect, delay_s, 0.0);
    ev_timer_start(feed->loop, &feed->connection.reconnect);
}

void
feed_fail(struct feed *feed, const char *what, const char *message, const char *hint)
{
    feed_restart(feed, what, LOG_TEXT("error", postgres_error_line(message)),
                 LOG_TEXT("hint", hint[0] != '\0' ? hint : NULL));
}

void
feed_flush_socket(struct feed *feed)
{
    int left = PQflush(feed->connection.conn);

    if (left < 0) {
        feed_restart(feed, "PostgreSQL connection lost",
                     LOG_TEXT("error", postgres_error_line(PQerrorMessage(feed->connection.conn))));
        return;
    }
    if (left > 0)
        ev_io_start(feed->loop, &feed->connection.writable);
    else
        ev_io_stop(feed->loop, &feed->connection.writable);
    if (feed->state != FEED_STREAMING)
        ev_io_start(feed->loop, &feed->connection.readable);
}

/* ---- commands */

void
feed_send_command(struct feed *feed, enum feed_state state, const char *command)
{
    if (PQsendQuery(feed->connection.conn, command) != 1) {
        feed_restart(feed, "could not send command to PostgreSQL",
                     LOG_TEXT("error", postgres_error_line(PQerrorMessage(feed->connection.conn))));
        return;
    }
    feed_set_state(feed, state);
    feed_flush_socket(feed);
}

struct feed_attempt *
feed_ticket_new(struct feed *feed)
{
    struct feed_attempt *ticket = memory_new(sizeof(*ticket));

    *ticket = (struct feed_attempt){.feed = feed, .attempt = feed->connection.attempt};
    return ticket;
}

struct feed *
feed_ticket_redeem(struct feed_attempt *ticket)
{
    struct feed *feed = ticket->feed;
    bool counts = ticket->attempt == feed->connection.attempt && !feed->closing;

    free(ticket);
    return counts ? feed : NULL;
}

static void
on_acquired(void *ctx, enum rc rc, const struct store_progress *progress)
{
    struct feed *feed = feed_ticket_redeem(ctx);

    if (feed == NULL)
        return;
    ev_timer_again(feed->loop, &feed->connection.timeout);
    if (rc == RC_BAD) {
        feed->rejected(feed->rejected_ctx);
        return;
    }
    if (rc != RC_OK) {
        feed_restart(feed, "could not read the slot's progress from the store",
                     LOG_TEXT("slot", feed->config->feed.slot));
        return;
    }
    snprintf(feed->batch.sent_position, sizeof(feed->batch.sent_position), "%s",
             progress->position);
    snprintf(feed->slot.furthest, sizeof(feed->slot.furthest), "%s", progress->furthest);
    feed->slot.acquired_lsn = feed->slot.acquired_ordinal = 0;
    if (progress->position[0] != '\0' &&
        frame_position_parse(progress->position, strlen(progress->position),
                             &feed->slot.acquired_lsn, &feed->slot.acquired_ordinal) != RC_OK) {
        feed_restart(feed, "invalid progress of the slot in the store",
                     LOG_TEXT("position", progress->position));
        return;
    }
    feed->slot.stored_timeline = progress->timeline;
    feed->slot.read_lsn = progress->read_lsn;
    feed->slot.on_acquired(feed);
}

void
feed_acquire(struct feed *feed, enum feed_state state)
{
    struct feed_attempt *ticket = feed_ticket_new(feed);

    feed_set_state(feed, state);
    /* The deletion of old memberships may take minutes, and the store limits each request. */
    ev_timer_stop(feed->loop, &feed->connection.timeout);
    if (store_acquire(feed->store, feed->config->feed.slot, &feed->slot.origin, feed->slot.timeline,
                      on_acquired, ticket) != RC_OK) {
        free(ticket);
        feed_restart(feed, "store is unavailable");
    }
}
