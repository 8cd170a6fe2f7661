/*
 * pair_queries.c: what a session asks the store about a pair whose notification it has not sent,
 * because its in-flight window is full. Two questions (report.lua answers both):
 *
 * Recipient: must the user acknowledge the notification? It is for a group, so the pending list may
 * not have it. The notification is held until the reply. If not, it is sent; if so, it is deferred
 * and read from the list later.
 *
 * State: has a deferred notification of the stream ended, and how? One that has ended needs no
 * slot, so the next pass sends it (known_state in resume.c).
 */
#include "hub/hub_private.h"

#include <string.h>

#include "base/memory.h"

/* ---- the reply: must the user acknowledge it? */

bool
session_was_sent_early(const struct session *session, const struct notification *notification)
{
    const struct session_pending *pending = &session->pending;

    for (unsigned i = 0; i < pending->early_count; i++) {
        if (memcmp(pending->early[i], notification->frame.as.notification.id,
                   sizeof(*pending->early)) == 0)
            return true;
    }
    return false;
}

/* The user does not have to acknowledge it. */
static void
send_early(struct session *session, struct notification *notification)
{
    struct session_pending *pending = &session->pending;

    if (session->state == SESSION_CLOSED || !session_is_recipient(session, &notification->frame) ||
        !topics_match(session->topics, notification->frame.as.notification.topic))
        return;
    if (session->outbound.count >= OUTBOUND_MAX || pending->early_count == EARLY_MAX) {
        pending->deferral.by_stream = true;
        return;
    }
    if (session->has_deferral) {
        if (pending->early == NULL)
            pending->early = memory_new(EARLY_MAX * sizeof(*pending->early));
        memcpy(pending->early[pending->early_count++], notification->frame.as.notification.id,
               sizeof(*pending->early));
    }
    session_queue(session, notification);
}

/*
 * The reply to session_query_recipient. If the user does not have to acknowledge the notification,
 * it is in no list.
 *
 * A failover loses the end of a stream: all later notifications that were read before are lost too.
 * WAL is confirmed late, so the feed stores a lost notification again, except one that was
 * published over HTTP. Until the reader reads the new history, the session must not receive later
 * ones before it.
 */
static void
note_recipient(struct hub *hub, const struct pair_request *request)
{
    struct session *session = request->query.session;
    struct notification *notification = request->query.notification;
    const unsigned shard = request->stored.shard;

    if (request->state == STORE_PAIR_LOST && notification->frame.commit_lsn != 0) {
        if (!store_is_read(hub->store, shard))
            cursor_advance(&session->cursor, shard, hub->newest[shard]);
    } else if (request->state == STORE_PAIR_NONE || request->state == STORE_PAIR_LOST) {
        send_early(session, notification);
    }
}

/* ---- the reply: has it ended? */

static enum inflight_state
state_of(enum store_pair state)
{
    switch (state) {
    case STORE_PAIR_PENDING:
    case STORE_PAIR_LOST:
        return INFLIGHT_OPEN;
    case STORE_PAIR_ACKED:
        return INFLIGHT_ACKED;
    case STORE_PAIR_NONE:
    case STORE_PAIR_ENDED:
        return INFLIGHT_ENDED;
    }
    return INFLIGHT_OPEN;
}

/* The reply to session_query_state. OPEN: the pair has not ended. */
static void
note_state(struct session *session, const unsigned char id[16], enum inflight_state state)
{
    struct session_pending *pending = &session->pending;
    struct ended_pair *ended;

    if (state == INFLIGHT_OPEN)
        pending->is_open = true;
    if (pending->is_open || pending->ended_count == pending->queried)
        return;
    ended = &pending->ended[pending->ended_count++];
    ended->state = (uint8_t)state;
    memcpy(ended->id, id, sizeof(ended->id));
}

/* ---- queries */

static void
on_reply(struct hub *hub, struct pair_request *request, bool has_reply)
{
    struct session *session = request->query.session;
    struct notification *notification = request->query.notification;

    if (has_reply && notification == NULL)
        note_state(session, request->stored.id, state_of(request->state));
    else if (has_reply)
        note_recipient(hub, request);
    session->requests.count--;
    session->pending.query_count--;
    if (notification != NULL) {
        session->pending.query_bytes -= (uint32_t)notification->text_len;
        notification_unref(notification);
    }
    if (session->state == SESSION_CLOSED)
        session_free_if_done(session);
    else if (!hub->closing)
        session_mark(session, READY_ADVANCE | READY_REFILL); /* it may wait for this reply */
}

/* The session counts the query until the reply. */
static bool
send_query(struct session *session, unsigned shard, struct entry_id entry,
           const unsigned char id[16], struct notification *notification)
{
    const struct pair_query query = {session, notification};
    struct store_report *report = pair_requests_add(session, shard, id, on_reply, &query);

    if (report == NULL)
        return false;
    report->entry = entry;
    report->is_query = true;
    session->requests.count++;
    session->pending.query_count++;
    if (notification != NULL) {
        (void)notification_ref(notification);
        session->pending.query_bytes += (uint32_t)notification->text_len;
    }
    return true;
}

bool
session_query_state(struct session *session, unsigned shard, struct entry_id entry,
                    const unsigned char id[16])
{
    return send_query(session, shard, entry, id, NULL);
}

bool
session_query_recipient(struct session *session, struct notification *notification)
{
    return send_query(session, notification->shard, notification->id,
                      notification->frame.as.notification.id, notification);
}
