/*
 * catch_up.c: the state CATCHING_UP, in which a session reads the notifications after its cursor.
 */
#include "hub/resume/catch_up.h"

#include "hub/delivery/offer.h"
#include "hub/delivery/session_inflight.h"
#include "hub/resume/read_pages.h"
#include "hub/resume/request.h"
#include "hub/session/gap.h"
#include "hub/session/hub_state.h"
#include "hub/session/members.h"
#include "hub/session/cursors.h"
#include "hub/session/queue.h"
#include "hub/session/ready_list.h"
#include "hub/session/shed.h"
#include "hub/session/state.h"

static void
catch_up_from_page(struct session *session, const struct store_page *page)
{
    for (size_t i = 0; i < page->count && !session_is_full(session); i++) {
        const struct entry *entry = &page->entries[i];
        struct cursor cursor = session->cursor;

        cursor_advance(&cursor, entry->shard, entry->id);
        if (!entry->is_retry && session_is_recipient(session, &entry->frame)) {
            struct notification *notification =
                session_notification_new(session, entry, shed_cursor(session, cursor));
            session_enqueue(session, notification);
            notification_unref(notification);
        }
        session->cursor = cursor;
    }
    if (!session_is_full(session) && page->seen > 0)
        session->cursor = page->last;
}

static void
on_caught_up(void *ctx, enum rc rc, const struct store_page *page)
{
    struct session *session = ctx;
    const struct cursor from = session->cursor;

    session_end_page(session, page);
    session->requests.is_awaited = false;
    if (!session_reply_arrived(session, rc) || !groups_are_current(&session->groups))
        return;
    if (page->seen > 0)
        session->cursor = cursor_max(from, page->first);
    catch_up_from_page(session, page);
    if (page->seen == 0) /* the store has no more: later notifications arrive live */
        session->cursor =
            cursor_max(session->cursor,
                       replay_buffer_base(&session->hub->replay_buffer, session->client.own_shard));
    if (page->state == STORE_RANGE_TRIMMED)
        session_gap(session, from, session->cursor, "trimmed");
    session_mark(session, READY_ADVANCE);
}

static void
catch_up_from_replay_buffer(struct session *session)
{
    const struct replay_buffer *buffer = &session->hub->replay_buffer;
    struct notification *notification;

    while ((notification =
                replay_buffer_next(buffer, session->client.own_shard, session->cursor)) != NULL) {
        if (session_is_full(session))
            return;
        if (!notification->is_retry && session_is_recipient(session, &notification->frame))
            session_enqueue(session, notification);
        cursor_advance(&session->cursor, notification->shard, notification->id);
    }
    session_set_state(session, SESSION_LIVE);
    resume_catch_up(&session->resume);
    if (inbox_has_missed(&session->inbox))
        session_defer_inbox(session);
    session_mark(session, READY_REFILL); /* acks and retries arrived meanwhile */
}

void
session_catch_up(struct session *session)
{
    struct hub *hub = session->hub;

    if (session_is_full(session) || !groups_are_current(&session->groups))
        return; /* session_send or on_groups_reloaded marks the session again */
    if (replay_buffer_follows(&hub->replay_buffer, session->client.own_shard, session->cursor))
        catch_up_from_replay_buffer(session);
    else
        session_read_page(session, session->cursor, SESSION_PAGE, on_caught_up);
}
