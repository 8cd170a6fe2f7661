/* live_rows.c: requests the rows of live rules, and decides which snapshots a client accepts. */
#include "hub/live_rows.h"

#include "base/clock.h"
#include "base/log.h"
#include "hub/client_pos.h"
#include "hub/hub_state.h"
#include "hub/lists.h"
#include "hub/cursors.h"
#include "rows/rows.h"

#define GROUPS_JSON_MAX 65536

static bool
contains_all(const struct hub *hub, struct cursor cursor, unsigned own,
             const struct snapshot *snapshot)
{
    /* A client may have resumed with a cursor from a relay that has read further. */
    return cursor_reaches(replay_buffer_head(&hub->replay_buffer, own), cursor) &&
           recent_xids_are_in(&hub->recent_xids, cursor, own, snapshot, clock_wall_us());
}

/* A session has no cursor before INBOX: its client has not received `connected`. */
static bool
has_cursor(const struct session *session)
{
    return session->state >= SESSION_PENDING;
}

void
session_watch_rows(struct session *session, const char *source, const char *rule)
{
    lists_add_own(session, source, rule);
}

bool
session_accepts_snapshot(struct session *session, const char *source, const char *rule,
                         const struct snapshot *snapshot)
{
    session_watch_rows(session, source, rule);
    return has_cursor(session) && contains_all(session->hub, session_reached(session),
                                               session->client.own_shard, snapshot);
}

static void
record_cursor(struct list_request *request)
{
    if (request->has_cursor || !has_cursor(request->session))
        return;
    request->cursor = session_reached(request->session);
    request->has_cursor = true;
}

/*
 * The rows may lack changes between the request and its result: the client receives their
 * notifications, and applies them.
 */
static bool
on_accepts(void *ctx, const struct snapshot *snapshot)
{
    struct list_request *request = ctx;
    const struct session *session = request->session;

    record_cursor(request);
    return request->has_cursor &&
           contains_all(session->hub, request->cursor, session->client.own_shard, snapshot);
}

static void
on_rows(void *ctx, enum rows_status status, const struct rows_result *result, int64_t after_ms)
{
    lists_rows_received(ctx, status, result, after_ms);
}

static const struct rows_events ROWS_EVENTS = {
    .accepts = on_accepts,
    .done = on_rows,
};

static enum rows_status
add_request(struct list_request *request, int64_t *ret_after_ms)
{
    const struct session *session = request->session;
    struct rows_wanted wanted = {request->list->source, request->list->rule, session->client.user,
                                 NULL};
    enum rows_status status = ROWS_FAILED;
    struct buffer groups;

    buffer_init(&groups, GROUPS_JSON_MAX);
    if (groups_write_token(&session->groups, &groups) == RC_OK) {
        wanted.groups = groups.bytes;
        status = rows_request_start(session->hub->rows, &wanted, &ROWS_EVENTS, request,
                                    &request->request, ret_after_ms);
    }
    buffer_free(&groups);
    return status;
}

bool
session_request_rows(struct session *session, const char *source, const char *rule,
                     int64_t request_id)
{
    struct list_request *request = lists_request(session, source, rule, request_id);
    int64_t after_ms = 0;
    enum rows_status status;

    if (request == NULL)
        return false;
    record_cursor(request);
    status = add_request(request, &after_ms);
    if (status != ROWS_OK)
        lists_rows_received(request, status, NULL, after_ms);
    return true;
}

struct hub_cursor
hub_cursor_of(const struct hub *hub, const char *user, const char *pos)
{
    unsigned own = store_shard_of(hub->store, user);
    struct hub_cursor reached = {.is_known = hub->has_head,
                                 .own_shard = own,
                                 .cursor = replay_buffer_head(&hub->replay_buffer, own)};
    struct cursor cursor;
    struct deferral deferral;

    if (pos != NULL &&
        client_pos_read(pos, hub->epoch, hub->shards, own, &cursor, &deferral) == RC_OK)
        reached.cursor = cursor;
    return reached;
}

bool
hub_accepts_snapshot(const struct hub *hub, const struct hub_cursor *reached,
                     const struct snapshot *snapshot)
{
    return reached->is_known && contains_all(hub, reached->cursor, reached->own_shard, snapshot);
}

struct rows *
hub_rows(const struct hub *hub)
{
    return hub->rows;
}
