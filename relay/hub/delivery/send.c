/* send.c: writes a session's control queue and outbound queue to its socket. */
#include "hub/delivery/send.h"

#include <string.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "hub/delivery/session_inflight.h"
#include "hub/session/control.h"
#include "hub/session/gap.h"
#include "hub/session/hub_state.h"
#include "hub/session/position.h"
#include "hub/session/queue.h"
#include "hub/session/ready_list.h"
#include "hub/session/session.h"
#include "wire/ws_frame.h"

#define PIECES_MAX 64
#define PIECES_BYTES_MAX (256u * 1024)

_Static_assert(SESSION_QUEUE_BYTES >= PIECES_BYTES_MAX, "a queue is not full before it is sent");

/* What expired at the head of the queue goes, and is told as one gap. */
static void
drop_expired(struct session *session)
{
    struct cursor from = {.own = {0, 0}}, to = from;
    bool has_lost = false;

    while (session->outbound.count > 0 &&
           notification_is_expired(outbound_nth(&session->outbound, 0))) {
        struct notification *notification =
            outbound_take(&session->outbound, &session->hub->queued_bytes);
        struct cursor cursor = session_cursor_behind(session, notification);

        session_inflight_drop(session, notification);
        if (!notification->is_retry) {
            from = has_lost ? cursor_min(from, cursor) : cursor;
            to = cursor_max(to, cursor);
            has_lost = true;
        }
        notification_unref(notification);
    }
    if (has_lost)
        session_gap(session, from, to, "expired");
}

/* Of what was away, or was shown before, the time would not tell how fast we are. */
static void
count_time(const struct session *session, const struct notification *notification)
{
    if (session->state == SESSION_LIVE && !notification->is_retry)
        stats_time(session->hub->stats, TIME_SENT,
                   session->hub->sending_us - notification->frame.as.notification.commit_us);
}

/* Takes a notification out of the queue that counts as written from now on. */
static struct notification *
take_written(struct session *session)
{
    struct notification *notification =
        outbound_take(&session->outbound, &session->hub->queued_bytes);

    stats_add(session->hub->stats, STAT_HUB_DELIVERED, 1);
    count_time(session, notification);
    if (notification->needs_ack)
        session_inflight_written(session, notification);
    return notification;
}

/* The session's own lines as one frame, in the hub's scratch; its length, 0 when there are none. */
static size_t
frame_control(struct session *session, unsigned char **ret_frame)
{
    unsigned char *text = session->hub->scratch + WS_TEXT_HEAD_MAX;
    size_t len = session->control.lines.len > 0 ? session->control.lines.len - 1
                                                : 0; /* the last line break */
    size_t head_len;

    if (len == 0)
        return 0;
    memcpy(text, session->control.lines.bytes, len);
    head_len = ws_text_header(len, text);
    *ret_frame = text - head_len;
    return head_len + len;
}

static int
gather(struct session *session, struct iovec pieces[PIECES_MAX], size_t *ret_said_len)
{
    unsigned char *control = NULL;
    size_t bytes = 0;
    int count = 0;

    session_send_late_gap(session);
    drop_expired(session);
    *ret_said_len = frame_control(session, &control);
    if (*ret_said_len > 0)
        pieces[count++] = (struct iovec){control, *ret_said_len};
    for (unsigned i = 0; i < session->outbound.count && count < PIECES_MAX; i++) {
        const struct notification *notification = outbound_nth(&session->outbound, i);

        if (bytes > 0 && bytes + notification->ws_len > PIECES_BYTES_MAX)
            break;
        if (i > 0 && notification_is_expired(notification))
            break; /* its turn comes with the next call */
        pieces[count++] = (struct iovec){notification->ws, notification->ws_len};
        bytes += notification->ws_len;
    }
    return count;
}

static enum rc
offer(struct session *session, const struct iovec *pieces, int count, int file, size_t *ret_taken)
{
    if (file >= 0)
        return session->socket.transport->send_file(session->socket.handle, pieces, file,
                                                    ret_taken);
    return session->socket.transport->send(session->socket.handle, pieces, count, ret_taken);
}

/* What the socket took, in whole frames. `file` has the only piece, or is -1. */
static size_t
give(struct session *session, const struct iovec *pieces, int count, int file)
{
    size_t taken = 0;

    session->is_blocked = offer(session, pieces, count, file, &taken) != RC_OK;
    if (!session->is_blocked && !session->is_timed)
        return taken;
    session->is_timed = session->is_blocked;
    if (taken > 0 || !session->is_blocked) {
        session->stall.skipped_bytes = 0;
        session->stall.taken_us = 0;
    }
    if (session->is_blocked && session->stall.taken_us == 0)
        session->stall.taken_us = clock_monotonic_us();
    return taken;
}

static void
send_batch(struct hub *hub, struct session *session)
{
    struct fanout_batch *batch = session->outbound.batch;
    struct iovec piece = {batch->bytes, batch->len};
    int file = session->socket.transport->send_file != NULL ? fanout_batch_file(batch) : -1;
    size_t taken = give(session, &piece, 1, file);

    if (taken < batch->len) {
        session_split_batch(session, taken);
        return;
    }
    session->outbound.batch = NULL;
    stats_add(hub->stats, STAT_HUB_DELIVERED, batch->count);
    count_time(session, batch->notifications[0]);
    fanout_batch_unref(batch);
    if (session->has_backlog)
        session_gap_of_backlog(session);
}

static void
send_queue(struct session *session)
{
    struct iovec pieces[PIECES_MAX];
    size_t control_len = 0;
    int count = gather(session, pieces, &control_len);
    size_t taken;

    if (count == 0)
        return;
    taken = give(session, pieces, count, -1);
    if (control_len > 0 && taken >= control_len) {
        taken -= control_len;
        buffer_free(&session->control.lines);
        session->has_control = session->control.lost_why != NULL;
    }
    while (taken > 0) {
        taken -= outbound_nth(&session->outbound, 0)->ws_len;
        notification_unref(take_written(session));
    }
    session_gap_of_backlog(session);
}

void
session_send(struct hub *hub, struct session *session)
{
    if (session->is_blocked)
        return;
    if (session->outbound.batch != NULL &&
        (session->has_control || fanout_batch_is_stale(session->outbound.batch)))
        session_split_batch(session, 0);
    if (session->outbound.batch != NULL)
        send_batch(hub, session);
    else
        send_queue(session);
    if (session->state != SESSION_LIVE && session_queue_is_empty(session))
        session_mark(session, READY_ADVANCE);
    if (!session_queue_is_empty(session) || session->has_control)
        ready_list_send(hub, session);
}

void
session_writable(struct session *session)
{
    session->is_blocked = false;
    session->hub->sending_us = clock_wall_us();
    session_send(session->hub, session);
}
