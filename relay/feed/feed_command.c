/* feed_command.c: sends commands to the server, and acquires the slot's progress from the store. */
#include "feed/feed_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "feed/feed_parts.h"
#include "postgres/libpq.h"
#include "store/store.h"

void
feed_send_command(struct feed *feed, enum feed_state state, const char *command)
{
    if (PQsendQuery(feed->link.conn, command) != 1) {
        feed_restart(feed, "could not send command to PostgreSQL",
                     LOG_TEXT("error", postgres_error_line(PQerrorMessage(feed->link.conn))));
        return;
    }
    feed_set_state(feed, state);
    feed_flush_socket(feed);
}

static void
on_acquired(void *ctx, enum rc rc, const struct store_progress *progress)
{
    struct feed *feed = feed_ticket_redeem(ctx);

    if (feed == NULL)
        return;
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
    struct feed_ticket *ticket = memory_new(sizeof(*ticket));

    *ticket = (struct feed_ticket){feed, feed->link.attempt};
    feed_set_state(feed, state);
    if (store_acquire(feed->store, feed->config->feed.slot, &feed->slot.origin, feed->slot.timeline,
                      on_acquired, ticket) != RC_OK) {
        free(ticket);
        feed_restart(feed, "store is unavailable");
    }
}

/* Doubles single quotes. Replication commands have no other escape. */
static void
quote_literal(char *out, size_t room, const char *text)
{
    size_t len = 0;

    for (; *text != '\0' && len + 3 < room; text++) {
        if (*text == '\'')
            out[len++] = '\'';
        out[len++] = *text;
    }
    out[len] = '\0';
}

void
feed_start_replication(struct feed *feed)
{
    char command[FEED_COMMAND_MAX];
    char prefix[FEED_COMMAND_MAX / 2];
    int len =
        snprintf(command, sizeof(command),
                 "START_REPLICATION SLOT \"%s\" LOGICAL 0/0 (mode 'framed', "
                 "owner_bytes '%lld B', owner_memory '%lld B', owner_time '%lld ms', "
                 "owner_wal_factor '%d'",
                 feed->config->feed.slot, (long long)feed->config->feed.owner_bytes,
                 (long long)feed->config->feed.owner_memory,
                 (long long)feed->config->feed.owner_time_ms, feed->config->feed.owner_wal_factor);

    if (feed->config->feed.topic_prefix != NULL) {
        quote_literal(prefix, sizeof(prefix), feed->config->feed.topic_prefix);
        len +=
            snprintf(command + len, sizeof(command) - (size_t)len, ", topic_prefix '%s'", prefix);
    }
    snprintf(command + len, sizeof(command) - (size_t)len, ")");
    store_set_topic_prefix(feed->store, feed->config->feed.topic_prefix != NULL
                                            ? feed->config->feed.topic_prefix
                                            : PQdb(feed->link.conn)); /* the plugin's default */
    feed_send_command(feed, FEED_STARTING, command);
}
