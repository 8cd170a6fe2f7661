/* window.c: which lines that need an ack a session has out, and what it may have beside them. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "hub/hub_private.h"

#define WINDOW_FIRST_ROOM 4

static struct unacked *
find(const struct session *session, const unsigned char id[16])
{
    for (int i = 0; i < session->unacked_count; i++) {
        if (memcmp(session->unacked[i].id, id, 16) == 0)
            return &session->unacked[i];
    }
    return NULL;
}

/* While the inbox is read: its answer may be older than the ack. */
static void
keep_acked(struct session *session, const unsigned char id[16])
{
    if (session->state != SESSION_INBOX)
        return;
    session->acked =
        memory_grow(session->acked, (session->acked_count + 1) * sizeof(*session->acked));
    memcpy(session->acked[session->acked_count++], id, 16);
}

static bool
was_acked(const struct session *session, const unsigned char id[16])
{
    for (unsigned i = 0; i < session->acked_count; i++) {
        if (memcmp(session->acked[i], id, 16) == 0)
            return true;
    }
    return false;
}

void
window_inbox_read(struct session *session)
{
    free(session->acked);
    session->acked = NULL;
    session->acked_count = 0;
    session->has_refused = false;
}

/* Idle sessions are many: places are made as they are needed. */
static void
take_place(struct session *session, const struct note *note)
{
    if (session->unacked_count == session->unacked_room) {
        int room = session->unacked_room == 0 ? WINDOW_FIRST_ROOM : session->unacked_room * 2;

        session->unacked_room = room < session->window ? room : session->window;
        session->unacked = memory_grow(session->unacked,
                                       (size_t)session->unacked_room * sizeof(*session->unacked));
    }
    session->unacked[session->unacked_count] = (struct unacked){
        .shard = note->shard,
        .backoff = note->frame.as.note.backoff,
        .ack_timeout_ms = note->frame.as.note.ack_timeout_ms,
        .is_retried = (note->frame.flags & FRAME_RETRY_ENABLED) != 0,
        .is_open = note->is_open,
    };
    memcpy(session->unacked[session->unacked_count++].id, note->frame.as.note.id, 16);
}

void
window_defer(struct session *session)
{
    if (!session->is_deferred)
        session->hub->deferred_count++;
    session->is_deferred = true;
}

/*
 * It has a place: true when it is to be shown again, else it is on its way, or was shown, already.
 */
static bool
enter_again(struct unacked *place)
{
    bool again = place->is_missed && place->is_written;

    place->is_missed = false;
    place->is_written = place->is_written && !again;
    return again;
}

/*
 * Nothing goes past what this session was not sent. A retry that waits was sent; a live session
 * reads it first all the same, a poll may be over before that.
 */
static bool
has_to_wait(const struct session *session)
{
    if (session->is_poll)
        return session->has_unread || backlog_waits(session);
    return session->is_deferred;
}

bool
window_enter(struct session *session, struct note *note)
{
    struct unacked *place = find(session, note->frame.as.note.id);

    if (place != NULL)
        return enter_again(place);
    if (session->unacked_count < session->window && !has_to_wait(session)) {
        take_place(session, note);
        return true;
    }
    window_defer(session);
    if (!note->is_copy)
        backlog_add(session, note);
    shown_defer(session, note);
    return false;
}

bool
window_enter_owed(struct session *session, struct note *note)
{
    struct unacked *place = find(session, note->frame.as.note.id);

    if (place != NULL) /* a retry is a copy: else the answer is older than that */
        return note->is_copy && enter_again(place);
    if (was_acked(session, note->frame.as.note.id))
        return false;
    if (session->unacked_count < session->window && !session->has_refused) {
        take_place(session, note);
        backlog_take(session, note);
        return true;
    }
    session->has_refused = true; /* what comes after it stays behind it */
    window_defer(session);
    return false;
}

/* A position tells of all that waits in the inbox, so that it holds for whatever topics. */
void
window_hide(struct session *session, struct note *note)
{
    if (!note->needs_ack || note->is_copy || note->is_open || !backlog_waits(session))
        return;
    backlog_add(session, note);
    shown_defer(session, note);
}

void
window_hide_owed(struct session *session, const struct note *note)
{
    if (!session->has_refused)
        backlog_take(session, note);
}

void
window_miss(struct session *session, const struct note *note)
{
    struct unacked *place = find(session, note->frame.as.note.id);

    if (place != NULL)
        place->is_missed = true;
}

void
window_wrote(struct session *session, struct note *note)
{
    struct unacked *place = find(session, note->frame.as.note.id);

    if (place == NULL)
        return; /* acked by another session meanwhile */
    place->is_written = true;
    shown_add(session, note);
}

static void
leave(struct session *session, struct unacked *place)
{
    *place = session->unacked[--session->unacked_count];
}

void
window_drop(struct session *session, const struct note *note)
{
    struct unacked *place = find(session, note->frame.as.note.id);

    if (place != NULL)
        leave(session, place);
}

int
window_forget(struct session *session, const unsigned char id[16])
{
    struct unacked *place = find(session, id);
    int shard = -1;

    if (place != NULL) {
        shard = place->shard;
        keep_acked(session, id);
        leave(session, place);
    }
    return shard;
}

void
window_give_up(struct session *session, const unsigned char id[16])
{
    const struct unacked *place = find(session, id);

    if (place != NULL && place->is_written)
        (void)window_forget(session, id);
}

void
window_doubt(struct session *session)
{
    for (int i = 0; i < session->unacked_count; i++)
        session->unacked[i].is_doubtful = session->unacked[i].is_written;
}

void
window_confirm(struct session *session, const unsigned char id[16])
{
    struct unacked *place = session->is_doubting ? find(session, id) : NULL;

    if (place != NULL)
        place->is_doubtful = false;
}

/* Of an open audience a store that went back may have forgotten the pair too: then it answers. */
void
window_drop_doubtful(struct session *session)
{
    if (!session->is_doubting)
        return;
    session->is_doubting = false;
    for (int i = session->unacked_count - 1; i >= 0; i--) {
        struct unacked *place = &session->unacked[i];

        if (place->is_doubtful && !place->is_open)
            leave(session, place);
        else if (place->is_written)
            shown_keep(session, place);
    }
}
