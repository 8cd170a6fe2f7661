/* check.c: the state CHECKING, which detects lost stream entries after the client's cursor. */
#include "hub/resume/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "hub/resume/read_pages.h"
#include "hub/resume/request.h"
#include "hub/session/backlog.h"
#include "hub/session/control.h"
#include "hub/session/gap.h"
#include "hub/session/hub_state.h"
#include "hub/session/members.h"
#include "hub/session/cursors.h"
#include "hub/session/ready_list.h"
#include "hub/session/session.h"
#include "hub/session/state.h"

/* longer than the switch of a relay to a new primary, shorter than the patience of clients */
#define SWITCH_US (5 * INT64_C(1000000))

static bool
send_connected(struct session *session, bool resumed)
{
    struct hub *hub = session->hub;
    struct buffer frame;
    char pos[CLIENT_POS_MAX];
    bool is_whole;

    session_pos_text(session, session->cursor, pos);
    buffer_init(&frame, SESSION_CONTROL_MAX);
    is_whole = buffer_addf(&frame, "{\"t\":\"connected\",") == RC_OK;
    if (session->client.has_request_id)
        is_whole &= buffer_addf(&frame, "\"r\":%" PRId64 ",", session->client.request_id) == RC_OK;
    is_whole &=
        buffer_addf(&frame, "\"user\":") == RC_OK &&
        buffer_add_json(&frame, session->client.user, strlen(session->client.user)) == RC_OK;
    is_whole &= buffer_addf(&frame,
                            ",\"conn\":\"%s\",\"pos\":\"%s\",\"resumed\":%s,\"ping\":%" PRId64
                            ",\"win\":%d,\"exp\":%" PRId64 ",\"now\":%" PRId64 "}",
                            session->client.conn, pos, resumed ? "true" : "false",
                            hub->config->gate.ping_ms / 1000, session->inflight.size,
                            session->client.expires_s, clock_wall_us() / 1000) == RC_OK;
    if (is_whole)
        session_send_control(session, frame.bytes, frame.len);
    buffer_free(&frame);
    return is_whole;
}

static void
begin_delivery(struct session *session, bool resumed)
{
    resume_start(&session->resume, session->cursor, session->is_poll && resumed);
    inbox_rewind(&session->inbox);
    session_set_state(session, SESSION_INBOX);
    session_mark(session, READY_ADVANCE);
    if (!send_connected(session, resumed))
        log_error("hub", "could not send connected", LOG_SESSION(session));
}

/* It is unknown which notifications after the client's cursor were lost. */
static void
begin_after_gap(struct session *session, const char *why)
{
    backlog_free(session);
    session->cursor = session_head(session);
    begin_delivery(session, false);
    session_gap(session, session->cursor, session->cursor, why);
}

/* The notification expired before the client received it. */
static bool
is_lost(const struct session *session, const struct frame *frame, int64_t expires_us)
{
    return expires_us != 0 && expires_us <= clock_wall_us() &&
           session_is_recipient(session, frame) &&
           subscription_has(&session->subscription, frame->as.notification.topic);
}

static bool
page_has_loss(const struct session *session, const struct store_page *page)
{
    for (size_t i = 0; i < page->count; i++) {
        const struct entry *entry = &page->entries[i];

        if (!entry->is_retry && is_lost(session, &entry->frame, entry->expires_us))
            return true;
    }
    return false;
}

static bool
replay_buffer_has_loss(const struct session *session, struct cursor after)
{
    const struct notification *notification;

    while ((notification = replay_buffer_next(&session->hub->replay_buffer,
                                              session->client.own_shard, after)) != NULL) {
        if (!notification->is_retry &&
            is_lost(session, &notification->frame, notification->expires_us))
            return true;
        cursor_advance(&after, notification->shard, notification->id);
    }
    return false;
}

static void
check_replay_buffer(struct session *session)
{
    const struct cursor base =
        replay_buffer_base(&session->hub->replay_buffer, session->client.own_shard);

    begin_delivery(session, !replay_buffer_has_loss(
                                session, cursor_max(resume_checked(&session->resume), base)));
}

static void
on_checked(void *ctx, enum rc rc, const struct store_page *page)
{
    struct session *session = ctx;

    session_end_stream_page(session, page);
    session->requests.is_awaited = false;
    if (!session_reply_arrived(session, rc))
        return;
    resume_count_page(&session->resume);
    if (page->state == STORE_RANGE_UNKNOWN)
        begin_after_gap(session, "epoch");
    else if (session->is_poll || page->state != STORE_RANGE_WHOLE || page_has_loss(session, page))
        begin_delivery(session, session->is_poll && page->state == STORE_RANGE_WHOLE);
    else if (page->seen > 0)
        resume_check_to(&session->resume, page->last);
    else /* the store has no more stream entries */
        check_replay_buffer(session);
    /* Trimmed notifications are reported when the session catches up. */
    session_mark(session, READY_ADVANCE);
}

/* A poll reply does not report whether the session was resumed. */
static void
check_losses(struct session *session)
{
    struct hub *hub = session->hub;

    if (replay_buffer_covers(&hub->replay_buffer, session->client.own_shard,
                             resume_checked(&session->resume)))
        begin_delivery(session, session->is_poll || !replay_buffer_has_loss(
                                                        session, resume_checked(&session->resume)));
    else if (resume_is_too_far_behind(&session->resume, session_budget_is_spent(session)))
        begin_delivery(session, false); /* too far behind to check */
    else
        session_read_page(session, resume_checked(&session->resume),
                          session->is_poll ? 1 : SESSION_PAGE, on_checked);
}

/* True for a notification before the cursor that is not yet acknowledged. */
static bool
is_still_pending(const struct session *session, const struct entry *entry)
{
    struct cursor cursor = session->cursor;
    bool has_ended = entry->expires_us != 0 && entry->expires_us <= clock_wall_us();

    return entry->score <= entry_id_score(*cursor_in(&cursor, entry->shard)) && !has_ended &&
           session_is_recipient(session, &entry->frame);
}

static void
on_backlog(void *ctx, enum rc rc, const struct store_page *page)
{
    struct session *session = ctx;
    struct backlog *backlog = session->order.backlog;

    session->requests.is_awaited = false;
    if (!session_reply_arrived(session, rc))
        return;
    for (size_t i = 0; i < page->count && !backlog->is_checked; i++) {
        if (is_still_pending(session, &page->entries[i]))
            tally_add(&backlog->found, page->entries[i].frame.as.notification.id);
        backlog->is_checked = tally_equal(backlog->found, backlog->waiting);
    }
    backlog->is_lost = !backlog->is_checked && page->next[0] == '\0';
    snprintf(session->inbox.at, sizeof(session->inbox.at), "%s", page->next);
    session_mark(session, READY_ADVANCE);
}

/* False while a request to the store is pending. */
static bool
has_checked_backlog(struct session *session, const struct backlog *reported)
{
    if (session->order.backlog == NULL) {
        backlog_restore(session, reported);
        store_inbox_cursor_after(reported->behind, session->inbox.at);
    }
    if (session->order.backlog == NULL || session->order.backlog->is_checked ||
        session->order.backlog->is_lost)
        return true;
    session_await(session, store_inbox(session->hub->store, session->client.user, session->inbox.at,
                                       SESSION_PAGE, false, on_backlog, session));
    return false;
}

/* Part of the backlog expired or was acknowledged by another session. */
static void
begin_with_loss(struct session *session)
{
    backlog_free(session);
    begin_delivery(session, session->is_poll);
    session_gap(session, session->cursor, session->cursor, "shed");
}

/* Limits the ids to what the client can have read of the present streams. */
static enum rc
limit_cursor(const struct session *session, struct cursor *cursor)
{
    const struct store *store = session->hub->store;
    const unsigned own = session->client.own_shard;
    const enum rc rc = store_limit(store, 0, &cursor->shared);

    return rc == RC_OK && own > 0 ? store_limit(store, own, &cursor->own) : rc;
}

/*
 * Reads the client's cursor. RC_AGAIN: another relay has followed a failover before this one.
 * RC_BAD or RC_CLOSED: it is unknown what the client has read.
 */
static enum rc
read_client_pos(struct session *session, struct backlog *ret_reported)
{
    const struct hub *hub = session->hub;
    enum rc rc = client_pos_read(resume_pos(&session->resume), hub->epoch, hub->shards,
                                 session->client.own_shard, &session->cursor, ret_reported);

    if (rc == RC_OK)
        rc = limit_cursor(session, &session->cursor);
    if (rc == RC_OK)
        rc = limit_cursor(session, &ret_reported->behind);
    if (rc == RC_AGAIN && clock_monotonic_us() - session->client.attached_us >= SWITCH_US)
        return RC_CLOSED;
    return rc;
}

void
session_check(struct session *session)
{
    struct backlog reported;
    enum rc rc = RC_OK;

    if (resume_pos(&session->resume) == NULL) {
        session->cursor = session_head(session);
        begin_delivery(session, false);
        return;
    }
    rc = read_client_pos(session, &reported);
    if (rc == RC_AGAIN) {
        hub_retry(session->hub);
    } else if (rc != RC_OK) {
        begin_after_gap(session, "epoch");
    } else if (has_checked_backlog(session, &reported)) {
        resume_check_to(&session->resume, session->cursor);
        if (session->order.backlog != NULL && session->order.backlog->is_lost)
            begin_with_loss(session);
        else
            check_losses(session);
    }
}
