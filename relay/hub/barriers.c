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
#define REPLY_MAX 96

/*
 * POSITION: asks PostgreSQL for a WAL position behind the transactions. Next: STREAM, FAILED.
 *
 * STREAM: waits until the streams of the user cover the WAL up to the position. If they are of
 * another timeline, a failover is in progress. Next: SESSION; POSITION on another timeline.
 *
 * SESSION: waits until the session has queued everything up to `cursor`, also what its in-flight
 * window held back. Over HTTP the barrier ends here.
 *
 * FAILED: ends with an error in the next turn, or after `connected`.
 */
enum barrier_state { BARRIER_POSITION, BARRIER_STREAM, BARRIER_SESSION, BARRIER_FAILED };

struct barrier {
    struct hub *hub;
    struct barrier *prev;
    struct barrier *next;
    enum barrier_state state;
    struct session *session; /* NULL: over HTTP */
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
                                  BUSY = {GATE_ERR_RATE, 503, "too many barriers"},
                                  LOST = {GATE_ERR_RATE, 503, "database does not reply"},
                                  RUNNING = {GATE_ERR_RATE, 503,
                                             "transaction has not ended within rows.timeout"},
                                  BEHIND = {GATE_ERR_RATE, 503,
                                            "notifications are behind by more than rows.timeout"};

/* ---- the end of a barrier */

static void
set_state(struct barrier *barrier, enum barrier_state state)
{
    struct hub *hub = barrier->hub;

    hub->barriers_in_sessions += state == BARRIER_SESSION;
    hub->barriers_in_sessions -= barrier->state == BARRIER_SESSION;
    barrier->state = state;
}

void
hub_barrier_end(struct barrier *barrier)
{
    struct hub *hub;

    if (barrier == NULL)
        return;
    hub = barrier->hub;
    set_state(barrier, BARRIER_FAILED);
    rows_position_end(barrier->request);
    if (barrier->session != NULL)
        barrier->session->control.barriers--;
    else if (--hub->followed[barrier->own].sessions == 0)
        hub->followed[barrier->own].left_us = clock_monotonic_us();
    DL_DELETE(hub->barriers, barrier);
    stats_set(hub->stats, STAT_HUB_BARRIERS, --hub->barrier_count);
    if (hub->barriers == NULL)
        ev_timer_stop(hub->loop, &hub->barrier_timer);
    free(barrier);
}

void
barriers_leave(struct session *session)
{
    struct barrier *barrier, *next;

    if (session->control.barriers == 0)
        return;
    DL_FOREACH_SAFE (session->hub->barriers, barrier, next) {
        if (barrier->session == session)
            hub_barrier_end(barrier);
    }
}

static void
fail(struct barrier *barrier, const struct barrier_error *error)
{
    barrier->error = error;
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
finish(struct barrier *barrier)
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
        fail(barrier, status == ROWS_LOST || barrier->xid == 0 ? &LOST : &RUNNING);
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
    barrier->request = rows_position_start(barrier->hub->rows, barrier->xid, barrier->deadline_us,
                                           on_position, barrier);
    if (barrier->request == NULL)
        fail(barrier, barrier->hub->rows == NULL ? &OFF : &BUSY);
}

static struct barrier *
barrier_new(struct hub *hub, uint64_t xid, unsigned own)
{
    struct barrier *barrier;

    if (hub->barrier_count >= BARRIERS_MAX)
        return NULL;
    barrier = memory_new(sizeof(*barrier));
    barrier->hub = hub;
    barrier->xid = xid;
    barrier->own = own;
    barrier->deadline_us = clock_monotonic_us() + hub->config->rows.timeout_ms * 1000;
    DL_APPEND(hub->barriers, barrier);
    stats_set(hub->stats, STAT_HUB_BARRIERS, ++hub->barrier_count);
    if (!ev_is_active(&hub->barrier_timer))
        ev_timer_again(hub->loop, &hub->barrier_timer);
    return barrier;
}

bool
session_barrier(struct session *session, uint64_t xid, int64_t request_id)
{
    struct barrier *barrier;

    if (session->control.barriers >= SESSION_BARRIERS_MAX)
        return false;
    barrier = barrier_new(session->hub, xid, session->client.own_shard);
    if (barrier == NULL)
        return false;
    session->control.barriers++;
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
        barrier->is_stale = true;
    return covered->lsn >= barrier->position.lsn && covered->timeline == barrier->position.timeline;
}

/*
 * Everything up to the cursor is queued. In LOADING and PENDING, the session reads notifications
 * from before its cursor.
 */
static bool
has_queued(const struct session *session, struct cursor cursor)
{
    const struct session_pending *pending = &session->pending;

    return (session->state == SESSION_STREAM || session->state == SESSION_LIVE) &&
           cursor_reaches(session_reached(session), cursor) && !pending->is_rewound &&
           pending->held_count == 0 &&
           (!session->has_deferral || cursor_reaches(pending->deferral.from, cursor)) &&
           !session_is_full(session);
}

/* Nothing is sent before `connected`. */
static bool
is_loading(const struct session *session)
{
    return session != NULL && session->state < SESSION_PENDING;
}

static void
advance(struct barrier *barrier)
{
    struct hub *hub = barrier->hub;

    if (barrier->state == BARRIER_STREAM && is_covered(barrier, 0) &&
        is_covered(barrier, barrier->own) &&
        (hub->reader == NULL || reader_follows(hub->reader, barrier->own))) {
        barrier->cursor = replay_buffer_head(&hub->replay_buffer, barrier->own);
        set_state(barrier, BARRIER_SESSION);
    }
    if ((barrier->state == BARRIER_FAILED && !is_loading(barrier->session)) ||
        (barrier->state == BARRIER_SESSION &&
         (barrier->session == NULL || has_queued(barrier->session, barrier->cursor))))
        finish(barrier);
}

void
barriers_advance(struct hub *hub)
{
    struct barrier *barrier, *next;

    DL_FOREACH_SAFE (hub->barriers, barrier, next)
        advance(barrier);
}

/* ---- time */

static void
on_tick(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct hub *hub = timer->data;
    const int64_t now_us = clock_monotonic_us();
    struct barrier *barrier;

    (void)loop;
    (void)events;
    DL_FOREACH (hub->barriers, barrier) {
        if (barrier->state == BARRIER_FAILED)
            hub_mark(hub, HUB_BARRIERS);
        if (barrier->state == BARRIER_FAILED || barrier->state == BARRIER_POSITION)
            continue;
        if (now_us >= barrier->deadline_us)
            fail(barrier, &BEHIND);
        else if (barrier->state == BARRIER_STREAM && barrier->is_stale)
            request_position(barrier);
    }
}

void
barriers_open(struct hub *hub)
{
    ev_init(&hub->barrier_timer, on_tick);
    hub->barrier_timer.repeat = TICK_S;
    hub->barrier_timer.data = hub;
}

void
barriers_stop(struct hub *hub)
{
    while (hub->barriers != NULL)
        hub_barrier_end(hub->barriers);
    ev_timer_stop(hub->loop, &hub->barrier_timer);
}
