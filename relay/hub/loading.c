/* loading.c: the state LOADING: the client's cursor, and the check for losses after it. */
#include "hub/hub_private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/rates.h"
#include "base/clock.h"
#include "base/log.h"
#include "wire/codes.h"

#define CHECKED_PAGES_MIN 128 /* checked however long it takes */
/* longer than the switch of a relay to a new primary, shorter than the patience of clients */
#define SWITCH_US (5 * INT64_C(1000000))

/* ---- LOADING: the client's cursor */

/* Writes the session's own cursor. */
static void
own_pos_text(const struct session *session, char ret_text[CLIENT_POS_MAX])
{
    session_pos_text(session, session_reached(session), ret_text);
    if (session->has_ends) {
        const struct ends_mark mark = ends_mark(session);

        client_pos_mark(ret_text, &mark);
    }
}

bool
session_pos(const struct session *session, char ret_pos[SESSION_POS_MAX])
{
    if (session->state != SESSION_LIVE || !outbound_is_empty(&session->outbound) ||
        session->has_control)
        return false;
    own_pos_text(session, ret_pos);
    return true;
}

static bool
send_connected(struct session *session, bool resumed)
{
    struct hub *hub = session->hub;
    struct buffer frame;
    char pos[CLIENT_POS_MAX];
    bool is_whole;

    own_pos_text(session, pos);
    buffer_init(&frame, SESSION_CONTROL_MAX);
    is_whole = buffer_addf(&frame, "{\"t\":\"connected\",") == RC_OK;
    if (session->client.has_request_id)
        is_whole &= buffer_addf(&frame, "\"r\":%" PRId64 ",", session->client.request_id) == RC_OK;
    is_whole &=
        buffer_addf(&frame, "\"user\":") == RC_OK &&
        buffer_add_json(&frame, session->client.user, strlen(session->client.user)) == RC_OK;
    is_whole &= buffer_addf(&frame,
                            ",\"conn\":\"%s\",\"pos\":\"%s\",\"resumed\":%s,\"ping\":%" PRId64
                            ",\"win\":%d,\"exp\":%" PRId64 ",\"now\":%" PRId64
                            ",\"features\":[\"barrier\",\"ends\",\"where\"]}",
                            session->client.conn, pos, resumed ? "true" : "false",
                            hub->config->gate.ping_ms / 1000, session->inflight.size,
                            session->client.expires_s, clock_wall_us() / 1000) == RC_OK;
    if (is_whole)
        session_send_control(session, SESSION_LINE_CONTROL, frame.bytes, frame.len, pos);
    buffer_free(&frame);
    return is_whole;
}

static void
begin_delivery(struct session *session, bool resumed)
{
    struct session_resume *resume = &session->resume;

    free(resume->pos);
    resume->pos = NULL;
    resume->started_at = session->cursor;
    resume->is_continued = session->is_poll && resumed;
    session->pending.pass = PASS_REREAD;
    session_set_state(session, SESSION_PENDING);
    session_mark(session, READY_ADVANCE);
    if (!send_connected(session, resumed))
        log_error("hub", "could not send connected", LOG_SESSION(session));
}

/* It is unknown which notifications after the client's cursor were lost. */
static void
begin_after_gap(struct session *session, const char *why)
{
    session->has_deferral = false;
    session->cursor = session_head(session);
    ends_reset(session);
    begin_delivery(session, false);
    session_gap(session, session->cursor, session->cursor, why);
}

/* Limits the ids to what the client can have read of the present streams (history_translate). */
static enum rc
translate_cursor(const struct session *session, struct cursor *cursor)
{
    const struct store *store = session->hub->store;
    const unsigned own = session->client.own_shard;
    const enum rc rc = store_translate_id(store, 0, &cursor->shared);

    return rc == RC_OK && own > 0 ? store_translate_id(store, own, &cursor->own) : rc;
}

/* Returns a cursor behind which the entry at the client's cursor is the next one of each stream. */
static struct cursor
before_cursor(const struct session *session)
{
    struct cursor after = session->cursor;

    if (!entry_id_is_zero(after.shared))
        after.shared = entry_id_before(after.shared);
    if (!entry_id_is_zero(after.own))
        after.own = entry_id_before(after.own);
    return after;
}

/* The notification at the client's cursor: of two streams, the later one. NULL: not in memory. */
static const struct frame *
frame_at_cursor(const struct session *session)
{
    const struct replay_buffer *buffer = &session->hub->replay_buffer;
    const unsigned own = session->client.own_shard;
    struct cursor after = before_cursor(session);
    const struct notification *notification;
    const struct frame *found = NULL;

    if (!replay_buffer_covers(buffer, own, after))
        return NULL;
    while ((notification = replay_buffer_next(buffer, own, after)) != NULL &&
           !cursor_is_before(&session->cursor, notification->shard, notification->id)) {
        if (!notification->is_retry)
            found = &notification->frame;
        cursor_advance(&after, notification->shard, notification->id);
    }
    return found;
}

static void
begin_step(struct session *session, enum load_step step)
{
    const struct deferral *deferral = &session->pending.deferral;
    struct cursor *checked = &session->resume.checked;

    if (step == LOAD_PAIRS && (!session->has_deferral || deferral->by_stream || session->is_poll))
        step = LOAD_STREAM;
    session->resume.step = step;
    *checked = step != LOAD_STREAM                            ? (struct cursor){.own = {0, 0}}
               : session->has_deferral && deferral->by_stream ? deferral->from
                                                              : session->cursor;
}

/* False while the store is down, or the reader has not followed the connections of the shards. */
static bool
reads_newest_history(const struct session *session)
{
    const struct store *store = session->hub->store;

    return store_is_serving(store) && store_is_read(store, 0) &&
           store_is_read(store, session->client.own_shard);
}

/*
 * Reads the client's cursor. RC_AGAIN: another relay has followed a failover before this one.
 * RC_BAD or RC_CLOSED: it is unknown what the client has read.
 */
static enum rc
read_client_pos(struct session *session)
{
    const struct hub *hub = session->hub;
    struct deferral *deferral = &session->pending.deferral;
    struct cursor read;
    struct ends_mark mark;
    enum rc rc = client_pos_read(session->resume.pos, hub->epoch, hub->shards,
                                 session->client.own_shard, &session->cursor, deferral);

    read = session->cursor;
    if (rc == RC_OK)
        rc = translate_cursor(session, &session->cursor);
    if (rc == RC_OK)
        rc = translate_cursor(session, &deferral->from);
    if (rc == RC_AGAIN && reads_newest_history(session) &&
        clock_monotonic_us() - session->client.attached_us >= SWITCH_US)
        return RC_CLOSED;
    if (rc != RC_OK)
        return rc;
    deferral->from = cursor_min(deferral->from, session->cursor);
    session->has_deferral = !cursor_equal(deferral->from, session->cursor);
    begin_step(session, session->has_ends ? LOAD_ENDS : LOAD_PAIRS);
    if (session->has_ends && !cursor_equal(read, session->cursor))
        ends_disorder(session);
    if (session->has_ends && client_pos_read_mark(session->resume.pos, &mark) == RC_OK) {
        ends_begin_resumed(session, &mark, frame_at_cursor(session));
        if (mark.is_ended)
            begin_step(session, LOAD_PAIRS);
    }
    return RC_OK;
}

/* False if the session does not wait for this page any more. */
static bool
step_page_arrived(struct session *session, enum load_step step, enum rc rc,
                  const struct store_page *page)
{
    if (!session_page_arrived(session, rc, page, step != LOAD_PAIRS))
        return false;
    session_mark(session, READY_ADVANCE);
    return session->resume.step == step;
}

/* ---- LOADING: the transaction at the client's cursor */

/* The client received the notification if it is in the audience, and it was not deferred. */
static void
find_end(struct session *session, unsigned shard, struct entry_id id, const struct frame *frame)
{
    const bool is_deferred = session->has_deferral && (frame->flags & FRAME_ACK_REQUIRED) != 0 &&
                             cursor_is_before(&session->pending.deferral.from, shard, id);

    if (!cursor_is_before(&session->cursor, shard, id))
        ends_note_read(session, frame,
                       !is_deferred && session_is_recipient(session, frame) &&
                           topics_match(session->topics, frame->as.notification.topic));
}

static void
on_last_read(void *ctx, enum rc rc, const struct store_page *page)
{
    struct session *session = ctx;
    bool is_found;

    if (!step_page_arrived(session, LOAD_ENDS, rc, page))
        return;
    is_found = page->seen == 0 || cursor_reaches(page->last, session->cursor);
    for (size_t i = 0; i < page->count; i++) {
        const struct entry *entry = &page->entries[i];

        is_found |= cursor_is_before(&session->cursor, entry->shard, entry->id);
        if (!entry->is_retry)
            find_end(session, entry->shard, entry->id, &entry->frame);
    }
    session->resume.checked = page->last;
    if (is_found)
        begin_step(session, LOAD_PAIRS);
}

/*
 * The client may have received a part of the transaction at its cursor, without its end.
 * Of each stream, the entry at the cursor is read again.
 */
static void
find_ends(struct session *session)
{
    const struct replay_buffer *buffer = &session->hub->replay_buffer;
    const unsigned own = session->client.own_shard;
    struct cursor after = before_cursor(session);
    const struct notification *notification;

    if (!cursor_reaches(session_head(session), session->cursor) &&
        clock_monotonic_us() - session->client.attached_us < SWITCH_US) {
        hub_repeat_later(session->hub); /* another relay has read further */
        return;
    }
    if (!replay_buffer_covers(buffer, own, after)) {
        session_read_range(session, cursor_max(after, session->resume.checked), 2, on_last_read);
        return;
    }
    while ((notification = replay_buffer_next(buffer, own, after)) != NULL &&
           !cursor_is_before(&session->cursor, notification->shard, notification->id)) {
        if (!notification->is_retry)
            find_end(session, notification->shard, notification->id, &notification->frame);
        cursor_advance(&after, notification->shard, notification->id);
    }
    begin_step(session, LOAD_PAIRS);
    session_mark(session, READY_ADVANCE);
}

/* ---- LOADING: losses */

/* The client has not received the notification, and it has expired. */
static bool
is_missed(const struct session *session, unsigned shard, struct entry_id id,
          const struct frame *frame, int64_t expires_us)
{
    const bool needs_ack = (frame->flags & FRAME_ACK_REQUIRED) != 0;

    return expires_us != 0 && expires_us <= clock_wall_us() &&
           (needs_ack || cursor_is_before(&session->cursor, shard, id)) &&
           session_is_recipient(session, frame) &&
           topics_match(session->topics, frame->as.notification.topic);
}

static bool
page_has_loss(const struct session *session, const struct store_page *page)
{
    for (size_t i = 0; i < page->count; i++) {
        const struct entry *entry = &page->entries[i];

        if (!entry->is_retry &&
            is_missed(session, entry->shard, entry->id, &entry->frame, entry->expires_us))
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
        if (!notification->is_retry && is_missed(session, notification->shard, notification->id,
                                                 &notification->frame, notification->expires_us))
            return true;
        cursor_advance(&after, notification->shard, notification->id);
    }
    return false;
}

static void
on_checked(void *ctx, enum rc rc, const struct store_page *page)
{
    struct session *session = ctx;
    struct session_resume *resume = &session->resume;
    const struct replay_buffer *buffer = &session->hub->replay_buffer;
    const unsigned own = session->client.own_shard;

    if (!step_page_arrived(session, LOAD_STREAM, rc, page))
        return;
    resume->checked_pages++;
    if (page->state == STORE_RANGE_UNKNOWN)
        begin_after_gap(session, "epoch");
    else if (session->is_poll || page->state != STORE_RANGE_WHOLE || page_has_loss(session, page))
        begin_delivery(session, session->is_poll && page->state == STORE_RANGE_WHOLE);
    else if (page->seen > 0)
        resume->checked = cursor_max(resume->checked, page->last);
    else /* the store has no more stream entries */
        begin_delivery(session,
                       !replay_buffer_has_loss(
                           session, cursor_max(resume->checked, replay_buffer_base(buffer, own))));
    /* Trimmed notifications are reported when the session reads the stream. */
}

/* Checks what follows the client's cursor. A poll reply does not report whether it was resumed. */
static void
check_stream(struct session *session)
{
    struct session_resume *resume = &session->resume;

    if (resume->is_missed)
        begin_delivery(session, false);
    else if (replay_buffer_covers(&session->hub->replay_buffer, session->client.own_shard,
                                  resume->checked))
        begin_delivery(session,
                       session->is_poll || !replay_buffer_has_loss(session, resume->checked));
    else if ((resume->checked_pages >= CHECKED_PAGES_MIN &&
              clock_monotonic_us() - session->client.attached_us >= SWITCH_US) ||
             (resume->checked_pages > 0 && session_budget_is_spent(session)))
        begin_delivery(session, false); /* too far behind to check */
    else
        session_read_range(session, resume->checked, session->is_poll ? 1 : SESSION_PAGE,
                           on_checked);
}

static void
on_ended_pairs(void *ctx, enum rc rc, const struct store_page *page)
{
    struct session *session = ctx;
    struct session_resume *resume = &session->resume;

    if (!step_page_arrived(session, LOAD_PAIRS, rc, page))
        return;
    resume->is_missed |= page->lost_count > 0 || page_has_loss(session, page);
    resume->checked = page->last;
    session->pending.deferral.by_stream |= page->lacks_ended;
    if (resume->is_missed || !page->has_more || page->lacks_ended)
        begin_step(session, LOAD_STREAM);
}

/* Checks the deferred notifications that another session acknowledged, or that ended otherwise. */
static void
check_ended_pairs(struct session *session)
{
    const struct cursor after = cursor_max(session->resume.checked, session->pending.deferral.from);
    const struct store_pending_part part = {
        .after = after,
        .last = session->cursor,
        .max = SESSION_PAGE,
        .has_received = true,
        .received = after,
        .ended_only = true,
    };

    session_read_pending(session, &part, on_ended_pairs);
}

void
session_load(struct session *session)
{
    enum rc rc = RC_OK;

    if (session->resume.pos == NULL) {
        session->cursor = session_head(session);
        ends_begin_new(session);
        begin_delivery(session, false);
        return;
    }
    if (session->resume.step == LOAD_POS)
        rc = read_client_pos(session);
    if (rc != RC_OK && rc != RC_AGAIN) {
        begin_after_gap(session, "epoch");
        return;
    }
    switch (session->resume.step) {
    case LOAD_POS:
        hub_repeat_later(session->hub);
        return;
    case LOAD_ENDS:
        find_ends(session);
        return;
    case LOAD_PAIRS:
        check_ended_pairs(session);
        return;
    case LOAD_STREAM:
        check_stream(session);
        return;
    }
}

/* ---- sessions that cannot start, because the store is unavailable */

#define WAIT_US (5 * INT64_C(1000000)) /* half of a client's time until `connected`, 10 s */
#define RECONNECT_MS 15000             /* maximum; the minimum is half */

static bool
is_unserved(const struct session *session, int64_t now_us)
{
    return session->state < SESSION_PENDING && now_us - session->client.attached_us >= WAIT_US &&
           !store_serves(session->hub->store, session->client.user);
}

void
unserved_sweep(struct hub *hub)
{
    const int64_t now_us = clock_monotonic_us();
    struct session *session, *next;

    if (store_replies(hub->store) && store_is_complete(hub->store))
        return;
    DL_FOREACH_SAFE (hub->sessions, session, next) {
        struct backoff reconnect = {.base_ms = RECONNECT_MS, .cap_ms = RECONNECT_MS};

        if (is_unserved(session, now_us))
            session->socket.transport->close(session->socket.handle, GATE_CLOSE_RESTART,
                                             "store is unavailable", backoff_next_ms(&reconnect));
    }
}
