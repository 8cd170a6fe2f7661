/*
 * live_rows.c: the rows of live rules: the lists that a client has, its requests for them, and
 * reloads.
 */
#include "hub/live_rows.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/memory.h"
#include "hub/hub_private.h"
#include "rows/rows.h"
#include "wire/audience_name.h"
#include "wire/codes.h"

/* ---- lists */

bool
lists_have_frames(const struct session *session)
{
    return session->control.lists != NULL && session->control.lists->has_frames &&
           session->state >= SESSION_PENDING;
}

static void
mark_frames(struct session *session)
{
    session->control.lists->has_frames = true;
    if (!lists_have_frames(session))
        return; /* frames are sent after `connected` */
    session->has_control = true;
    session_mark(session, READY_SEND);
}

static struct session_list *
find_list(const struct session_lists *lists, const char *source, const char *rule)
{
    struct session_list *list;

    DL_FOREACH (lists->lists, list) {
        if (strcmp(list->source, source) == 0 && strcmp(list->rule, rule) == 0)
            return list;
    }
    return NULL;
}

static struct session_list *
add_list(struct session_lists *lists, const char *source, const char *rule)
{
    struct session_list *list = memory_new(sizeof(*list));

    list->source = memory_text(source, strlen(source));
    list->rule = memory_text(rule, strlen(rule));
    DL_APPEND(lists->lists, list);
    return list;
}

static void
free_list(struct session_lists *lists, struct session_list *list)
{
    DL_DELETE(lists->lists, list);
    free(list->source);
    free(list->rule);
    free(list->audience);
    free(list);
}

static struct session_lists *
lists_of(struct session *session)
{
    struct session_lists *lists = session->control.lists;

    if (lists == NULL) {
        lists = session->control.lists = memory_new(sizeof(*lists));
        lists->session = session;
        DL_APPEND(session->hub->lists, lists);
    }
    return lists;
}

struct list_request *
lists_request(struct session *session, const char *source, const char *rule, int64_t request_id)
{
    struct session_lists *lists = lists_of(session);
    struct list_request *request;
    struct session_list *list;

    if (lists->request_count >= SESSION_LIST_REQUESTS_MAX)
        return NULL;
    lists->request_count++;
    list = find_list(lists, source, rule);
    if (list == NULL)
        list = add_list(lists, source, rule);
    list->pending++;
    request = memory_new(sizeof(*request));
    request->session = session;
    request->list = list;
    request->request_id = request_id;
    DL_APPEND(lists->waiting, request);
    return request;
}

/* Frees the oldest unverified list if there are too many. */
static void
limit_unverified(struct session_lists *lists)
{
    struct session_list *list, *oldest = NULL;
    unsigned count = 0;

    DL_FOREACH (lists->lists, list) {
        if (list->is_unverified && list->pending == 0 && count++ == 0)
            oldest = list;
    }
    if (count > SESSION_UNVERIFIED_LISTS_MAX)
        free_list(lists, oldest);
}

void
session_watch_rows(struct session *session, const char *source, const char *rule)
{
    struct session_lists *lists = lists_of(session);

    if (find_list(lists, source, rule) != NULL)
        return;
    add_list(lists, source, rule)->is_unverified = true;
    limit_unverified(lists);
}

void
lists_rows_received(void *ctx, enum rows_status status, const struct rows_result *result,
                    int64_t after_ms)
{
    struct list_request *request = ctx;
    struct session_lists *lists = request->session->control.lists;
    struct session_list *list = request->list;

    request->status = status;
    request->result = result;
    request->after_ms = after_ms;
    if (status == ROWS_OK) {
        free(list->audience);
        list->audience = memory_text(result->header.audience, strlen(result->header.audience));
    }
    if (status == ROWS_OK && list->pending == 1 && !list->is_partial) {
        /* the result contains the change */
        if (list->reload == LIST_RELOAD_DUE)
            list->reload = LIST_RELOAD_NONE;
        if (list->rule_reload == LIST_RELOAD_DUE)
            list->rule_reload = LIST_RELOAD_NONE;
    }
    DL_DELETE(lists->waiting, request);
    DL_APPEND(lists->sending, request);
    mark_frames(request->session);
}

/* ---- reload */

/* Whether the rows depend on groups of this kind. NULL: of any kind. */
static bool
depends_on(const struct session_list *list, const struct bytes *kind)
{
    if (list->audience == NULL)
        return true; /* the audience is not known yet */
    if (audience_is_reserved(list->audience))
        return false;
    return kind == NULL || audience_has_part(list->audience, *kind);
}

static void
require_reload(struct session *session, struct session_list *list, enum list_reload *reload,
               bool is_known)
{
    const enum list_reload required = is_known ? LIST_RELOAD_DUE : LIST_RELOAD_CERTAIN;

    if (*reload < required)
        *reload = required;
    list->is_announced = false;
    mark_frames(session);
}

void
lists_reload(struct session *session, const struct bytes *kind, bool is_known)
{
    struct session_list *list;

    if (session->control.lists == NULL)
        return;
    DL_FOREACH (session->control.lists->lists, list) {
        if (depends_on(list, kind))
            require_reload(session, list, &list->reload, is_known);
    }
}

void
lists_reload_rule(struct session *session, const struct list_name *name, bool is_known)
{
    struct session_list *list;

    if (session->control.lists == NULL)
        return;
    DL_FOREACH (session->control.lists->lists, list) {
        if (name == NULL)
            require_reload(session, list, &list->reload, is_known);
        else if ((!list->is_denied || list->pending > 0) &&
                 bytes_equal_text(name->source, list->source) &&
                 (name->rule.len == 0 || bytes_equal_text(name->rule, list->rule)))
            require_reload(session, list, &list->rule_reload, is_known);
    }
}

/* Whether rows are being sent. A pending reload reports a change that they may lack. */
static bool
is_sending_rows(const struct session_lists *lists, const struct session_list *list)
{
    const struct list_request *request;

    DL_FOREACH (lists->sending, request) {
        if (request->list == list && request->status == ROWS_OK)
            return true;
    }
    return false;
}

/* No request waits for a result that may contain the change, or whose error is sent first. */
static bool
may_repeat(const struct session_lists *lists, const struct session_list *list)
{
    return list->pending == 0 || is_sending_rows(lists, list);
}

/* The client may have other rows of the list than those of a request that waits. */
static bool
must_announce(const struct session_list *list)
{
    return list->audience != NULL && !list->is_announced;
}

/*
 * The reload is sent before notifications of later changes, which a client must not apply to
 * outdated rows. If a request waits, it is sent
 * again before outdated rows of that request, and after its error, because the client repeats its
 * request only after a `reload`.
 */
static struct session_list *
find_reload(const struct session_lists *lists)
{
    struct session_list *list;

    DL_FOREACH (lists->lists, list) {
        if ((list->reload != LIST_RELOAD_NONE || list->rule_reload != LIST_RELOAD_NONE) &&
            (must_announce(list) || may_repeat(lists, list)))
            return list;
    }
    return NULL;
}

bool
lists_have_reload(const struct session *session)
{
    return lists_have_frames(session) && find_reload(session->control.lists) != NULL;
}

static enum rc
write_reload(const struct session_list *list, struct buffer *out)
{
    enum rc rc = buffer_addf(out, "{\"t\":\"reload\",\"source\":");

    if (rc == RC_OK)
        rc = buffer_add_json(out, list->source, strlen(list->source));
    if (rc == RC_OK)
        rc = buffer_addf(out, ",\"rule\":");
    if (rc == RC_OK)
        rc = buffer_add_json(out, list->rule, strlen(list->rule));
    return rc == RC_OK ? buffer_add(out, "}", 1) : rc;
}

/* ---- frames */

static enum rc
write_result(struct list_request *request, struct buffer *out)
{
    const struct rows_error *error;
    char text[ROWS_ERROR_TEXT_MAX];

    if (request->status == ROWS_OK)
        return rows_result_write_page(request->result, request->next_row, request->request_id, out,
                                      &request->page_end);
    error = rows_error_of(request->status);
    return error_frame_write(
        out, &(struct error_frame){.has_request_id = true,
                                   .request_id = request->request_id,
                                   .code = error->code,
                                   .text = rows_error_text(request->status, request->result,
                                                           request->list->source,
                                                           request->list->rule, text),
                                   .after_ms = error->is_retryable ? request->after_ms : -1});
}

bool
lists_write_frame(struct session *session, struct buffer *out)
{
    struct session_lists *lists = session->control.lists;
    const struct session_list *list = find_reload(lists);
    enum rc rc;

    lists->has_frames = list != NULL || lists->sending != NULL;
    if (!lists->has_frames)
        return false;
    rc = list != NULL ? write_reload(list, out) : write_result(lists->sending, out);
    if (rc != RC_OK)
        abort(); /* the buffer has room for the longest row */
    return true;
}

/* Called when no request of the list is pending, after the last one. */
static void
settle_list(struct session_lists *lists, struct session_list *list,
            const struct list_request *request)
{
    const enum rows_status last = request->status;
    const bool is_of_condition =
        last == ROWS_INVALID || (last == ROWS_DENIED && request->result != NULL);

    /* the error of a condition does not concern other rows of the list */
    if (is_of_condition && (list->audience != NULL || list->is_unverified))
        return;
    list->is_unverified = list->is_denied = last == ROWS_DENIED;
    if (list->is_denied) {
        list->rule_reload = LIST_RELOAD_NONE;
        free(list->audience); /* after the next allowed request, the rule may be a different rule */
        list->audience = NULL;
        limit_unverified(lists);
    } else if (list->audience == NULL && last != ROWS_TOO_MANY) {
        /* A client without rows of the list repeats its request by itself, except then. */
        free_list(lists, list);
    }
}

static void
end_request(struct session_lists *lists, struct list_request *request)
{
    struct session_list *list = request->list;

    list->pending--;
    if (list->pending == 0)
        settle_list(lists, list, request);
    DL_DELETE(lists->sending, request);
    lists->request_count--;
    if (request->request != NULL)
        rows_request_end(request->request);
    free(request);
}

void
lists_frame_sent(struct session *session)
{
    struct session_lists *lists = session->control.lists;
    struct session_list *list = find_reload(lists);
    struct list_request *request = lists->sending;

    if (list != NULL) {
        list->is_announced = !may_repeat(lists, list);
        if (!list->is_announced)
            list->reload = list->rule_reload = LIST_RELOAD_NONE;
        return;
    }
    request->next_row = request->page_end;
    if (request->status != ROWS_OK || request->next_row == request->result->count)
        end_request(lists, request);
}

void
lists_free(struct session *session)
{
    struct session_lists *lists = session->control.lists;

    if (lists == NULL)
        return;
    DL_CONCAT(lists->sending, lists->waiting);
    while (lists->sending != NULL)
        end_request(lists, lists->sending);
    while (lists->lists != NULL)
        free_list(lists, lists->lists);
    DL_DELETE(session->hub->lists, lists);
    free(lists);
    session->control.lists = NULL;
}

/* ---- requests */

#define GROUPS_JSON_MAX 65536

static bool
contains_all(const struct hub *hub, struct cursor cursor, unsigned own,
             const struct snapshot *snapshot)
{
    /* A client may have resumed with a cursor from a relay that has read further. */
    return cursor_reaches(replay_buffer_head(&hub->replay_buffer, own), cursor) &&
           recent_xids_are_in(&hub->recent_xids, cursor, own, snapshot, clock_wall_us());
}

/* A session has no cursor before PENDING: its client has not received `connected`. */
static bool
has_cursor(const struct session *session)
{
    return session->state >= SESSION_PENDING;
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

static const struct rows_events ROWS_EVENTS = {
    .accepts = on_accepts,
    .done = lists_rows_received,
};

static enum rows_status
add_request(struct list_request *request, const struct rows_conditions *conditions,
            int64_t *ret_after_ms)
{
    const struct session *session = request->session;
    struct rows_wanted wanted = {request->list->source, request->list->rule, session->client.user,
                                 NULL, *conditions};
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
                     const struct rows_conditions *conditions, int64_t request_id)
{
    struct list_request *request = lists_request(session, source, rule, request_id);
    int64_t after_ms = 0;
    enum rows_status status;

    if (request == NULL)
        return false;
    request->list->is_partial |= rows_conditions_exist(conditions);
    record_cursor(request);
    status = add_request(request, conditions, &after_ms);
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
