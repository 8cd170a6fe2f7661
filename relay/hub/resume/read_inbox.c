/* read_inbox.c: the state INBOX, in which a session reads its user's inbox page by page. */
#include "hub/resume/read_inbox.h"

#include <stdio.h>

#include "hub/delivery/offer.h"
#include "hub/delivery/session_inflight.h"
#include "hub/resume/read_pages.h"
#include "hub/resume/request.h"
#include "hub/session/backlog.h"
#include "hub/session/gap.h"
#include "hub/session/hub_state.h"
#include "hub/session/members.h"
#include "hub/session/cursors.h"
#include "hub/session/queue.h"
#include "hub/session/ready_list.h"
#include "hub/session/shed.h"
#include "hub/session/state.h"

/* Without retries there is no ack timeout: only the cursor shows whether it was sent. */
static bool
is_new_to_poll(const struct session *session, const struct entry *entry)
{
    bool retry_enabled = (entry->frame.flags & FRAME_RETRY_ENABLED) != 0;

    return retry_enabled || resume_is_before(&session->resume, entry->shard, entry->id) ||
           backlog_has(session, entry->shard, entry->score);
}

/* A retry of a notification that the session reads in stream order when it catches up. */
static bool
is_read_in_order(const struct session *session, const struct entry *entry)
{
    struct cursor cursor = session->cursor;

    return entry->is_retry && !resume_has_caught_up(&session->resume) &&
           entry->score > entry_id_score(*cursor_in(&cursor, entry->shard));
}

static void
on_inbox(void *ctx, enum rc rc, const struct store_page *page)
{
    struct session *session = ctx;

    session_end_page(session, page);
    session->requests.is_awaited = false;
    if (!session_reply_arrived(session, rc) || !groups_are_current(&session->groups))
        return;
    for (size_t i = 0; i < page->count; i++) {
        const struct entry *entry = &page->entries[i];
        struct notification *notification;

        if (inbox_is_reconciling(&session->inbox))
            inflight_confirm(&session->inflight, entry->frame.as.notification.id);
        if (!session_is_recipient(session, &entry->frame))
            continue; /* the user left the audience; the ack stays pending */
        if (!entry->is_retry && cursor_is_before(&session->cursor, entry->shard, entry->id))
            continue; /* sent in CATCHING_UP, which skips retries */
        if (resume_is_continued(&session->resume) && !is_new_to_poll(session, entry))
            continue;
        if (is_read_in_order(session, entry)) {
            inbox_miss(&session->inbox); /* found in CATCHING_UP or the next pass */
            continue;
        }
        notification =
            session_notification_new(session, entry, shed_cursor(session, session->cursor));
        session_enqueue_from_inbox(session, notification);
        notification_unref(notification);
    }
    snprintf(session->inbox.at, sizeof(session->inbox.at), "%s", page->next);
    if (page->next[0] == '\0') { /* the pass is complete */
        session_inflight_reconcile(session);
        if (!inbox_is_deferred(&session->inbox))
            session_lose_backlog(session);
    }
    if (page->next[0] == '\0' ||
        (inbox_is_deferred(&session->inbox) && !inbox_is_reconciling(&session->inbox))) {
        session->inbox.has_unread = session->inbox.is_full || page->next[0] != '\0';
        inbox_end(&session->inbox);
        session_set_state(session, SESSION_CATCHING_UP);
    }
    session_mark(session, READY_ADVANCE);
}

void
session_read_inbox(struct session *session)
{
    enum rc rc;

    if (!groups_are_current(&session->groups) || session_is_full(session) ||
        session->outbound.count + session->inbox.held_count + SESSION_PAGE > OUTBOUND_MAX ||
        !session_begin_page(session))
        return;
    rc = store_inbox(session->hub->store, session->client.user, session->inbox.at, SESSION_PAGE,
                     resume_is_continued(&session->resume), on_inbox, session);
    session_await(session, rc);
    if (rc != RC_OK)
        session_end_page(session, NULL);
}
