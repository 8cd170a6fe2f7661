/*
 * outbound.c: the outbound queue of a session, the cursors that it reports to its client, and the
 * gaps that it announces.
 */
#include "hub/hub_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"

/* ---- the queue */

#define OUTBOUND_FIRST_ROOM 8

_Static_assert(2 * (OUTBOUND_MAX + BATCH_COUNT_MAX) <= UINT16_MAX, "capacities fit their type");

static struct notification **
slot_of(const struct outbound *outbound, unsigned nth)
{
    return &outbound->notifications[(outbound->first + nth) & (outbound->room - 1u)];
}

struct notification *
outbound_nth(const struct outbound *outbound, unsigned nth)
{
    return nth < outbound->count ? *slot_of(outbound, nth) : NULL;
}

unsigned
outbound_count(const struct outbound *outbound)
{
    return outbound->count + (outbound->batch != NULL ? outbound->batch->count : 0);
}

size_t
outbound_bytes(const struct outbound *outbound)
{
    return outbound->bytes + (outbound->batch != NULL ? outbound->batch->len : 0);
}

unsigned
outbound_index_for(const struct outbound *outbound, uint8_t priority)
{
    unsigned nth = outbound->count;

    for (unsigned i = outbound->count; i > 0; i--) {
        const struct notification *before = *slot_of(outbound, i - 1);

        if (before->is_end)
            continue; /* overtaken only together with a notification before it */
        if (before->frame.as.notification.priority <= priority)
            break;
        nth = i - 1;
    }
    return nth;
}

static void
outbound_grow(struct outbound *outbound)
{
    unsigned room = outbound->room == 0 ? OUTBOUND_FIRST_ROOM : outbound->room * 2u;
    struct notification **notifications;

    if (outbound->count < outbound->room)
        return;
    if (outbound->count >= OUTBOUND_MAX + BATCH_COUNT_MAX)
        abort(); /* callers check this first */
    notifications = memory_grow(NULL, room * sizeof(struct notification *));
    for (unsigned i = 0; i < outbound->count; i++)
        notifications[i] = *slot_of(outbound, i);
    free(outbound->notifications);
    outbound->notifications = notifications;
    outbound->room = (uint16_t)room;
    outbound->first = 0;
}

void
outbound_insert(struct outbound *outbound, unsigned nth, struct notification *notification,
                size_t *queued_bytes)
{
    outbound_grow(outbound);
    if (outbound->count == 0)
        outbound->since_us = clock_monotonic_us();
    for (unsigned i = outbound->count; i > nth; i--)
        *slot_of(outbound, i) = *slot_of(outbound, i - 1);
    *slot_of(outbound, nth) = notification;
    outbound->count++;
    outbound->bytes += notification->text_len;
    shared_wait(&notification->shared, queued_bytes);
    if (notification->source != NULL)
        shared_wait(&notification->source->shared, queued_bytes);
}

struct notification *
outbound_dequeue(struct outbound *outbound, size_t *queued_bytes)
{
    struct notification *notification = *slot_of(outbound, 0);

    outbound->first = (uint16_t)((outbound->first + 1u) & (outbound->room - 1u));
    outbound->count--;
    outbound->bytes -= notification->text_len;
    shared_wait_end(&notification->shared, queued_bytes);
    if (notification->source != NULL)
        shared_wait_end(&notification->source->shared, queued_bytes);
    if (outbound->count == 0) {
        free(outbound->notifications);
        outbound->notifications = NULL;
        outbound->room = outbound->first = 0;
    }
    return notification;
}

struct fanout_batch *
outbound_dequeue_batch(struct outbound *outbound)
{
    struct fanout_batch *batch = outbound->batch;

    outbound->batch = NULL;
    return batch;
}

void
outbound_clear(struct outbound *outbound, size_t *queued_bytes)
{
    fanout_batch_unref(outbound_dequeue_batch(outbound));
    while (outbound->count > 0)
        notification_unref(outbound_dequeue(outbound, queued_bytes));
}

/* Returns the cursor from which this and all later notifications are sent again. */
static struct cursor
cursor_before(const struct notification *notification, unsigned own)
{
    struct cursor cursor = notification_cursor(notification, own);
    struct entry_id *at = cursor_in(&cursor, notification->shard);

    if (notification->is_end || !entry_id_equal(*at, notification->id))
        return cursor; /* the notification reports an earlier cursor */
    *at = entry_id_before(*at);
    return cursor;
}

struct cursor
outbound_before(const struct outbound *outbound, unsigned nth, unsigned own, struct cursor cursor)
{
    for (unsigned i = 0; outbound->batch != NULL && i < outbound->batch->count; i++)
        cursor = cursor_min(cursor, cursor_before(outbound->batch->notifications[i], own));
    for (unsigned i = nth; i < outbound->count; i++) {
        const struct notification *notification = *slot_of(outbound, i);

        if (!notification->is_line || notification->is_end)
            cursor = cursor_min(cursor, cursor_before(notification, own));
    }
    return cursor;
}

/* ---- cursors */

struct cursor
session_head(const struct session *session)
{
    return replay_buffer_head(&session->hub->replay_buffer, session->client.own_shard);
}

/* All notifications were offered to a live session. */
struct cursor
session_reached(const struct session *session)
{
    return session->state == SESSION_LIVE ? cursor_max(session->cursor, session_head(session))
                                          : session->cursor;
}

bool
session_is_complete_to(const struct session *session, struct cursor cursor)
{
    const struct session_pending *pending = &session->pending;
    const bool is_whole_list_read =
        session->state > SESSION_PENDING && pending->pass != PASS_DUE && !pending->is_rewound;

    return (is_whole_list_read || cursor_reaches(pending->at, cursor)) &&
           (!session->has_deferral || cursor_reaches(pending->deferral.from, cursor));
}

struct notification *
session_notification_new(const struct session *session, const struct entry *entry,
                         struct cursor cursor)
{
    struct entry_id heads[STORE_SHARDS_MAX];

    cursor_to_heads(cursor, session->client.own_shard, heads, session->hub->shards);
    return hub_notification_new(session->hub, entry, heads);
}

/*
 * True if a notification with this cursor reports a deferral. If it overtakes another one
 * (`overtaken`, may be NULL), the client needs the overtaken one too when it resumes.
 */
static bool
deferral_reported(const struct session *session, struct cursor cursor,
                  const struct notification *overtaken, struct deferral *ret_deferral)
{
    struct deferral deferral = session->pending.deferral;

    if (overtaken != NULL && overtaken->deferral != NULL) {
        const struct entry_id first =
            entry_id_is_zero(overtaken->first) ? overtaken->id : overtaken->first;
        struct entry_id *from = cursor_in(&deferral.from, overtaken->shard);

        deferral = *overtaken->deferral;
        if (!entry_id_less(*from, first))
            *from = entry_id_before(first);
    } else if (!session->has_deferral) {
        return false;
    }
    /* A held notification is in no list yet. */
    deferral.by_stream = deferral.by_stream || session->pending.query_count > 0;
    *ret_deferral = deferral;
    return !cursor_reaches(deferral.from, cursor);
}

struct notification *
session_notification_at(const struct session *session, struct notification *notification,
                        struct cursor cursor, const struct notification *overtaken)
{
    struct entry_id heads[STORE_SHARDS_MAX];
    struct deferral deferral;
    const bool has_deferral = deferral_reported(session, cursor, overtaken, &deferral);

    cursor_to_heads(cursor, session->client.own_shard, heads, notification->shards);
    return notification_new_at(notification, session->hub->epoch, heads,
                               has_deferral ? &deferral : NULL);
}

/* Returns the first notification in the queue; NULL: none. */
static const struct notification *
first_message(const struct outbound *outbound)
{
    for (unsigned i = 0; i < outbound->count; i++) {
        if (!(*slot_of(outbound, i))->is_line)
            return *slot_of(outbound, i);
    }
    return NULL;
}

void
session_pos_text(const struct session *session, struct cursor cursor, char ret_text[CLIENT_POS_MAX])
{
    struct entry_id heads[STORE_SHARDS_MAX];
    struct deferral deferral;
    const bool has_deferral =
        deferral_reported(session, cursor, first_message(&session->outbound), &deferral);

    cursor_to_heads(cursor, session->client.own_shard, heads, session->hub->shards);
    client_pos_text(session->hub->epoch, heads, session->hub->shards,
                    has_deferral ? &deferral : NULL, ret_text);
}

_Static_assert(SESSION_POS_MAX == CLIENT_POS_MAX, "gate and hub have the same limit");

/* ---- row order */

#define ROW_ORDER_FIRST_ROOM 2
#define ROOM_MAX 64 /* maximum topics of a session; older topics are merged */

/* Keyed by hash: topics with the same hash are merged, so that more than necessary are marked. */
struct topic_newest {
    uint64_t topic;
    struct position newest;
};

struct row_order {
    unsigned count;
    unsigned room;
    struct position others; /* highest position of merged topics */
    struct topic_newest topics[];
};

static struct row_order *
row_order_grow(struct row_order *rows)
{
    unsigned room = rows == NULL ? ROW_ORDER_FIRST_ROOM : rows->room * 2;
    bool is_new = rows == NULL;

    if (!is_new && (rows->count < rows->room || rows->room == ROOM_MAX))
        return rows;
    rows = memory_grow(rows, sizeof(*rows) + room * sizeof(*rows->topics));
    if (is_new)
        *rows = (struct row_order){.count = 0};
    rows->room = room;
    return rows;
}

static struct topic_newest *
find_topic(struct session *session, struct bytes topic)
{
    const uint64_t hash = hash_bytes(HASH_START, topic.at, topic.len);
    struct row_order *rows = session->row_order;
    struct topic_newest *found;

    for (unsigned i = 0; rows != NULL && i < rows->count; i++) {
        if (rows->topics[i].topic == hash)
            return &rows->topics[i];
    }
    session->row_order = rows = row_order_grow(rows);
    if (rows->count < rows->room) {
        found = &rows->topics[rows->count++];
    } else { /* reuses the slot of the topic with the oldest notification */
        found = &rows->topics[0];
        for (unsigned i = 1; i < rows->count; i++) {
            if (position_less(rows->topics[i].newest, found->newest))
                found = &rows->topics[i];
        }
        position_raise(&rows->others, found->newest);
    }
    *found = (struct topic_newest){hash, rows->others};
    return found;
}

/*
 * The notifications of one rule about one row reach a session in commit order. Only notifications
 * that need an ack can be late: they are deferred until the in-flight window has room, the user
 * returns to a group or topic, or they are redriven. If a newer notification of the same topic was
 * sent to this session, the older one is sent with `attempts` above 0, so that the client does not
 * overwrite the newer row.
 *
 * A rule has one topic; a replaced rule counts as another rule. Returns a reference.
 */
static struct notification *
row_order_apply(struct session *session, struct notification *notification)
{
    const struct frame *frame = &notification->frame;
    const struct position position = {frame->commit_lsn, frame->ordinal};
    struct topic_newest *topic;
    struct notification *late;

    if (!notification->needs_ack || frame->as.notification.operation == FRAME_OPERATION_NOTIFY)
        return notification_ref(notification);
    topic = find_topic(session, frame->as.notification.topic);
    if (frame->as.notification.attempts > 0 || !position_less(position, topic->newest)) {
        position_raise(&topic->newest, position);
        return notification_ref(notification);
    }
    late = notification_new_late(notification, session->hub->epoch);
    if (late != NULL)
        return late;
    log_error("hub", "could not mark a late notification as a retry: unknown format",
              LOG_SESSION(session));
    return notification_ref(notification);
}

/* ---- queueing */

bool
session_is_full(const struct session *session)
{
    size_t max = (size_t)session->hub->config->gate.slow_bytes;
    size_t bytes = outbound_bytes(&session->outbound) + session->pending.query_bytes;

    return outbound_count(&session->outbound) + session->pending.query_count >= OUTBOUND_MAX ||
           bytes >= (max < SESSION_QUEUE_BYTES ? max : SESSION_QUEUE_BYTES);
}

/*
 * Takes ownership of the reference. A notification that overtakes others must report a cursor
 * before their cursors; otherwise a client that resumes would lose them. It also reports a
 * deferral.
 */
static void
insert(struct session *session, struct notification *notification)
{
    struct outbound *outbound = &session->outbound;
    const unsigned own = session->client.own_shard;
    /* A poll resumes from its last cursor, so it receives notifications in stream order. */
    const unsigned nth =
        session->is_poll
            ? outbound->count
            : outbound_index_for(outbound, notification->frame.as.notification.priority);
    const struct notification *overtaken = outbound_nth(outbound, nth);
    const struct cursor reported = notification_cursor(notification, own);
    const struct cursor cursor = outbound_before(outbound, nth, own, reported);
    struct deferral deferral;
    struct notification *copy;

    if (!cursor_equal(cursor, reported) ||
        deferral_reported(session, cursor, overtaken, &deferral)) {
        copy = session_notification_at(session, notification, cursor, overtaken);
        notification_unref(notification);
        notification = copy;
    }
    outbound_insert(outbound, nth, notification, &session->hub->queued_bytes);
}

/* Takes ownership of the reference to a line. */
static void
append(struct session *session, struct notification *line)
{
    outbound_insert(&session->outbound, session->outbound.count, line, &session->hub->queued_bytes);
}

void
session_split_batch(struct session *session, size_t sent)
{
    struct fanout_batch *batch = outbound_dequeue_batch(&session->outbound);

    for (unsigned i = 0; batch != NULL && i < batch->count; i++) {
        struct notification *notification = batch->notifications[i];

        if (sent >= notification->ws_len) {
            sent -= notification->ws_len;
            stats_add(session->hub->stats, STAT_HUB_DELIVERED, !notification->is_line);
        } else if (notification->is_line) {
            append(session, notification_ref(notification));
        } else {
            insert(session, notification_ref(notification));
        }
    }
    fanout_batch_unref(batch);
}

void
session_queue(struct session *session, struct notification *notification)
{
    session_split_batch(session, 0);
    insert(session, row_order_apply(session, notification));
    session_mark(session, READY_SEND);
}

void
session_queue_line(struct session *session, const char *text, size_t len)
{
    session_split_batch(session, 0);
    append(session, notification_new_line(text, len));
    session_mark(session, READY_SEND);
}

bool
session_queue_batch(struct hub *hub, struct session *session, struct fanout_batch *batch,
                    struct merged_batch *merged)
{
    struct fanout_batch *whole;

    if (session->is_blocked || session->has_deferral || session->has_control || session->is_poll)
        return false;
    if (session->outbound.batch == NULL) {
        if (!outbound_is_empty(&session->outbound))
            return false;
        session->outbound.batch = fanout_batch_ref(batch);
        ready_list_send(hub, session);
        return true;
    }
    /* The previous batch was not sent yet: merges both. */
    whole = merged_batch_of(merged, session->outbound.batch, batch);
    if (whole == NULL)
        return false;
    fanout_batch_unref(session->outbound.batch);
    session->outbound.batch = fanout_batch_ref(whole);
    return true;
}

void
session_queue_end(struct session *session, uint64_t xid, struct cursor cursor,
                  const struct ends_mark *mark)
{
    struct hub *hub = session->hub;
    const unsigned own = session->client.own_shard;
    struct shared_end *shared = &hub->ends.shared[own];
    struct entry_id heads[STORE_SHARDS_MAX];
    struct deferral deferral;
    const bool has_deferral = deferral_reported(session, cursor, NULL, &deferral);
    struct notification *line;

    cursor_to_heads(cursor, own, heads, hub->shards);
    if (has_deferral || mark->count > 0) {
        session_split_batch(session, 0);
        append(session, notification_new_end(xid, hub->epoch, heads, hub->shards,
                                             has_deferral ? &deferral : NULL, mark));
        session_mark(session, READY_SEND);
        return;
    }
    if (shared->batch == NULL || shared->xid != xid || !cursor_equal(shared->cursor, cursor)) {
        fanout_batch_unref(shared->batch);
        line = notification_new_end(xid, hub->epoch, heads, hub->shards, NULL, mark);
        shared->batch = fanout_batch_new(&line, 1);
        shared->xid = xid;
        shared->cursor = cursor;
        notification_unref(line);
    }
    if (session_queue_batch(hub, session, shared->batch, &shared->merged))
        return;
    session_split_batch(session, 0);
    append(session, notification_ref(shared->batch->notifications[0]));
    session_mark(session, READY_SEND);
}

/* ---- gaps */

void
session_gap_later(struct session *session, struct cursor from, const char *why)
{
    struct control_queue *queue = session_control_queue(session);

    queue->gap_from = queue->gap_why != NULL ? cursor_min(queue->gap_from, from) : from;
    queue->gap_why = why;
    session->has_control = true;
    session_mark(session, READY_SEND);
}

static void
count_gap(struct stats *stats, const char *why)
{
    static const struct {
        const char *why;
        enum metric stat;
    } gaps[] = {{"trimmed", STAT_HUB_GAPS_TRIMMED},
                {"expired", STAT_HUB_GAPS_EXPIRED},
                {"epoch", STAT_HUB_GAPS_EPOCH},
                {"shed", STAT_HUB_GAPS_SHED}};

    for (size_t i = 0; i < sizeof(gaps) / sizeof(gaps[0]); i++)
        if (strcmp(gaps[i].why, why) == 0)
            stats_add(stats, gaps[i].stat, 1);
}

void
session_send_gap(struct session *session, struct cursor from, struct cursor to, const char *why)
{
    char from_text[CLIENT_POS_MAX], to_text[CLIENT_POS_MAX], line[3 * CLIENT_POS_MAX];
    int len;

    session_pos_text(session, from, from_text);
    session_pos_text(session, to, to_text);
    len =
        snprintf(line, sizeof(line), "{\"t\":\"gap\",\"from\":\"%s\",\"to\":\"%s\",\"why\":\"%s\"}",
                 from_text, to_text, why);
    if (!session_can_send_control(session, (size_t)len)) {
        session_gap_later(session, from, why);
        return;
    }
    count_gap(session->hub->stats, why);
    /* After a change of the epoch, the store knows nothing of what was lost. */
    if (strcmp(why, "epoch") != 0)
        store_record_gap(session->hub->store, session->client.user, session->client.conn, from, to,
                         why);
    session_send_control(session, SESSION_LINE_GAP, line, (size_t)len, to_text);
}

void
session_gap(struct session *session, struct cursor from, struct cursor to, const char *why)
{
    if (session->control.has_dropped)
        to = shed_cursor(session, to);
    to = outbound_before(&session->outbound, 0, session->client.own_shard, to);
    session_send_gap(session, cursor_min(to, from), to, why);
}

void
session_send_late_gap(struct session *session)
{
    struct control_queue *queue = session->control.queue;
    const char *why;

    if (!session_has_gap(session))
        return;
    why = queue->gap_why;
    queue->gap_why = NULL;
    session_gap(session, queue->gap_from, session_reached(session), why);
}
