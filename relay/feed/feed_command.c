/* feed_command.c: commands to the server, and the claim of the slot's progress at the store. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "feed/feed_errors.h"
#include "feed/feed_parts.h"
#include "store/topic_prefix.h"

#define COMMAND_MAX 2048

void
feed_ask(struct feed *feed, enum feed_state state, const char *command)
{
    if (PQsendQuery(feed->link.conn, command) != 1) {
        feed_restart(feed, "could not send: %s", feed_error_line(PQerrorMessage(feed->link.conn)));
        return;
    }
    feed_set_state(feed, state);
    feed_flush_socket(feed);
}

static void
on_claimed(void *ctx, enum rc rc, const struct store_progress *progress)
{
    struct feed *feed = feed_take_ticket(ctx);

    if (feed == NULL)
        return;
    if (rc == RC_BAD) {
        feed->refused(feed->refused_ctx);
        return;
    }
    if (rc != RC_OK) {
        feed_restart(feed, "the store does not give the progress of slot \"%s\"",
                     feed->config->feed.slot);
        return;
    }
    snprintf(feed->batch.sent_position, sizeof(feed->batch.sent_position), "%s",
             progress->position);
    snprintf(feed->slot.furthest, sizeof(feed->slot.furthest), "%s", progress->furthest);
    feed->slot.claimed_lsn = feed->slot.claimed_ordinal = 0;
    if (progress->position[0] != '\0' &&
        frame_position_read(progress->position, strlen(progress->position), &feed->slot.claimed_lsn,
                            &feed->slot.claimed_ordinal) != RC_OK) {
        feed_restart(feed, "the slot's progress in the store is no position: %s",
                     progress->position);
        return;
    }
    feed->slot.stored_timeline = progress->timeline;
    feed->slot.read_lsn = progress->read_lsn;
    feed->slot.on_claimed(feed);
}

void
feed_claim(struct feed *feed, enum feed_state state)
{
    struct feed_ticket *ticket = memory_new(sizeof(*ticket));

    *ticket = (struct feed_ticket){feed, feed->link.attempt};
    feed_set_state(feed, state);
    if (store_acquire(feed->store, feed->config->feed.slot, &feed->slot.origin, feed->slot.timeline,
                      on_claimed, ticket) != RC_OK) {
        free(ticket);
        feed_restart(feed, "the store is away");
    }
}

/* Doubles quotes; replication commands know no other escape. */
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
feed_begin_start(struct feed *feed)
{
    char command[COMMAND_MAX];
    char prefix[COMMAND_MAX / 2];
    int len = snprintf(command, sizeof(command),
                       "START_REPLICATION SLOT \"%s\" LOGICAL 0/0 (mode 'framed'",
                       feed->config->feed.slot);

    if (feed->config->feed.topic_prefix != NULL) {
        quote_literal(prefix, sizeof(prefix), feed->config->feed.topic_prefix);
        len +=
            snprintf(command + len, sizeof(command) - (size_t)len, ", topic_prefix '%s'", prefix);
    }
    snprintf(command + len, sizeof(command) - (size_t)len, ")");
    store_note_topic_prefix(feed->store, feed->config->feed.topic_prefix != NULL
                                             ? feed->config->feed.topic_prefix
                                             : PQdb(feed->link.conn)); /* as the plugin has it */
    feed_ask(feed, FEED_STARTING, command);
}
