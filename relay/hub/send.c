/*
 * send.c: writes a session's control queue and outbound queue to its socket, and detects clients
 * that read too slowly.
 */
#include "hub/hub_private.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/memory.h"
#include "wire/ws_frame.h"

#define PIECES_MAX 64
#define PIECES_BYTES_MAX (256u * 1024)
#define LIST_FRAMES_PER_TURN 16            /* a page has about the size of 1000 notifications */
#define LIST_FRAME_MAX (64u * 1024 * 1024) /* a row, limited by rows.max_bytes, and its header */

_Static_assert(SESSION_QUEUE_BYTES >= PIECES_BYTES_MAX, "a full piece fits the queue");

/* Drops expired notifications at the head of the queue, and announces them as one gap. */
static void
drop_expired(struct session *session)
{
    struct cursor from = {.own = {0, 0}}, to = from;
    bool has_lost = false;

    while (session->outbound.count > 0 &&
           notification_is_expired(outbound_nth(&session->outbound, 0))) {
        struct notification *notification =
            outbound_dequeue(&session->outbound, &session->hub->queued_bytes);
        struct cursor cursor = notification_cursor(notification, session->client.own_shard);
        struct entry_id *reached = cursor_in(&cursor, notification->shard);

        session_inflight_drop(session, notification);
        if (!notification->is_retry) {
            if (!entry_id_less(notification->id, *reached))
                *reached = entry_id_before(notification->id); /* otherwise of the pending list */
            from = has_lost ? cursor_min(from, cursor) : cursor;
            cursor_advance(&cursor, notification->shard, notification->id);
            to = cursor_max(to, cursor);
            has_lost = true;
        }
        notification_unref(notification);
    }
    if (has_lost)
        session_gap(session, from, to, "expired");
}

/*
 * Retries, and notifications read after a resume, are not counted: their age is not latency of the
 * relay.
 */
static void
count_time(const struct session *session, const struct notification *notification)
{
    if (session->state == SESSION_LIVE && !notification->is_retry)
        stats_time(session->hub->stats, TIME_SENT,
                   session->hub->sending_us - notification->frame.as.notification.commit_us);
}

/*
 * Formats the control queue as one WebSocket frame in the hub's scratch buffer. Returns its length
 * or 0.
 */
static size_t
frame_control(struct session *session, unsigned char **ret_frame)
{
    unsigned char *text = session->hub->scratch + WS_TEXT_HEAD_MAX;
    struct session_line line;
    size_t offset = 0, len = 0, head_len;

    while (session_next_control(session, &offset, &line)) {
        if (len > 0)
            text[len++] = '\n';
        memcpy(text + len, line.text.at, line.text.len);
        len += line.text.len;
    }
    if (len == 0)
        return 0;
    head_len = ws_text_header(len, text);
    *ret_frame = text - head_len;
    return head_len + len;
}

/* The frames for one call of the transport. */
struct gathered {
    struct iovec at[PIECES_MAX];
    struct shared *owners[PIECES_MAX];
    int count;
};

static void
add_piece(struct gathered *pieces, const void *at, size_t len, struct shared *owner)
{
    pieces->at[pieces->count] = (struct iovec){(void *)at, len};
    pieces->owners[pieces->count++] = owner;
}

static void
gather_pieces(struct session *session, struct gathered *pieces, size_t *ret_control_len)
{
    unsigned char *control = NULL;
    size_t bytes = 0;

    session_send_late_gap(session);
    drop_expired(session);
    *ret_control_len = frame_control(session, &control);
    if (*ret_control_len > 0)
        add_piece(pieces, control, *ret_control_len, NULL);
    for (unsigned i = 0; i < session->outbound.count && pieces->count + 1 < PIECES_MAX; i++) {
        struct notification *notification = outbound_nth(&session->outbound, i);

        if (bytes > 0 && bytes + notification->ws_len > PIECES_BYTES_MAX)
            break;
        if (i > 0 && notification_is_expired(notification))
            break; /* the next call drops the notification */
        add_piece(pieces, notification->ws, notification->ws_len - notification->rest.len,
                  &notification->shared);
        if (notification->source != NULL)
            add_piece(pieces, notification->rest.at, notification->rest.len,
                      &notification->source->shared);
        bytes += notification->ws_len;
    }
}

/* Sends whole frames, and returns their bytes. */
static size_t
write_pieces(struct session *session, const struct session_pieces *pieces)
{
    bool was_blocked = session->is_blocked;
    size_t written = 0;

    session->is_blocked =
        session->socket.transport->send(session->socket.handle, pieces, &written) != RC_OK;
    if (session->is_blocked && (!was_blocked || written > 0))
        session->stall = (struct session_stall){.accepted_us = clock_monotonic_us()};
    return written;
}

static void
send_batch(struct hub *hub, struct session *session)
{
    struct fanout_batch *batch = session->outbound.batch;
    const struct iovec piece = {batch->bytes, batch->len};
    struct shared *owner =
        batch->count == 1 ? &batch->notifications[0]->shared : &batch->shared; /* of `bytes` */
    int file = session->socket.transport->uses_files ? fanout_batch_file(batch) : -1;
    size_t written = write_pieces(session, &(struct session_pieces){&piece, &owner, 1, file});

    if (written < batch->len) {
        session_split_batch(session, written);
        return;
    }
    stats_add(hub->stats, STAT_HUB_DELIVERED, batch->message_count);
    if (batch->first_message != NULL)
        count_time(session, batch->first_message);
    fanout_batch_unref(outbound_dequeue_batch(&session->outbound));
}

static void
update_control(struct session *session)
{
    session_end_control(session);
    session->has_control = session->control.queue != NULL || lists_have_frames(session);
}

/* The first notification of the queue was sent. */
static void
first_sent(struct session *session)
{
    struct notification *notification =
        outbound_dequeue(&session->outbound, &session->hub->queued_bytes);

    if (!notification->is_line) {
        stats_add(session->hub->stats, STAT_HUB_DELIVERED, 1);
        count_time(session, notification);
    }
    if (notification->needs_ack)
        session_inflight_written(session, notification);
    notification_unref(notification);
}

static void
send_queue(struct session *session)
{
    struct gathered pieces;
    size_t control_len = 0;
    size_t written;

    pieces.count = 0;
    gather_pieces(session, &pieces, &control_len);
    if (pieces.count == 0) {
        session->is_blocked = false;
        return;
    }
    written =
        write_pieces(session, &(struct session_pieces){pieces.at, pieces.owners, pieces.count, -1});
    if (control_len > 0 && written >= control_len) {
        written -= control_len;
        buffer_free(&session->control.queue->frames);
        update_control(session);
    }
    while (written > 0) {
        written -= outbound_nth(&session->outbound, 0)->ws_len;
        first_sent(session);
    }
}

/* ---- transports without WebSocket frames */

static bool
send_line(struct session *session, const struct session_line *line)
{
    bool was_blocked = session->is_blocked;

    session->is_blocked = !session->socket.transport->send_line(session->socket.handle, line);
    if (session->is_blocked && !was_blocked)
        session->stall = (struct session_stall){.accepted_us = clock_monotonic_us()};
    return !session->is_blocked;
}

/* False: the transport is full. */
static bool
send_control_lines(struct session *session)
{
    struct session_line line;
    struct buffer *frames;
    size_t offset = 0, sent = 0;

    while (session_next_control(session, &offset, &line) && send_line(session, &line))
        sent = offset;
    if (sent > 0) {
        frames = &session->control.queue->frames;
        memmove(frames->bytes, frames->bytes + sent, frames->len - sent);
        frames->len -= sent;
        update_control(session);
    }
    return session->control.queue == NULL || session->control.queue->frames.len == 0;
}

static bool
send_notification_line(struct session *session, struct notification *notification)
{
    struct notification *source = notification->source;
    const struct session_line line = {
        .kind = !notification->is_line ? SESSION_LINE_NOTIFICATION
                : notification->is_end ? SESSION_LINE_END
                                       : SESSION_LINE_CONTROL,
        .text = {notification->ws + notification->ws_len - notification->text_len,
                 notification->text_len - notification->rest.len},
        .rest = notification->rest,
        .pos = notification->pos,
        .owner = &notification->shared,
        .rest_owner = source != NULL ? &source->shared : NULL};

    return send_line(session, &line);
}

static void
send_lines(struct session *session)
{
    struct notification *first;

    session_send_late_gap(session);
    drop_expired(session);
    if (!send_control_lines(session))
        return;
    /* The next call drops an expired notification. */
    while ((first = outbound_nth(&session->outbound, 0)) != NULL &&
           !notification_is_expired(first)) {
        if (!send_notification_line(session, first))
            return;
        first_sent(session);
    }
    session->is_blocked = false;
}

/* A frame of a `rows` reply. Its rest may wait for the socket. */
struct list_frame {
    struct shared shared;
    struct buffer bytes;
};

static void
free_list_frame(struct shared *shared)
{
    struct list_frame *frame = (struct list_frame *)shared;

    buffer_free(&frame->bytes);
    free(frame);
}

/* Sends only one frame of a `rows` reply at a time, so that notifications are sent in between. */
static void
send_list_frame(struct session *session)
{
    struct list_frame *frame = memory_new(sizeof(*frame));
    struct buffer *bytes = &frame->bytes;
    struct shared *owner = &frame->shared;
    struct session_line line = {.owner = owner};
    struct iovec piece;
    size_t head_len;
    bool is_sent;

    session->hub->list_frames++;
    *owner = (struct shared){.refs = 1, .free = free_list_frame};
    buffer_init(bytes, LIST_FRAME_MAX);
    if (buffer_add(bytes, (char[WS_TEXT_HEAD_MAX]){0}, WS_TEXT_HEAD_MAX) != RC_OK ||
        !lists_write_frame(session, bytes)) {
        shared_unref(owner);
        update_control(session);
        return;
    }
    owner->size = bytes->room;
    line.text = (struct bytes){(unsigned char *)bytes->bytes + WS_TEXT_HEAD_MAX,
                               bytes->len - WS_TEXT_HEAD_MAX};
    head_len = ws_text_header(line.text.len, (unsigned char *)bytes->bytes + WS_TEXT_HEAD_MAX);
    piece.iov_base = bytes->bytes + WS_TEXT_HEAD_MAX - head_len;
    piece.iov_len = line.text.len + head_len;
    if (session->socket.transport->send_line != NULL)
        is_sent = send_line(session, &line);
    else
        is_sent = write_pieces(session, &(struct session_pieces){&piece, &owner, 1, -1}) > 0;
    if (is_sent)
        lists_frame_sent(session);
    shared_unref(owner);
}

/*
 * A reload is sent before the queue, which may contain later changes: the client must not apply
 * them to outdated rows.
 */
static void
send_reloads(struct session *session)
{
    if (!session->has_control)
        return;
    while (lists_have_reload(session)) {
        send_list_frame(session);
        if (session->is_blocked)
            return;
    }
}

/* Called even while is_blocked: the socket may be writable again. */
static void
send_queued(struct hub *hub, struct session *session)
{
    send_reloads(session);
    if (!lists_have_reload(session)) {
        if (session->outbound.batch != NULL &&
            (session->has_control || session->socket.transport->send_line != NULL ||
             fanout_batch_is_stale(session->outbound.batch, hub->sending_us)))
            session_split_batch(session, 0);
        if (session->outbound.batch != NULL)
            send_batch(hub, session);
        else if (session->socket.transport->send_line != NULL)
            send_lines(session);
        else
            send_queue(session);
    }
    if (session->has_control && lists_have_frames(session) && !session->is_blocked &&
        hub->list_frames < LIST_FRAMES_PER_TURN)
        send_list_frame(session);
    if (session->state != SESSION_LIVE && outbound_is_empty(&session->outbound))
        session_mark(session, READY_ADVANCE);
    if (session->has_ends)
        ends_sent(session);
    if (!outbound_is_empty(&session->outbound) || session->has_control)
        ready_list_send(hub, session);
}

void
session_send(struct hub *hub, struct session *session)
{
    if (!session->is_blocked)
        send_queued(hub, session);
}

void
session_writable(struct session *session)
{
    session->hub->sending_us = clock_wall_us();
    send_queued(session->hub, session);
}

/* ---- slow clients */

#define SLOW_GRACE_US                                                                              \
    1000000 /* a client that reads something every second is behind, but not stuck */

void
session_accepted(struct session *session)
{
    session->stall.accepted_us = clock_monotonic_us();
}

const char *
session_slow(const struct session *session, int64_t now_us)
{
    const struct config *config = session->hub->config;
    const struct notification *first = outbound_nth(&session->outbound, 0);
    int64_t since_us = session->stall.accepted_us;

    if (session->control.has_lost_acked)
        return "unsent acks of other devices exceed the control queue";
    if (!session->is_blocked)
        return NULL;
    if (hub_is_over_limit(session->hub) && now_us - session->stall.accepted_us >= SLOW_GRACE_US)
        return "unsent bytes of all clients exceed twice shed_bytes";
    if (session->outbound.bytes + session->stall.skipped_bytes >= (size_t)config->gate.slow_bytes &&
        now_us - session->stall.accepted_us >= SLOW_GRACE_US)
        return "unsent bytes exceed slow_bytes";
    if (first != NULL) {
        since_us = first->made_us;
        if (since_us < session->outbound.since_us)
            since_us = session->outbound.since_us; /* queued later than created */
    }
    return now_us - since_us > config->gate.slow_age_ms * 1000
               ? "the oldest unsent notification is older than slow_age"
               : NULL;
}
