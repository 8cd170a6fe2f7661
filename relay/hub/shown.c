/* shown.c: tells the store which users were shown what they owe an ack for. */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/log.h"
#include "base/memory.h"
#include "hub/hub_private.h"

#define SHOWN_MAX 262144
#define SHOWN_IN_ONE_CALL 500
#define SHOWN_CALLS_MAX 64 /* under way */

struct shown {
    struct note *note; /* a reference */
    char *user;
    struct session *deferred; /* not shown to it: its window was full; NULL: it was shown */
};

/* One call under way. */
struct shown_call {
    struct hub *hub;
    size_t count;
    struct shown items[];
};

static void
forget_deferral(const struct shown *item)
{
    struct session *session = item->deferred;

    if (session == NULL)
        return;
    session->deferring_count--;
    session->deferring_bytes -= item->note->line_len;
}

static void
release(struct shown *item)
{
    struct session *session = item->deferred;

    note_unref(item->note);
    free(item->user);
    if (session == NULL)
        return;
    session->asked--;
    if (session->state == SESSION_CLOSED)
        session_free_if_done(session);
    else if (!session->hub->closing)
        session_step(session); /* it may have waited for this */
}

static void
push(struct hub *hub, struct shown item)
{
    if (hub->shown_count == hub->shown_room) {
        hub->shown_room = hub->shown_room == 0 ? 64 : hub->shown_room * 2;
        hub->shown = memory_grow(hub->shown, hub->shown_room * sizeof(*hub->shown));
    }
    hub->shown[hub->shown_count++] = item;
}

static void
add(struct session *session, struct note *note, bool is_deferred)
{
    struct hub *hub = session->hub;

    if (hub->shown_count >= SHOWN_MAX) {
        /* Not lost: it stays pending and is shown at the user's next connect. */
        log_warn(session->name, "more than %d lines wait to be reported as shown, leaving one out",
                 SHOWN_MAX);
        return;
    }
    if (is_deferred) {
        session->asked++;
        session->deferring_count++;
        session->deferring_bytes += note->line_len;
    }
    push(hub, (struct shown){note_ref(note), memory_text(session->user, strlen(session->user)),
                             is_deferred ? session : NULL});
    if (hub->shown_calls == 0 || hub->shown_count >= SHOWN_IN_ONE_CALL)
        shown_flush(hub);
}

void
shown_add(struct session *session, struct note *note)
{
    add(session, note, false);
}

void
shown_defer(struct session *session, struct note *note)
{
    add(session, note, true);
}

/*
 * Nobody waits for this ack: another session of the user gave it before, or the user became a
 * member later. What was held back for it goes as it is, what was shown takes no place.
 */
static void
take_unowed(struct hub *hub, const struct shown *item)
{
    char id[FRAME_UUID_TEXT + 1];

    if (item->deferred != NULL) {
        session_give_unowed(item->deferred, item->note);
        return;
    }
    frame_id_text(item->note->frame.as.note.id, id);
    hub_free_place(hub, item->user, id);
}

/*
 * What waits for room was there before: what nobody waits for does not go past it, but is missed
 * with a gap behind it.
 */
static void
take_answer(struct hub *hub, const struct shown *item, bool is_unowed)
{
    forget_deferral(item);
    if (is_unowed && (item->deferred == NULL || item->deferred->owed_count == 0))
        take_unowed(hub, item);
    else if (item->deferred != NULL)
        item->deferred->owed_count++;
}

static void
on_reported(void *ctx, enum rc rc, const size_t *unowed, size_t unowed_count)
{
    struct shown_call *call = ctx;
    struct hub *hub = call->hub;
    bool is_unowed[SHOWN_IN_ONE_CALL] = {false};

    hub->shown_calls--;
    for (size_t i = 0; i < unowed_count; i++) {
        if (unowed[i] < call->count)
            is_unowed[unowed[i]] = true;
    }
    for (size_t i = 0; rc == RC_OK && !hub->closing && i < call->count; i++)
        take_answer(hub, &call->items[i], is_unowed[i]);
    for (size_t i = 0; i < call->count; i++) {
        if (rc == RC_OK || hub->closing)
            release(&call->items[i]);
        else
            push(hub, call->items[i]); /* idempotent: it goes again */
    }
    free(call);
    if (hub->closing)
        return;
    if (rc != RC_OK) {
        hub_retry(hub);
        return;
    }
    acks_flush(hub); /* and what of this waits before them */
    acks_refill(hub);
}

static enum rc
send_some(struct hub *hub)
{
    struct store_shown reports[SHOWN_IN_ONE_CALL];
    size_t count = hub->shown_count < SHOWN_IN_ONE_CALL ? hub->shown_count : SHOWN_IN_ONE_CALL;
    struct shown_call *call = memory_new(sizeof(*call) + count * sizeof(*call->items));

    call->hub = hub;
    call->count = count;
    memcpy(call->items, hub->shown, count * sizeof(*call->items));
    for (size_t i = 0; i < count; i++) {
        const struct note *note = call->items[i].note;

        reports[i] = (struct store_shown){
            .user = call->items[i].user,
            .id = note->frame.as.note.id,
            .shard = note->shard,
            .backoff = note->frame.as.note.backoff,
            .is_retried = (note->frame.flags & FRAME_RETRY_ENABLED) != 0,
            .is_open = note->is_open,
            .is_deferred = call->items[i].deferred != NULL,
        };
    }
    if (store_shown(hub->store, reports, count, on_reported, call) != RC_OK) {
        free(call);
        return RC_AGAIN;
    }
    hub->shown_calls++;
    hub->shown_count -= count;
    memmove(hub->shown, hub->shown + count, hub->shown_count * sizeof(*hub->shown));
    return RC_OK;
}

void
shown_flush(struct hub *hub)
{
    while (hub->shown_count > 0 && hub->shown_calls < SHOWN_CALLS_MAX && store_is_up(hub->store)) {
        if (send_some(hub) != RC_OK)
            return;
    }
}

void
shown_free(struct hub *hub)
{
    for (size_t i = 0; i < hub->shown_count; i++)
        release(&hub->shown[i]);
    free(hub->shown);
}
