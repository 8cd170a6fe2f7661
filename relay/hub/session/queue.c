/* queue.c: puts notifications and batches into a session's outbound queue. */
#include "hub/session/queue.h"

#include "hub/session/backlog.h"
#include "hub/session/hub_state.h"
#include "hub/session/position.h"
#include "hub/session/ready_list.h"
#include "hub/session/row_order.h"

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

void
session_break_run(struct session *session, size_t sent)
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
    session_break_run(session, 0);
    insert(session, row_order_pass(session, note));
    session_mark(session, READY_SEND);
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
    ready_list_send(hub, session);
    return true;
}

void
session_drop_queue(struct session *session)
{
    outbound_clear(&session->outbound, &session->hub->queued_bytes);
}
