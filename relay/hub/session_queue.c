/* session_queue.c: what waits for a session's socket, and how it gets there. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "hub/hub_private.h"
#include "wire/ws_frame.h"

#define PIECES_MAX 64
#define PIECES_BYTES_MAX (256u * 1024)

_Static_assert(SESSION_QUEUE_BYTES >= PIECES_BYTES_MAX, "a queue is not full before it is sent");

bool
session_is_idle(const struct session *session)
{
    return outbound_is_empty(&session->outbound);
}

const struct note *
session_first_queued(const struct session *session)
{
    return outbound_nth(&session->outbound, 0);
}

bool
session_is_full(const struct session *session)
{
    size_t most = (size_t)session->hub->config->gate.slow_bytes;
    size_t bytes = outbound_bytes(&session->outbound) + session->inbox.held_bytes;

    return outbound_notes(&session->outbound) + session->inbox.held_count >= OUTBOUND_MAX ||
           bytes >= (most < SESSION_QUEUE_BYTES ? most : SESSION_QUEUE_BYTES);
}

static void
wake(struct hub *hub, struct session *session)
{
    if (session->is_blocked || session->is_waking)
        return;
    session->is_waking = true;
    session->waking_next = NULL;
    if (hub->shed.probe == NULL)
        shed_waits(hub, session);
    if (hub->waking == NULL)
        hub->waking = session;
    else
        hub->waking_last->waking_next = session;
    hub->waking_last = session;
}

void
session_wake(struct session *session)
{
    wake(session->hub, session);
}

/* What goes in. */

/*
 * A line that overtakes others must not tell a position behind theirs: who reconnects with it would
 * never get them. So it tells one before them all; and of a backlog, in a copy of its own. NULL: it
 * goes as it is.
 */
static struct note *
own_copy(const struct session *session, const struct note *note, unsigned nth)
{
    const struct note *overtaken = outbound_nth(&session->outbound, nth);
    const struct cursor told = note_told(note, session->client.own_shard);
    const struct cursor cursor =
        outbound_before(&session->outbound, nth, session->client.own_shard, told);

    if (cursor_equal(cursor, told) && backlog_told(session, cursor, overtaken) == NULL)
        return NULL;
    return session_note_at(session, note, cursor, overtaken);
}

struct cursor
session_before_queue(const struct session *session, struct cursor to)
{
    return outbound_before(&session->outbound, 0, session->client.own_shard, to);
}

/* Takes over a reference. */
static void
insert(struct session *session, struct note *note)
{
    struct outbound *outbound = &session->outbound;
    /* A poll resumes from its last position: it receives what waits in the order of the stream. */
    unsigned nth = session->is_poll ? outbound->count
                                    : outbound_position(outbound, note->frame.as.note.priority);
    struct note *copy = own_copy(session, note, nth);

    outbound_insert(outbound, nth, copy != NULL ? copy : note, &session->hub->queued_bytes);
    if (copy != NULL)
        note_unref(note);
}

/* Its notes become ordinary ones, from the first that was not sent on. */
static void
break_run(struct session *session, size_t sent)
{
    struct run *run = outbound_take_run(&session->outbound);

    for (unsigned i = 0; run != NULL && i < run->count; i++) {
        if (sent >= run->notes[i]->ws_len) {
            sent -= run->notes[i]->ws_len;
            stats_add(session->hub->stats, STAT_HUB_DELIVERED, 1);
        } else {
            insert(session, note_ref(run->notes[i]));
        }
    }
    run_unref(run);
}

void
session_queue(struct session *session, struct note *note)
{
    break_run(session, 0);
    insert(session, row_order_pass(session, note));
    session_wake(session);
}

/* Its turn has not come since the run before: this one goes with it. */
static bool
join_run(struct hub *hub, struct session *session, const struct run *run)
{
    struct run *whole = run_joint_of(&hub->joint, session->outbound.run, run);

    if (whole == NULL)
        return false;
    run_unref(session->outbound.run);
    session->outbound.run = run_ref(whole);
    return true;
}

bool
session_queue_run(struct hub *hub, struct session *session, struct run *run)
{
    if (session->is_blocked || session->has_backlog || session->has_said || session->is_poll)
        return false;
    if (session->outbound.run != NULL)
        return join_run(hub, session, run);
    if (!session_is_idle(session))
        return false;
    session->outbound.run = run_ref(run);
    wake(hub, session);
    return true;
}

void
session_drop_queue(struct session *session)
{
    outbound_clear(&session->outbound, &session->hub->queued_bytes);
}

bool
session_can_say(const struct session *session, size_t len)
{
    return session->control.lines.len + len + 1 <= SESSION_SAID_MAX;
}

void
session_say(struct session *session, const char *line, size_t len)
{
    if (!session_can_say(session, len) || buffer_add(&session->control.lines, line, len) != RC_OK ||
        buffer_add(&session->control.lines, "\n", 1) != RC_OK) {
        /* Only a peer that asks and never reads gets here; pings and timers end it. */
        log_debugf(session->client.name, "control lines pile up, one is not sent");
        return;
    }
    session->has_said = true;
    session_wake(session);
}

/* What goes out. */

/* What expired at the head of the queue goes, and is told as one gap. */
static void
drop_expired(struct session *session)
{
    struct cursor from = {.own = {0, 0}}, to = from;
    bool has_lost = false;

    while (session->outbound.count > 0 && note_is_expired(outbound_nth(&session->outbound, 0))) {
        struct note *note = outbound_take(&session->outbound, &session->hub->queued_bytes);
        struct cursor cursor = session_cursor_behind(session, note);

        window_drop(session, note);
        if (!note->is_retry) {
            from = has_lost ? cursor_min(from, cursor) : cursor;
            to = cursor_max(to, cursor);
            has_lost = true;
        }
        note_unref(note);
    }
    if (has_lost)
        session_gap(session, from, to, "expired");
}

/* Of what was away, or was shown before, the time would not tell how fast we are. */
static void
count_time(const struct session *session, const struct note *note)
{
    if (session->state == SESSION_LIVE && !note->is_retry)
        stats_time(session->hub->stats, TIME_SENT,
                   session->hub->sending_us - note->frame.as.note.commit_us);
}

/* Takes a note out of the queue that counts as written from now on. */
static struct note *
pop_note(struct session *session)
{
    struct note *note = outbound_take(&session->outbound, &session->hub->queued_bytes);

    stats_add(session->hub->stats, STAT_HUB_DELIVERED, 1);
    count_time(session, note);
    if (note->needs_ack)
        window_wrote(session, note);
    return note;
}

/* The session's own lines as one frame, in the hub's scratch; its length, 0 when there are none. */
static size_t
frame_said(struct session *session, unsigned char **ret_frame)
{
    unsigned char *text = session->hub->scratch + WS_TEXT_HEAD_MAX;
    size_t len = session->control.lines.len > 0 ? session->control.lines.len - 1
                                                : 0; /* the last line break */
    size_t head_len;

    if (len == 0)
        return 0;
    memcpy(text, session->control.lines.bytes, len);
    head_len = ws_text_head(len, text);
    *ret_frame = text - head_len;
    return head_len + len;
}

static int
gather(struct session *session, struct iovec pieces[PIECES_MAX], size_t *ret_said_len)
{
    unsigned char *said = NULL;
    size_t bytes = 0;
    int count = 0;

    session_tell_lost(session);
    drop_expired(session);
    *ret_said_len = frame_said(session, &said);
    if (*ret_said_len > 0)
        pieces[count++] = (struct iovec){said, *ret_said_len};
    for (unsigned i = 0; i < session->outbound.count && count < PIECES_MAX; i++) {
        const struct note *note = outbound_nth(&session->outbound, i);

        if (bytes > 0 && bytes + note->ws_len > PIECES_BYTES_MAX)
            break;
        if (i > 0 && note_is_expired(note))
            break; /* its turn comes with the next call */
        pieces[count++] = (struct iovec){note->ws, note->ws_len};
        bytes += note->ws_len;
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
        session->stall.passed_bytes = 0;
        session->stall.taken_us = 0;
    }
    if (session->is_blocked && session->stall.taken_us == 0)
        session->stall.taken_us = clock_monotonic_us();
    return taken;
}

static void
send_run(struct hub *hub, struct session *session)
{
    struct run *run = session->outbound.run;
    struct iovec piece = {run->bytes, run->len};
    int file = session->socket.transport->send_file != NULL ? run_file(run) : -1;
    size_t taken = give(session, &piece, 1, file);

    if (taken < run->len) {
        break_run(session, taken);
        return;
    }
    session->outbound.run = NULL;
    stats_add(hub->stats, STAT_HUB_DELIVERED, run->count);
    count_time(session, run->notes[0]);
    run_unref(run);
    if (session->has_backlog)
        session_tell_gone(session);
}

static void
send_queue(struct session *session)
{
    struct iovec pieces[PIECES_MAX];
    size_t said_len = 0;
    int count = gather(session, pieces, &said_len);
    size_t taken;

    if (count == 0)
        return;
    taken = give(session, pieces, count, -1);
    if (said_len > 0 && taken >= said_len) {
        taken -= said_len;
        buffer_free(&session->control.lines);
        session->has_said = session->control.lost_why != NULL;
    }
    while (taken > 0) {
        taken -= outbound_nth(&session->outbound, 0)->ws_len;
        note_unref(pop_note(session));
    }
    session_tell_gone(session);
}

static void
send_some(struct hub *hub, struct session *session)
{
    if (session->is_blocked)
        return;
    if (session->outbound.run != NULL && (session->has_said || run_is_stale(session->outbound.run)))
        break_run(session, 0);
    if (session->outbound.run != NULL)
        send_run(hub, session);
    else
        send_queue(session);
    if (session->state != SESSION_LIVE && session_is_idle(session))
        session_step(session);
    if (!session->is_blocked && (!session_is_idle(session) || session->has_said))
        wake(hub, session);
}

/* While one is sent, what the next two need comes from memory: they are many, and far apart. */
static void
look_ahead(const struct session *next)
{
    if (next == NULL)
        return;
    __builtin_prefetch(next->socket.handle);
    if (next->waking_next != NULL)
        __builtin_prefetch(&next->waking_next->outbound.run);
}

bool
hub_send_some(struct hub *hub, unsigned most)
{
    hub->sending_us = clock_wall_us();
    while (hub->waking != NULL && most-- > 0) {
        struct session *session = hub->waking;

        hub->waking = session->waking_next;
        session->is_waking = false;
        if (session == hub->shed.probe)
            shed_had_turn(hub);
        look_ahead(hub->waking);
        if (session->state == SESSION_CLOSED)
            session_free_if_done(session);
        else
            send_some(hub, session);
    }
    return hub->waking != NULL;
}

void
session_writable(struct session *session)
{
    session->is_blocked = false;
    session->hub->sending_us = clock_wall_us();
    send_some(session->hub, session);
}
