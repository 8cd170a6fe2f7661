/*
 * barriers.c: replies behind the notifications of all transactions that were visible when they were
 * requested.
 */
#include "hub/hub_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/memory.h"
#include "rows/rows.h"
#include "wire/codes.h"

#define BARRIERS_MAX 65536
#define TICK_S 0.05
#define AFTER_BASE_MS 2000
#define SESSIONS_PER_TURN 256
#define REPLY_MAX 96

/*
 * POSITION: asks PostgreSQL for a WAL position behind the transactions. Next: STREAM, FAILED.
 *
 * STREAM: waits until the streams of the user cover the WAL up to the position. If they are of
 * another timeline, a failover is in progress. Next: SESSION; POSITION on another timeline; FAILED.
 *
 * SESSION: waits until the session has queued everything up to `cursor`, also what its in-flight
 * window held back. Over HTTP the barrier ends here. Next: FAILED.
 *
 * FAILED: ends with an error in the next turn, or after `connected`.
 */
enum barrier_state { BARRIER_POSITION, BARRIER_STREAM, BARRIER_SESSION, BARRIER_FAILED };

struct barrier {
    struct hub *hub;
    struct barrier *prev; /* links of hub->barriers.timed, except in FAILED */
    struct barrier *next;
    enum barrier_state state;
    struct barrier *state_prev; /* links of the list of the state; POSITION has none */
    struct barrier *state_next;
    struct session *session;      /* NULL: over HTTP */
    struct barrier *session_prev; /* links of session->control.barriers */
    struct barrier *session_next;
    int64_t request_id;
    hub_barrier_done *done; /* over HTTP */
    void *ctx;
    uint64_t xid;
    int64_t deadline_us;
    unsigned own;                          /* the user's shard */
    bool is_stale;                         /* in STREAM: the position is of another timeline */
    struct rows_position_request *request; /* in POSITION */
    struct rows_position position;
    struct cursor cursor;              /* in SESSION */
    const struct barrier_error *error; /* in FAILED */
};

static const struct barrier_error OFF = {GATE_ERR_INTERNAL, 500, "barriers need [rows] conninfo"},
                                  UNASSIGNED = {GATE_ERR_BAD_REQUEST, 400,
                                                "\"x\" is not the id of a transaction"},
                                  UNREADABLE = {GATE_ERR_INTERNAL, 500,
                                                "could not read the WAL position"},
                                  BUSY = {GATE_ERR_RATE, 503, "too many barriers"},
                                  LOST = {GATE_ERR_RATE, 503, "database does not reply"},
                                  RUNNING = {GATE_ERR_RATE, 503,
                                             "transaction has not ended within rows.timeout"},
                                  BEHIND = {GATE_ERR_RATE, 503,
                                            "notifications are behind by more than rows.timeout"};

/* ---- lists of barriers */

/* NULL: the state has none. */
static struct barrier **
list_of(const struct barrier *barrier)
{
    struct hub_barriers *barriers = &barrier->hub->barriers;

    switch (barrier->state) {
    case BARRIER_POSITION:
        return NULL;
    case BARRIER_STREAM:
        return &barriers->in_streams[barrier->own];
    case BARRIER_SESSION:
        return &barriers->in_sessions;
    case BARRIER_FAILED:
        return &barriers->failed;
    }
    return NULL;
}

static bool
precedes(const struct rows_position *a, const struct rows_position *b)
{
    return a->timeline != b->timeline ? a->timeline < b->timeline : a->lsn < b->lsn;
}

/* In STREAM, barriers are in the order of their positions, in which most of them arrive. */
static void
list_add(struct barrier *barrier)
{
    struct barrier **list = list_of(barrier);
    struct barrier *before = list != NULL && *list != NULL ? (*list)->state_prev : NULL;

    if (list == NULL)
        return;
    while (barrier->state == BARRIER_STREAM && before != NULL &&
           precedes(&barrier->position, &before->position))
        before = before == *list ? NULL : before->state_prev;
    DL_APPEND_ELEM2(*list, before, barrier, state_prev, state_next);
    barrier->hub->barriers.in_session_count += barrier->state == BARRIER_SESSION;
}

static void
list_remove(struct barrier *barrier)
{
    struct barrier **list = list_of(barrier);

    if (list == NULL)
        return;
    DL_DELETE2(*list, barrier, state_prev, state_next);
    barrier->hub->barriers.in_session_count -= barrier->state == BARRIER_SESSION;
}

static void
set_state(struct barrier *barrier, enum barrier_state state)
{
    list_remove(barrier);
    barrier->state = state;
    list_add(barrier);
}

/* ---- the end of a barrier */

void
hub_barrier_end(struct barrier *barrier)
{
    struct hub *hub;

    if (barrier == NULL)
        return;
    hub = barrier->hub;
    rows_position_end(barrier->request);
    list_remove(barrier);
    if (barrier->state != BARRIER_FAILED)
        DL_DELETE(hub->barriers.timed, barrier);
    if (barrier->session != NULL) {
        DL_DELETE2(barrier->session->control.barriers, barrier, session_prev, session_next);
        barrier->session->control.barrier_count--;
    } else if (--hub->followed[barrier->own].sessions == 0) {
        hub->followed[barrier->own].left_us = clock_monotonic_us();
    }
    stats_set(hub->stats, STAT_HUB_BARRIERS, --hub->barriers.count);
    if (hub->barriers.count == 0)
        ev_timer_stop(hub->loop, &hub->barriers.timer);
    free(barrier);
}

void
barriers_leave(struct session *session)
{
    while (session->control.barriers != NULL)
        hub_barrier_end(session->control.barriers);
}

static void
fail(struct barrier *barrier, const struct barrier_error *error)
{
    rows_position_end(barrier->request);
    barrier->request = NULL;
    barrier->error = error;
    DL_DELETE(barrier->hub->barriers.timed, barrier);
    set_state(barrier, BARRIER_FAILED);
    hub_mark(barrier->hub, HUB_BARRIERS);
}

static void
send_error(const struct barrier *barrier, const struct barrier_result *result)
{
    struct buffer frame;

    buffer_init(&frame, SESSION_CONTROL_MAX);
    if (error_frame_write(&frame, &(struct error_frame){.has_request_id = true,
                                                        .request_id = barrier->request_id,
                                                        .code = (enum gate_err)result->error->code,
                                                        .text = result->error->text,
                                                        .after_ms = result->after_ms}) == RC_OK)
        session_send_control(barrier->session, SESSION_LINE_CONTROL, frame.bytes, frame.len, NULL);
    buffer_free(&frame);
}

static void
queue_reply(const struct barrier *barrier, const struct barrier_result *result)
{
    char line[REPLY_MAX];
    int len;

    len =
        snprintf(line, sizeof(line), "{\"t\":\"barrier\",\"r\":%" PRId64 "%s}", barrier->request_id,
                 !result->has_outcome   ? ""
                 : result->is_committed ? ",\"committed\":true"
                                        : ",\"committed\":false");
    session_queue_line(barrier->session, line, (size_t)len);
}

/* Over HTTP, the callback may end this barrier only. */
static void
finish_barrier(struct barrier *barrier)
{
    const enum rows_outcome outcome = barrier->position.outcome;
    struct barrier_result result = {.error = barrier->error,
                                    .after_ms = -1,
                                    .has_outcome = outcome != ROWS_OUTCOME_NONE,
                                    .is_committed = outcome == ROWS_OUTCOME_COMMITTED};
    struct backoff spread = {.base_ms = AFTER_BASE_MS, .cap_ms = AFTER_BASE_MS};
    struct entry_id heads[STORE_SHARDS_MAX];
    hub_barrier_done *done = barrier->done;
    void *ctx = barrier->ctx;
    char pos[CLIENT_POS_MAX];

    if (result.error != NULL && result.error->code == GATE_ERR_RATE)
        result.after_ms = backoff_next_ms(&spread);
    if (barrier->session == NULL) {
        cursor_to_heads(barrier->cursor, barrier->own, heads, barrier->hub->shards);
        client_pos_text(barrier->hub->epoch, heads, barrier->hub->shards, NULL, pos);
        result.pos = pos;
    } else if (result.error != NULL) {
        send_error(barrier, &result);
    } else {
        queue_reply(barrier, &result);
    }
    hub_barrier_end(barrier);
    if (done != NULL)
        done(ctx, &result);
}

/* ---- POSITION */

static void
on_position(void *ctx, enum rows_status status, const struct rows_position *position)
{
    struct barrier *barrier = ctx;

    barrier->request = NULL;
    if (status != ROWS_OK) {
        fail(barrier, &UNREADABLE);
        return;
    }
    barrier->position = *position;
    if (position->outcome == ROWS_OUTCOME_UNASSIGNED) {
        fail(barrier, &UNASSIGNED);
        return;
    }
    set_state(barrier, BARRIER_STREAM);
    hub_mark(barrier->hub, HUB_BARRIERS);
}

static void
request_position(struct barrier *barrier)
{
    set_state(barrier, BARRIER_POSITION);
    barrier->is_stale = false;
    barrier->request = rows_position_start(barrier->hub->rows, barrier->xid, on_position, barrier);
    if (barrier->request == NULL)
        fail(barrier, barrier->hub->rows == NULL ? &OFF : &BUSY);
}

static struct barrier *
barrier_new(struct hub *hub, uint64_t xid, unsigned own)
{
    struct barrier *barrier;

    if (hub->barriers.count >= BARRIERS_MAX)
        return NULL;
    barrier = memory_new(sizeof(*barrier));
    barrier->hub = hub;
    barrier->xid = xid;
    barrier->own = own;
    barrier->deadline_us = clock_monotonic_us() + hub->config->rows.timeout_ms * 1000;
    DL_APPEND(hub->barriers.timed, barrier);
    stats_set(hub->stats, STAT_HUB_BARRIERS, ++hub->barriers.count);
    if (!ev_is_active(&hub->barriers.timer))
        ev_timer_again(hub->loop, &hub->barriers.timer);
    return barrier;
}

bool
session_barrier(struct session *session, uint64_t xid, int64_t request_id)
{
    struct barrier *barrier;

    if (session->control.barrier_count >= SESSION_BARRIERS_MAX)
        return false;
    barrier = barrier_new(session->hub, xid, session->client.own_shard);
    if (barrier == NULL)
        return false;
    DL_APPEND2(session->control.barriers, barrier, session_prev, session_next);
    session->control.barrier_count++;
    barrier->session = session;
    barrier->request_id = request_id;
    request_position(barrier);
    return true;
}

struct barrier *
hub_barrier_start(struct hub *hub, const char *user, uint64_t xid, hub_barrier_done *done,
                  void *ctx)
{
    const unsigned own = store_shard_of(hub->store, user);
    struct barrier *barrier = barrier_new(hub, xid, own);

    if (barrier == NULL)
        return NULL;
    barrier->done = done;
    barrier->ctx = ctx;
    hub->followed[own].sessions++;
    if (hub->reader != NULL)
        reader_follow(hub->reader, own);
    request_position(barrier);
    return barrier;
}

/* ---- STREAM, SESSION */

/* Whether a shard's stream was read up to the position. */
static bool
is_covered(struct barrier *barrier, unsigned shard)
{
    const struct reader_covered *covered = &barrier->hub->covered[shard];

    if (covered->lsn != 0 && covered->timeline != barrier->position.timeline)
        barrier->is_stale = barrier->hub->barriers.has_stale = true;
    return covered->lsn >= barrier->position.lsn && covered->timeline == barrier->position.timeline;
}

/* Everything up to the cursor is queued, retries included. */
static bool
has_queued(const struct session *session, struct cursor cursor)
{
    return (session->state == SESSION_STREAM || session->state == SESSION_LIVE) &&
           cursor_reaches(session_reached(session), cursor) &&
           session_is_complete_to(session, cursor) && !session->pending.is_rewound &&
           session->pending.query_count == 0 && !session_is_full(session);
}

/* Nothing is sent before `connected`. */
static bool
is_loading(const struct session *session)
{
    return session != NULL && session->state < SESSION_PENDING;
}

/* True if the barrier has ended. The gap of what load shedding dropped precedes the reply. */
static bool
finish_in_session(struct barrier *barrier)
{
    struct session *session = barrier->session;

    if (session != NULL) {
        if (!has_queued(session, barrier->cursor))
            return false;
        (void)session_announce_shed(session);
        if (session_has_gap(session))
            return false; /* the control queue is full */
    }
    finish_barrier(barrier);
    return true;
}

static void
advance_in_stream(struct hub *hub, unsigned own)
{
    struct barrier *barrier, *next;

    if (hub->reader != NULL && !reader_follows(hub->reader, own))
        return;
    DL_FOREACH_SAFE2(hub->barriers.in_streams[own], barrier, next, state_next)
    {
        if (is_covered(barrier, 0) && is_covered(barrier, own)) {
            barrier->cursor = replay_buffer_head(&hub->replay_buffer, own);
            set_state(barrier, BARRIER_SESSION);
            (void)finish_in_session(barrier);
        } else if (!barrier->is_stale) {
            return; /* the others are behind it */
        }
    }
}

/* Those that still wait are the last ones of the next turns. */
static void
advance_in_sessions(struct hub *hub)
{
    struct hub_barriers *barriers = &hub->barriers;
    unsigned left = barriers->in_session_count;

    if (left > SESSIONS_PER_TURN && !barriers->is_due)
        left = SESSIONS_PER_TURN;
    barriers->is_due = false;
    for (; left > 0; left--) {
        struct barrier *barrier = barriers->in_sessions;

        if (!finish_in_session(barrier))
            set_state(barrier, BARRIER_SESSION);
    }
}

void
barriers_advance(struct hub *hub)
{
    struct barrier *barrier, *next;

    for (unsigned own = 0; own < hub->shards; own++) {
        if (hub->barriers.in_streams[own] != NULL)
            advance_in_stream(hub, own);
    }
    advance_in_sessions(hub);
    DL_FOREACH_SAFE2(hub->barriers.failed, barrier, next, state_next)
    {
        if (!is_loading(barrier->session))
            finish_barrier(barrier);
    }
}

/* ---- time */

static void
expire(struct barrier *barrier)
{
    if (barrier->state != BARRIER_POSITION)
        fail(barrier, &BEHIND);
    else
        fail(barrier, rows_position_wait(barrier->request) == ROWS_BUSY ? &RUNNING : &LOST);
}

/* Positions of another timeline are requested again. */
static void
renew_stale(struct hub *hub)
{
    struct barrier *barrier, *next;

    if (!hub->barriers.has_stale)
        return;
    hub->barriers.has_stale = false;
    for (unsigned own = 0; own < hub->shards; own++) {
        DL_FOREACH_SAFE2(hub->barriers.in_streams[own], barrier, next, state_next)
        {
            if (barrier->is_stale)
                request_position(barrier);
        }
    }
}

static void
on_tick(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct hub *hub = timer->data;
    const int64_t now_us = clock_monotonic_us();

    (void)loop;
    (void)events;
    while (hub->barriers.timed != NULL && now_us >= hub->barriers.timed->deadline_us)
        expire(hub->barriers.timed);
    renew_stale(hub);
    hub->barriers.is_due = true;
    hub_mark(hub, HUB_BARRIERS);
}

void
barriers_open(struct hub *hub)
{
    ev_init(&hub->barriers.timer, on_tick);
    hub->barriers.timer.repeat = TICK_S;
    hub->barriers.timer.data = hub;
}

void
barriers_stop(struct hub *hub)
{
    while (hub->barriers.timed != NULL)
        hub_barrier_end(hub->barriers.timed);
    while (hub->barriers.failed != NULL)
        hub_barrier_end(hub->barriers.failed);
    ev_timer_stop(hub->loop, &hub->barriers.timer);
}
