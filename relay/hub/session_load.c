/* session_load.c: from a connection to live delivery: memberships, position, inbox, catching up. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "hub/hub_private.h"

#define CLOSE_RESTART 4201

bool
session_answered(struct session *session, enum rc rc)
{
    session->requests.count--;
    if (session->state == SESSION_CLOSED) {
        session_free_if_done(session);
        return false;
    }
    if (rc == RC_OK) {
        session->requests.has_failed = false;
        return true;
    }
    /* Perhaps the store is just going down, which is known a moment later: not at once for good. */
    if (session->requests.has_failed && store_is_up(session->hub->store))
        session->socket.transport->close(session->socket.handle, CLOSE_RESTART,
                                         "the store did not answer");
    session->requests.has_failed = true;
    hub_retry(session->hub);
    return false;
}

void
session_await(struct session *session, enum rc asked)
{
    session->requests.is_awaited = asked == RC_OK;
    session->requests.count += asked == RC_OK;
}

/* GROUPING */

/* What waits for an ack of who was of this audience before may be shown again. */
static void
look_again(struct session *session)
{
    inbox_miss(&session->inbox);
    window_defer(session);
    session_refill(session, false);
}

void
session_join(struct session *session, const char *key, size_t len)
{
    audience_join(&session->hub->audiences, &session->groups.memberships, session, key, len, true);
    look_again(session);
}

static bool
gains(const struct session *session, const struct bytes *groups, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!audience_is_granted(session->groups.memberships, (const char *)groups[i].at,
                                 groups[i].len))
            return true;
    }
    return false;
}

static void
take_groups(struct session *session, const struct bytes *groups, size_t count)
{
    struct hub *hub = session->hub;

    audience_leave_all(&hub->audiences, &session->groups.memberships, true);
    for (size_t i = 0; i < count; i++) {
        if (groups[i].len > 0 && groups[i].len < AUDIENCE_KEY_MAX)
            audience_join(&hub->audiences, &session->groups.memberships, session,
                          (const char *)groups[i].at, groups[i].len, true);
    }
}

static void
on_groups(void *ctx, enum rc rc, const struct bytes *groups, size_t count)
{
    struct session *session = ctx;

    session->requests.is_awaited = false;
    if (!session_answered(session, rc))
        return;
    if (session->groups.state != GROUPS_STALE) {
        take_groups(session, groups, count);
        session_set_state(session, SESSION_CHECKING);
    }
    session->groups.state = GROUPS_CURRENT;
    session_step(session);
}

static void
on_regrouped(void *ctx, enum rc rc, const struct bytes *groups, size_t count)
{
    struct session *session = ctx;
    bool was_stale = session->groups.state == GROUPS_STALE;
    bool has_gained;

    session->groups.state = rc == RC_OK ? GROUPS_CURRENT : GROUPS_WANTED;
    if (!session_answered(session, rc))
        return;
    has_gained = gains(session, groups, count);
    take_groups(session, groups, count);
    if (was_stale)
        session_regroup(session);
    if (has_gained)
        look_again(session);
    session_step(session);
}

bool
session_awaits_groups(const struct session *session)
{
    return session->state == SESSION_GROUPING || session->groups.state == GROUPS_ASKED ||
           session->groups.state == GROUPS_STALE;
}

void
session_regroup(struct session *session)
{
    if (session_awaits_groups(session)) {
        session->groups.state = GROUPS_STALE;
        return;
    }
    session->groups.state = GROUPS_WANTED;
    if (store_groups(session->hub->store, session->client.user, on_regrouped, session) != RC_OK)
        return; /* session_step comes here when the store is back */
    session->groups.state = GROUPS_ASKED;
    session->requests.count++;
}

/* Nothing is judged by memberships that may be those of before. */
static bool
waits_for_groups(const struct session *session)
{
    return session->groups.state != GROUPS_CURRENT;
}

/* INBOX */

/* What is never retried has no time to run out: only its place tells that it was shown. */
static bool
is_new_to_poll(const struct session *session, const struct entry *entry)
{
    bool is_retried = (entry->frame.flags & FRAME_RETRY_ENABLED) != 0;

    return is_retried || cursor_is_before(&session->resume.began_at, entry->shard, entry->id) ||
           backlog_has(session, entry->shard, entry->score);
}

/* A retry, perhaps for others, of what the catching up has among its neighbours. */
static bool
comes_in_order(const struct session *session, const struct entry *entry)
{
    struct cursor cursor = session->cursor;

    return entry->is_retry && !session->resume.is_caught_up &&
           entry->score > entry_id_score(*cursor_in(&cursor, entry->shard));
}

static void
on_inbox(void *ctx, enum rc rc, const struct store_page *page)
{
    struct session *session = ctx;

    session->requests.is_awaited = false;
    if (!session_answered(session, rc) || waits_for_groups(session))
        return;
    for (size_t i = 0; i < page->count; i++) {
        const struct entry *entry = &page->entries[i];
        struct note *note;

        if (inbox_is_reconciling(&session->inbox))
            inflight_confirm(&session->inflight, entry->frame.as.note.id);
        if (!session_is_for(session, &entry->frame))
            continue; /* still owed by this user, who has left the audience */
        if (!entry->is_retry && cursor_is_before(&session->cursor, entry->shard, entry->id))
            continue; /* comes with the catching up, which leaves copies out */
        if (session->resume.is_continued && !is_new_to_poll(session, entry))
            continue;
        if (comes_in_order(session, entry)) {
            inbox_miss(&session->inbox); /* if it is gone there, it is found later */
            continue;
        }
        note = session_note(session, entry, shed_cursor(session, session->cursor));
        session_enqueue_owed(session, note);
        note_unref(note);
    }
    snprintf(session->inbox.at, sizeof(session->inbox.at), "%s", page->next);
    if (page->next[0] == '\0') { /* the whole inbox was seen */
        window_drop_refuted(session);
        if (!inbox_is_deferred(&session->inbox))
            backlog_lose(session);
    }
    if (page->next[0] == '\0' ||
        (inbox_is_deferred(&session->inbox) && !inbox_is_reconciling(&session->inbox))) {
        session->inbox.has_unread = session->inbox.has_refused || page->next[0] != '\0';
        inbox_end(&session->inbox);
        session_set_state(session, SESSION_CATCHING_UP);
    }
    session_step(session);
}

/* CATCHING_UP */

static void
catch_up_from_page(struct session *session, const struct store_page *page)
{
    for (size_t i = 0; i < page->count && !session_is_full(session); i++) {
        const struct entry *entry = &page->entries[i];
        struct cursor cursor = session->cursor;

        cursor_advance(&cursor, entry->shard, entry->id);
        if (!entry->is_retry && session_is_for(session, &entry->frame)) {
            struct note *note = session_note(session, entry, shed_cursor(session, cursor));
            session_enqueue(session, note);
            note_unref(note);
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

    resume_answered(session);
    session->requests.is_awaited = false;
    if (!session_answered(session, rc) || waits_for_groups(session))
        return;
    if (page->seen > 0)
        session->cursor = cursor_max(from, page->first);
    catch_up_from_page(session, page);
    if (page->seen == 0) /* nothing left in the store: all that is missing will come live */
        session->cursor = cursor_max(session->cursor,
                                     recent_base(&session->hub->recent, session->client.own_shard));
    if (page->state == STORE_RANGE_TRIMMED)
        session_gap(session, from, session->cursor, "trimmed");
    session_step(session);
}

static void
catch_up_from_recent(struct session *session)
{
    const struct recent *recent = &session->hub->recent;
    struct note *note;

    while ((note = recent_next(recent, session->client.own_shard, session->cursor)) != NULL) {
        if (session_is_full(session))
            return;
        if (!note->is_retry && session_is_for(session, &note->frame))
            session_enqueue(session, note);
        cursor_advance(&session->cursor, note->shard, note->id);
    }
    session_set_state(session, SESSION_LIVE);
    session->resume.is_caught_up = true;
    if (inbox_has_missed(&session->inbox))
        window_defer(session);
    session_refill(session, false); /* acks and retries that came meanwhile */
}

static void
catch_up(struct session *session)
{
    struct hub *hub = session->hub;

    if (session_is_full(session) || waits_for_groups(session))
        return; /* send_some, or on_regrouped, comes back here */
    if (recent_goes_on(&hub->recent, session->client.own_shard, session->cursor))
        catch_up_from_recent(session);
    else
        resume_range(session, session->cursor, SESSION_PAGE, on_caught_up);
}

void
session_step(struct session *session)
{
    struct hub *hub = session->hub;

    if (session->groups.state == GROUPS_WANTED && store_is_up(hub->store))
        session_regroup(session);
    if (session->requests.is_awaited || !hub->has_position)
        return;
    switch (session->state) {
    case SESSION_GROUPING:
        session_await(session, store_groups(hub->store, session->client.user, on_groups, session));
        return;
    case SESSION_CHECKING:
        session_check(session);
        if (!session->requests.is_awaited && session->state != SESSION_CHECKING)
            session_step(session);
        return;
    case SESSION_INBOX:
        if (!waits_for_groups(session) &&
            session->outbound.count + session->inbox.held_count + SESSION_PAGE <= OUTBOUND_MAX &&
            !session_is_full(session))
            session_await(session, store_inbox(hub->store, session->client.user, session->inbox.at,
                                               SESSION_PAGE, session->resume.is_continued, on_inbox,
                                               session));
        return;
    case SESSION_CATCHING_UP:
        catch_up(session);
        return;
    case SESSION_LIVE:
    case SESSION_CLOSED:
        return;
    }
}

void
session_change_epoch(struct session *session)
{
    const struct cursor head = session_head(session);

    if (session->state == SESSION_GROUPING || session->state == SESSION_CHECKING)
        return; /* will look at its position with the new epoch in hand */
    backlog_forget(session);
    row_order_free(session);
    session_say_gap(session, head, head, "epoch"); /* what still waits has no place any more */
    session->cursor = head;
    session_doubt(session);
}
