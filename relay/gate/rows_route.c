/*
 * rows_route.c: GET /v1/rows: the rows that a live rule addresses to the user of the token; and
 * GET /v1/barrier: the cursor behind the notifications of a transaction. Both wait for PostgreSQL.
 */
#include "gate/routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "rows/rows.h"
#include "wire/client_message.h"
#include "wire/http_head.h"

#define GROUPS_MAX 65536           /* maximum bytes of a token's groups as JSON */
#define SNAPSHOT_ARGUMENT_MAX 8192 /* maximum bytes of a snapshot in the query */
#define POS_ARGUMENT_MAX 511       /* bytes of a cursor in a query */
#define XID_DIGITS_MAX 20
#define BAD_SNAPSHOT "\"snapshot\" must be xmin:xmax:xip,... of up to 8 kB"

static struct gate_rows *
rows_of(struct gate_request *request)
{
    return (struct gate_rows *)request->route_state;
}

/* The rows must contain every change of which the client may have been notified. */
static bool
on_accepts(void *ctx, const struct snapshot *snapshot)
{
    struct gate_request *request = ctx;

    return hub_accepts_snapshot(request->gate->hub, &rows_of(request)->reached, snapshot);
}

static void
respond_error(struct gate_request *request, enum rows_status status,
              const struct rows_result *result, int64_t after_ms)
{
    const struct rows_error *error = rows_error_of(status);
    const struct gate_rows *rows = rows_of(request);
    char text[ROWS_ERROR_TEXT_MAX];
    struct response response;

    response_problem(&response, error->http_status, error->code,
                     rows_error_text(status, result, rows->source, rows->rule, text));
    if (error->is_retryable)
        response_header(&response, "Retry-After: %lld", (long long)(after_ms + 999) / 1000);
    gate_request_respond(request, &response);
}

static void
on_done(void *ctx, enum rows_status status, const struct rows_result *result, int64_t after_ms)
{
    struct gate_request *request = ctx;
    struct response response;
    enum rc rc;

    if (request->state != GATE_REQUEST_WAITING)
        return;
    if (status != ROWS_OK) {
        respond_error(request, status, result, after_ms);
        return;
    }
    response_init(&response, 200, GATE_JSON);
    rc = rows_result_write(result, &response.body);
    rows_request_hold(rows_of(request)->request, response.body.len);
    gate_request_respond_whole(request, &response, rc);
}

static const struct rows_events EVENTS = {
    .accepts = on_accepts,
    .done = on_done,
};

/* Prefers the cursor in the query: it may come from a relay that is ahead of this relay. */
static struct hub_cursor
reached_by(const struct gate_request *request)
{
    struct hub_cursor reached;
    char *pos = NULL;

    if (http_head_argument(request->conn->head, "pos=", POS_ARGUMENT_MAX, &pos) != RC_OK)
        pos = NULL; /* like any invalid cursor */
    reached = hub_cursor_of(request->gate->hub, request->token.user, pos);
    free(pos);
    return reached;
}

static void
add_request(struct gate_request *request)
{
    struct gate_rows *rows = rows_of(request);
    struct rows_wanted wanted = {rows->source, rows->rule, request->token.user, NULL,
                                 rows->conditions};
    enum rows_status status = ROWS_FAILED;
    int64_t after_ms = 0;
    struct buffer groups;

    gate_request_set_state(request, GATE_REQUEST_WAITING);
    rows->reached = reached_by(request);
    buffer_init(&groups, GROUPS_MAX);
    if (token_write_groups(&request->token, &groups) == RC_OK) {
        wanted.groups = groups.bytes;
        status = rows_request_start(hub_rows(request->gate->hub), &wanted, &EVENTS, request,
                                    &rows->request, &after_ms);
    }
    buffer_free(&groups);
    /* The rows queue has separate limits: waiting queries must not block acks. */
    if (status == ROWS_OK)
        gate_request_uncount(request);
    else
        respond_error(request, status, NULL, after_ms);
}

/* Reports whether the client may use rows that it read elsewhere, with this snapshot. */
static void
respond_verdict(struct gate_request *request, const char *text)
{
    struct hub_cursor reached = reached_by(request);
    struct snapshot snapshot;
    struct response response;
    bool is_accepted;
    enum rc rc;

    if (snapshot_parse(text, strlen(text), &snapshot) != RC_OK) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, BAD_SNAPSHOT);
        return;
    }
    is_accepted = hub_accepts_snapshot(request->gate->hub, &reached, &snapshot);
    snapshot_free(&snapshot);
    response_init(&response, 200, GATE_JSON);
    rc = buffer_addf(&response.body, "{\"ok\":%s}\n", is_accepted ? "true" : "false");
    gate_request_respond_whole(request, &response, rc);
}

static bool
is_name(const char *text)
{
    size_t len = text != NULL ? strlen(text) : 0;
    size_t valid_len = 0;

    return len > 0 && utf8_is_prefix(text, len, &valid_len) && valid_len == len;
}

static enum rc
read_argument(struct gate_request *request, const char *field, bool has_snapshot,
              char error[WIRE_ERROR_MAX])
{
    char name[16];
    char *text = NULL;
    enum rc rc;

    snprintf(name, sizeof(name), "%s=", field);
    rc = http_head_argument(request->conn->head, name, ROWS_CONDITIONS_BYTES_MAX, &text);
    if (rc == RC_OK && text == NULL)
        return RC_OK;
    if (has_snapshot) {
        snprintf(error, WIRE_ERROR_MAX, "\"snapshot\" excludes \"%s\"", field);
        rc = RC_BAD;
    } else if (rc != RC_OK) {
        snprintf(error, WIRE_ERROR_MAX, "\"%s\" must be JSON of up to %d bytes", field,
                 ROWS_CONDITIONS_BYTES_MAX);
    } else {
        rc = rows_conditions_parse(&rows_of(request)->conditions, field, text, strlen(text), error);
    }
    free(text);
    return rc;
}

static enum rc
read_conditions(struct gate_request *request, bool has_snapshot, char error[WIRE_ERROR_MAX])
{
    const struct rows_conditions *conditions = &rows_of(request)->conditions;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < ROWS_CONDITIONS_COUNT && rc == RC_OK; i++)
        rc = read_argument(request, ROWS_CONDITIONS_FIELDS[i], has_snapshot, error);
    if (rc == RC_OK)
        rc = rows_conditions_check(conditions, error);
    return rc == RC_OK ? rows_conditions_check_limit(conditions,
                                                     request->gate->config->rows.max_rows, error)
                       : rc;
}

void
gate_rows_begin(struct gate_request *request)
{
    struct gate_rows *rows = rows_of(request);
    const struct http_head *head = request->conn->head;
    char error[WIRE_ERROR_MAX];
    char *snapshot = NULL;
    bool has_names =
        http_head_argument(head, "source=", CLIENT_MESSAGE_SOURCE_MAX, &rows->source) == RC_OK &&
        http_head_argument(head, "rule=", CLIENT_MESSAGE_RULE_MAX, &rows->rule) == RC_OK;

    if (rows->rule == NULL)
        rows->rule = memory_text("default", strlen("default"));
    if (!has_names || !is_name(rows->source) || !is_name(rows->rule))
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST,
                             "\"source\" and \"rule\" must be names of 1 to 255 bytes");
    else if (http_head_argument(head, "snapshot=", SNAPSHOT_ARGUMENT_MAX, &snapshot) != RC_OK)
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, BAD_SNAPSHOT);
    else if (read_conditions(request, snapshot != NULL, error) != RC_OK)
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, error);
    else if (snapshot != NULL)
        respond_verdict(request, snapshot);
    else
        add_request(request);
    free(snapshot);
}

void
gate_rows_free(struct gate_request *request)
{
    struct gate_rows *rows = rows_of(request);

    if (rows->request != NULL)
        rows_request_end(rows->request);
    free(rows->source);
    free(rows->rule);
    rows_conditions_free(&rows->conditions);
}

/* ---- barriers */

static struct gate_barrier *
barrier_of(struct gate_request *request)
{
    return (struct gate_barrier *)request->route_state;
}

static void
on_barrier(void *ctx, const struct barrier_result *result)
{
    struct gate_request *request = ctx;
    const struct barrier_error *error = result->error;
    struct response response;
    enum rc rc;

    barrier_of(request)->barrier = NULL;
    if (request->state != GATE_REQUEST_WAITING)
        return;
    if (error != NULL) {
        response_problem(&response, error->http_status, (enum gate_err)error->code, error->text);
        if (result->after_ms >= 0)
            response_header(&response, "Retry-After: %lld",
                            (long long)(result->after_ms + 999) / 1000);
        gate_request_respond(request, &response);
        return;
    }
    response_init(&response, 200, GATE_JSON);
    rc = buffer_addf(&response.body, "{\"pos\":\"%s\"%s}\n", result->pos,
                     !result->has_outcome   ? ""
                     : result->is_committed ? ",\"committed\":true"
                                            : ",\"committed\":false");
    gate_request_respond_whole(request, &response, rc);
}

/* Responds with the cursor behind the notifications of all visible transactions. */
void
gate_api_barrier(struct gate_request *request)
{
    struct gate_barrier *barrier = barrier_of(request);
    uint64_t xid = 0;
    char *x = NULL;

    if (http_head_argument(request->conn->head, "x=", XID_DIGITS_MAX, &x) != RC_OK ||
        (x != NULL && !client_message_parse_xid(x, strlen(x), &xid))) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST,
                             "\"x\" must be a transaction id, as a string of digits");
        free(x);
        return;
    }
    free(x);
    gate_request_set_state(request, GATE_REQUEST_WAITING);
    barrier->barrier =
        hub_barrier_start(request->gate->hub, request->token.user, xid, on_barrier, request);
    if (barrier->barrier != NULL)
        gate_request_uncount(request);
    else
        gate_request_problem(request, 503, GATE_ERR_RATE, "too many barriers");
}

void
gate_api_barrier_free(struct gate_request *request)
{
    hub_barrier_end(barrier_of(request)->barrier);
}
