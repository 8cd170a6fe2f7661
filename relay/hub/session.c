/* session.c: a session's life, what it is offered, and what its user acks. */
#include "hub/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"
#include "hub/hub_private.h"

static struct pool sessions = {.size = sizeof(struct session)};

void
session_set_state(struct session *session, enum session_state state)
{
    static const unsigned before[] = {
        [SESSION_GROUPING] = 0,
        [SESSION_CHECKING] = 1u << SESSION_GROUPING,
        [SESSION_INBOX] = 1u << SESSION_CHECKING | 1u << SESSION_CATCHING_UP,
        [SESSION_CATCHING_UP] = 1u << SESSION_INBOX | 1u << SESSION_LIVE,
        [SESSION_LIVE] = 1u << SESSION_CATCHING_UP,
        [SESSION_CLOSED] = ~(1u << SESSION_CLOSED),
    };

    if ((before[state] & 1u << session->state) == 0)
        abort();
    session->state = state;
}

const char *
session_name(const struct session *session)
{
    return session->client.name;
}

/* A user's name may hold anything; a log line's `who` may not. */
static char *
make_name(struct session *session)
{
    char name[SESSION_NAME_MAX];
    int len =
        snprintf(name, sizeof(name), "conn=%x-%llx user=%s", (unsigned)getpid(),
                 (unsigned long long)++session->hub->session_count_ever, session->client.user);

    for (char *at = strstr(name, " user=") + 6; at < name + len && *at; at++) {
        if (*at <= ' ' || *at == '"' || *at == '\\' || *at == 0x7f)
            *at = '_';
    }
    return memory_text(name, strlen(name));
}

struct bytes
session_conn(const struct session *session)
{
    const char *conn = session->client.name + strlen("conn=");

    return (struct bytes){(const unsigned char *)conn, strcspn(conn, " ")};
}

static void
join(struct session *session, const char *kind, const char *target)
{
    char key[AUDIENCE_KEY_MAX];
    size_t len;
    struct bytes kind_bytes = {(const unsigned char *)kind, strlen(kind)};
    struct bytes target_bytes = {(const unsigned char *)target, strlen(target)};

    if (audience_key(kind_bytes, target_bytes, key, &len))
        audience_join(&session->hub->audiences, &session->groups.memberships, session, key, len,
                      false);
}

struct session *
hub_attach(struct hub *hub, const struct session_request *request,
           const struct session_transport *transport, void *socket)
{
    struct session *session = pool_take(&sessions);
    int most = hub->config->delivery.window;

    session->hub = hub;
    session->socket.transport = transport;
    session->socket.handle = socket;
    session->client.user = memory_text(request->user, strlen(request->user));
    session->client.own_shard = (unsigned char)store_shard_of(hub->store, request->user);
    if (request->pos != NULL && request->pos[0] != '\0') /* an empty one is none */
        session->resume.pos = memory_text(request->pos, strlen(request->pos));
    session->client.expires_s = request->expires_s;
    session->client.request_id = request->request_id;
    session->client.has_request_id = request->has_request_id;
    session->is_poll = request->is_poll;
    session->inflight.size = request->window > 0 && request->window < most ? request->window : most;
    buffer_init(&session->control.lines, SESSION_SAID_MAX);
    session->client.name = make_name(session);
    if (request->topics.count > 0 &&
        topics_add(&session->topics, request->topics.names, request->topics.count) != RC_OK)
        log_errorf(session->client.name, "more topics than fit a session: all are shown");
    session->has_topics = session->topics != NULL;
    DL_APPEND(hub->sessions, session);
    audience_join(&hub->audiences, &session->groups.memberships, session, AUDIENCE_ALL,
                  sizeof(AUDIENCE_ALL) - 1, false);
    if (hub_user_sessions(hub, session->client.user) == 0)
        here_arrived(hub, session->client.user);
    join(session, "USER", request->user);
    for (size_t i = 0; i < request->group_count; i++) {
        /* A token speaks of groups; who the user is, and ALL, are not its to give. */
        if (strcmp(request->groups[i].audience, "USER") != 0)
            join(session, request->groups[i].audience, request->groups[i].target);
    }
    session_step(session);
    return session;
}

void
session_free_if_done(struct session *session)
{
    if (session->state != SESSION_CLOSED || session->requests.count > 0 || session->is_waking)
        return;
    free(session->client.user);
    free(session->client.name);
    free(session->resume.pos);
    topics_free(session->topics);
    inflight_free(&session->inflight);
    inbox_end(&session->inbox);
    backlog_free(session);
    row_order_free(session);
    buffer_free(&session->control.lines);
    pool_give(&sessions, session);
}

void
session_detach(struct session *session)
{
    struct hub *hub = session->hub;

    session_set_state(session, SESSION_CLOSED);
    resume_leave(session);
    hub->deferred_count -= inbox_is_deferred(&session->inbox) ? 1 : 0;
    audience_leave_all(&hub->audiences, &session->groups.memberships, false);
    if (hub_user_sessions(hub, session->client.user) == 0)
        here_left(hub, session->client.user);
    DL_DELETE(hub->sessions, session);
    session_drop_queue(session);
    session_free_if_done(session);
}

/* Places. */

struct cursor
session_head(const struct session *session)
{
    return recent_head(&session->hub->recent, session->client.own_shard);
}

/* A live session was offered all there is, whether it was for it or not. */
struct cursor
session_reached(const struct session *session)
{
    return session->state == SESSION_LIVE ? cursor_max(session->cursor, session_head(session))
                                          : session->cursor;
}

struct note *
session_note(const struct session *session, const struct entry *entry, struct cursor cursor)
{
    struct entry_id pos[STORE_SHARDS_MAX];

    cursor_to_heads(cursor, session->client.own_shard, pos, session->hub->shards);
    return hub_note(session->hub, entry, pos);
}

struct note *
session_note_at(const struct session *session, const struct note *note, struct cursor cursor,
                const struct note *overtaken)
{
    struct entry_id pos[STORE_SHARDS_MAX];

    cursor_to_heads(cursor, session->client.own_shard, pos, note->shards);
    return note_new_at(note, session->hub->epoch, pos, backlog_told(session, cursor, overtaken));
}

void
session_pos_text(const struct session *session, struct cursor cursor, char ret_text[NOTE_POS_MAX])
{
    struct entry_id pos[STORE_SHARDS_MAX];

    cursor_to_heads(cursor, session->client.own_shard, pos, session->hub->shards);
    note_pos_text(session->hub->epoch, pos, session->hub->shards,
                  backlog_told(session, cursor, session_first_queued(session)), ret_text);
}

/* What goes in. */

static bool
is_new(const struct session *session, const struct note *note)
{
    return cursor_is_before(&session->cursor, note->shard, note->id);
}

/* A gap, in front of the next frame. */
static void
tell_later(struct session *session, struct cursor from, const char *why)
{
    session->control.lost_from =
        session->control.lost_why != NULL ? cursor_min(session->control.lost_from, from) : from;
    session->control.lost_why = why;
    session->has_said = true;
    session_wake(session);
}

/* It expired before it was queued: what is new of it is told as a gap. */
static void
lose(struct session *session, const struct note *note)
{
    if (!note->is_retry && is_new(session, note)) /* else shown before, or told by the error log */
        tell_later(session, session->cursor, "expired");
}

void
session_tell_lost(struct session *session)
{
    const char *why = session->control.lost_why;

    if (why == NULL)
        return;
    session->control.lost_why = NULL;
    session_gap(session, session->control.lost_from, session_reached(session), why);
}

/*
 * A poll goes on from its last line, and is shown all: what would send it back tells a place of its
 * own instead.
 */
static void
queue(struct session *session, struct note *note)
{
    struct cursor cursor = session->cursor;
    struct note *moved;

    if (!session->is_poll || cursor_reaches(note_told(note, session->client.own_shard), cursor)) {
        session_queue(session, note);
        return;
    }
    if (!note->is_retry)
        cursor_advance(&cursor, note->shard, note->id);
    moved = session_note_at(session, note, cursor, NULL);
    session_queue(session, moved);
    note_unref(moved);
}

static void
enqueue(struct session *session, struct note *note,
        bool (*enter)(struct session *session, struct note *note))
{
    if (note_is_expired(note))
        lose(session, note);
    else if (!session->is_poll && shed_takes(session->hub, note))
        session_shed(session, note);
    else if (!note->needs_ack || enter(session, note))
        queue(session, note);
}

/* What of it is hidden and waits for an ack goes on waiting. */
static bool
is_hidden(const struct session *session, const struct note *note)
{
    return !topics_show(session->topics, note->frame.as.note.topic);
}

void
session_enqueue(struct session *session, struct note *note)
{
    if (is_hidden(session, note))
        window_hide(session, note);
    else
        enqueue(session, note, window_enter);
}

void
session_enqueue_owed(struct session *session, struct note *note)
{
    if (is_hidden(session, note))
        window_hide_owed(session, note);
    else
        enqueue(session, note, window_enter_owed);
}

void
session_give_unowed(struct session *session, struct note *note)
{
    if (session->state == SESSION_CLOSED || !session_is_for(session, &note->frame) ||
        is_hidden(session, note))
        return;
    if (session->outbound.count >= OUTBOUND_MAX)
        session_tell_missed(session, note, "shed");
    else
        session_queue(session, note);
}

/* A slow reader costs its queue and no more: it pulls the rest later. */
void
session_pause(struct session *session)
{
    if (session->state != SESSION_LIVE)
        return;
    session->cursor = session_reached(session); /* before what is offered */
    session_set_state(session, SESSION_CATCHING_UP);
}

void
session_offer(struct session *session, struct note *note)
{
    if (session->state == SESSION_CATCHING_UP && session->is_blocked)
        session_passed(session, note->line_len);
    if (session->state != SESSION_LIVE || !is_new(session, note))
        return;
    if (session_is_full(session)) {
        session_passed(session, note->line_len);
        session_pause(session);
        return;
    }
    session_enqueue(session, note);
    cursor_advance(&session->cursor, note->shard, note->id);
}

void
session_offer_run(struct hub *hub, struct session *session, struct run *run)
{
    const struct note *first = run->notes[0];

    if (session->state == SESSION_LIVE && is_new(session, first) && !run_is_stale(run)) {
        if ((session->has_topics && !topics_show(session->topics, first->frame.as.note.topic)) ||
            session_queue_run(hub, session, run)) {
            *cursor_in(&session->cursor, first->shard) = run->notes[run->count - 1]->id;
            return;
        }
    }
    for (unsigned i = 0; i < run->count; i++)
        session_offer(session, run->notes[i]);
}

void
session_offer_again(struct session *session, struct note *note)
{
    if (session->state < SESSION_INBOX)
        return; /* the inbox, read later, has it */
    window_miss(session, note);
    if (session->state == SESSION_LIVE && !session_is_full(session)) {
        session_enqueue(session, note);
        cursor_advance(&session->cursor, note->shard, note->id);
        return;
    }
    inbox_miss(&session->inbox);
    window_defer(session);
}

static bool
is_for_parts(const struct session *session, const struct frame_note *note)
{
    struct bytes targets = note->targets;
    struct bytes target;

    while (frame_next_target(&targets, &target) == RC_OK) {
        if (audience_has_parts(session->groups.memberships, note->audience, target))
            return true;
    }
    return false;
}

bool
session_is_for(const struct session *session, const struct frame *frame)
{
    const struct frame_note *note = &frame->as.note;
    struct bytes targets = note->targets;
    struct bytes target;
    char key[AUDIENCE_KEY_MAX];
    size_t len;

    if (audience_is_all(note->audience))
        return true;
    if (audience_is_composite(note->audience))
        return is_for_parts(session, note);
    while (frame_next_target(&targets, &target) == RC_OK) {
        if (audience_key(note->audience, target, key, &len) &&
            audience_has(session->groups.memberships, key, len))
            return true;
    }
    return false;
}

static void
count_gap(struct stats *stats, const char *why)
{
    static const struct {
        const char *why;
        enum metric stat;
    } gaps[] = {{"trimmed", STAT_HUB_GAPS_TRIMMED},
                {"expired", STAT_HUB_GAPS_EXPIRED},
                {"epoch", STAT_HUB_GAPS_EPOCH},
                {"shed", STAT_HUB_GAPS_SHED}};

    for (size_t i = 0; i < sizeof(gaps) / sizeof(gaps[0]); i++)
        if (strcmp(gaps[i].why, why) == 0)
            stats_add(stats, gaps[i].stat, 1);
}

void
session_say_gap(struct session *session, struct cursor from, struct cursor to, const char *why)
{
    char from_text[NOTE_POS_MAX], to_text[NOTE_POS_MAX], line[3 * NOTE_POS_MAX];
    int len;

    session_pos_text(session, from, from_text);
    session_pos_text(session, to, to_text);
    len =
        snprintf(line, sizeof(line), "{\"t\":\"gap\",\"from\":\"%s\",\"to\":\"%s\",\"why\":\"%s\"}",
                 from_text, to_text, why);
    if (!session_can_say(session, (size_t)len)) {
        tell_later(session, from, why);
        return;
    }
    count_gap(session->hub->stats, why);
    session_say(session, line, (size_t)len);
}

void
session_gap(struct session *session, struct cursor from, struct cursor to, const char *why)
{
    to = session_before_queue(session, session->control.has_shed ? shed_cursor(session, to) : to);
    session_say_gap(session, cursor_min(to, from), to, why);
}

struct cursor
session_cursor_behind(const struct session *session, const struct note *note)
{
    struct cursor cursor = note_told(note, session->client.own_shard);

    cursor_advance(&cursor, note->shard, note->id); /* a line may tell less */
    return cursor;
}

void
session_tell_missed(struct session *session, const struct note *note, const char *why)
{
    struct cursor cursor = session_cursor_behind(session, note);

    session_gap(session, cursor, cursor, why);
}

_Static_assert(SESSION_POS_MAX == NOTE_POS_MAX, "a position, to others than the hub");

bool
session_pos(const struct session *session, char ret_pos[SESSION_POS_MAX])
{
    if (session->state != SESSION_LIVE || !session_is_idle(session) || session->has_said)
        return false;
    session_pos_text(session, session_reached(session), ret_pos);
    return true;
}
