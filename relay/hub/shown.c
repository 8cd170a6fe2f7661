/* shown.c: tells the store which users were shown what they owe an ack for. */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/log.h"
#include "base/memory.h"
#include "hub/hub_private.h"

#define SHOWN_MAX 262144
#define SHOWN_IN_ONE_CALL 500
#define SHOWN_CALLS_MAX 64 /* whose answers are not taken yet */

struct shown {
    unsigned char id[16];
    unsigned char shard;
    uint8_t backoff;
    uint32_t ack_timeout_ms; /* 0: as set */
    bool is_retried;
    bool is_open_ended;
    bool is_kept;   /* it was shown before */
    bool is_unowed; /* as the store answered */
    char *user;
    struct session *deferred; /* not shown to it: its window was full; NULL: it was shown */
    struct note *note;        /* held back for that one: a reference */
};

enum shown_state { SHOWN_ASKED, SHOWN_ANSWERED, SHOWN_FAILED };

/*
 * Several are under way, to several shards: their answers are taken in the order of the calls, so
 * that what was held back first is decided on first.
 */
struct shown_call {
    struct shown_call *prev, *next;
    struct hub *hub;
    enum shown_state state;
    size_t count;
    struct shown items[];
};

static void
forget_deferral(const struct shown *item)
{
    struct session *session = item->deferred;

    if (session == NULL)
        return;
    session->inbox.held_count--;
    session->inbox.held_bytes -= item->note->line_len;
}

static void
release(struct shown *item)
{
    struct session *session = item->deferred;

    note_unref(item->note);
    free(item->user);
    if (session == NULL)
        return;
    session->requests.count--;
    if (session->state == SESSION_CLOSED)
        session_free_if_done(session);
    else if (!session->hub->closing)
        session_step(session); /* it may have waited for this */
}

static void
push(struct hub *hub, struct shown item)
{
    if (hub->shown.count == hub->shown.room) {
        hub->shown.room = hub->shown.room == 0 ? 64 : hub->shown.room * 2;
        hub->shown.items =
            memory_grow(hub->shown.items, hub->shown.room * sizeof(*hub->shown.items));
    }
    hub->shown.items[hub->shown.count++] = item;
}

static bool
has_room(const struct session *session)
{
    if (session->hub->shown.count < SHOWN_MAX)
        return true;
    /* Not lost: it stays pending and is shown at the user's next connect. */
    log_warnf(session->client.name,
              "more than %d lines wait to be reported as shown, leaving one out", SHOWN_MAX);
    return false;
}

static void
add(struct session *session, struct shown item)
{
    struct hub *hub = session->hub;

    item.user = memory_text(session->client.user, strlen(session->client.user));
    push(hub, item);
    if (hub->shown.calls == 0 || hub->shown.count >= SHOWN_IN_ONE_CALL)
        shown_flush(hub);
}

static struct shown
item_of(const struct note *note)
{
    struct shown item = {
        .shard = note->shard,
        .backoff = note->frame.as.note.backoff,
        .ack_timeout_ms = note->frame.as.note.ack_timeout_ms,
        .is_retried = (note->frame.flags & FRAME_RETRY_ENABLED) != 0,
        .is_open_ended = note->is_open_ended,
    };

    memcpy(item.id, note->frame.as.note.id, sizeof(item.id));
    return item;
}

void
shown_add(struct session *session, const struct note *note)
{
    if (has_room(session))
        add(session, item_of(note));
}

void
shown_keep(struct session *session, const struct inflight_entry *entry)
{
    struct shown item = {
        .shard = entry->shard,
        .backoff = entry->backoff,
        .ack_timeout_ms = entry->ack_timeout_ms,
        .is_retried = entry->is_retried,
        .is_open_ended = entry->is_open_ended,
        .is_kept = true,
    };

    memcpy(item.id, entry->id, sizeof(item.id));
    if (has_room(session))
        add(session, item);
}

void
shown_defer(struct session *session, struct note *note)
{
    struct shown item = item_of(note);

    if (!has_room(session))
        return;
    session->requests.count++;
    session->inbox.held_count++;
    session->inbox.held_bytes += note->line_len;
    if (!note->is_retry)
        backlog_asked(session, note);
    item.deferred = session;
    item.note = note_ref(note);
    add(session, item);
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
    frame_id_text(item->id, id);
    hub_free_place(hub, item->user, id);
}

/*
 * What waits for room was there before: what nobody waits for does not go past it, but is missed
 * with a gap behind it.
 */
static void
take_answer(struct hub *hub, const struct shown *item)
{
    forget_deferral(item);
    if (item->deferred != NULL ? backlog_decide(item->deferred, item->note, item->is_unowed)
                               : item->is_unowed)
        take_unowed(hub, item);
}

static void
end_call(struct hub *hub, struct shown_call *call)
{
    DL_DELETE(hub->shown.asked, call);
    hub->shown.calls--;
    for (size_t i = 0; i < call->count && !hub->closing; i++)
        take_answer(hub, &call->items[i]);
    for (size_t i = 0; i < call->count; i++)
        release(&call->items[i]);
    free(call);
}

static void
take_answers(struct hub *hub)
{
    struct shown_call *call;

    while ((call = hub->shown.asked) != NULL && call->state != SHOWN_ASKED &&
           (call->state == SHOWN_ANSWERED || hub->closing))
        end_call(hub, call);
}

static void
on_reported(void *ctx, enum rc rc, const size_t *not_pending, size_t unowed_count)
{
    struct shown_call *call = ctx;
    struct hub *hub = call->hub;

    for (size_t i = 0; i < unowed_count; i++) {
        if (not_pending[i] < call->count)
            call->items[not_pending[i]].is_unowed = true;
    }
    call->state = rc == RC_OK ? SHOWN_ANSWERED : SHOWN_FAILED;
    hub->shown.failed += rc != RC_OK;
    take_answers(hub);
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
ask(struct hub *hub, struct shown_call *call)
{
    struct store_report reports[SHOWN_IN_ONE_CALL];

    for (size_t i = 0; i < call->count; i++) {
        const struct shown *item = &call->items[i];

        reports[i] = (struct store_report){
            .user = item->user,
            .id = item->id,
            .shard = item->shard,
            .backoff = item->backoff,
            .ack_timeout_ms = item->ack_timeout_ms,
            .is_retried = item->is_retried,
            .is_open_ended = item->is_open_ended,
            .is_deferred = item->deferred != NULL,
            .is_kept = item->is_kept,
        };
    }
    if (store_report(hub->store, reports, call->count, on_reported, call) != RC_OK)
        return RC_AGAIN;
    call->state = SHOWN_ASKED;
    return RC_OK;
}

/* Idempotent: they go again. */
static enum rc
ask_again(struct hub *hub)
{
    struct shown_call *call;

    DL_FOREACH (hub->shown.asked, call) {
        if (call->state != SHOWN_FAILED)
            continue;
        if (ask(hub, call) != RC_OK)
            return RC_AGAIN;
        hub->shown.failed--;
    }
    return RC_OK;
}

static enum rc
send_some(struct hub *hub)
{
    size_t count = hub->shown.count < SHOWN_IN_ONE_CALL ? hub->shown.count : SHOWN_IN_ONE_CALL;
    struct shown_call *call = memory_new(sizeof(*call) + count * sizeof(*call->items));

    call->hub = hub;
    call->count = count;
    memcpy(call->items, hub->shown.items, count * sizeof(*call->items));
    if (ask(hub, call) != RC_OK) {
        free(call);
        return RC_AGAIN;
    }
    DL_APPEND(hub->shown.asked, call);
    hub->shown.calls++;
    hub->shown.count -= count;
    memmove(hub->shown.items, hub->shown.items + count,
            hub->shown.count * sizeof(*hub->shown.items));
    return RC_OK;
}

bool
shown_waits(const struct hub *hub)
{
    return hub->shown.count > 0 || hub->shown.failed > 0;
}

void
shown_flush(struct hub *hub)
{
    if (!shown_waits(hub) || !store_is_up(hub->store) ||
        (hub->shown.failed > 0 && ask_again(hub) != RC_OK))
        return;
    while (hub->shown.count > 0 && hub->shown.calls < SHOWN_CALLS_MAX) {
        if (send_some(hub) != RC_OK)
            return;
    }
}

void
shown_free(struct hub *hub)
{
    take_answers(hub);
    for (size_t i = 0; i < hub->shown.count; i++)
        release(&hub->shown.items[i]);
    free(hub->shown.items);
}
