/*
 * trace_routes.c: what became of a notification: GET /v1/notifications/ID, the same with /why, and
 * GET /v1/receipts; and which traces a token may read.
 */
#include "gate/routes.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "hub/hub.h"
#include "store/admin.h"
#include "store/store.h"
#include "wire/frame.h"
#include "wire/http_head.h"
#include "wire/token.h"

/* For an id that it does not know, the store searches thousands of stream entries. */
#define TRACES_MAX 4
#define RECEIPTS_LIMIT 100
#define NOT_ALLOWED "token claim \"publish\" does not allow this audience and topic"

static char *
text_of(struct bytes bytes)
{
    return memory_text((const char *)bytes.at, bytes.len);
}

/* Of a notification without header, the audience and topic are not known any more. */
static bool
may_read(const struct token *token, const struct trace *trace)
{
    const struct frame_notification *notification;
    struct frame frame;
    char *audience, *topic;
    bool is_allowed;

    if (token->admin || (token->publish && token->publish_limits == NULL))
        return true;
    if (frame_parse_header(trace->route, &frame) != RC_OK)
        return false;
    notification = &frame.as.notification;
    audience = text_of(notification->audience);
    topic = text_of(notification->topic);
    is_allowed = token_may_publish(token, audience, topic);
    free(audience);
    free(topic);
    return is_allowed;
}

/* Traces that are being read. The store may reply after the gate is closed. */
static unsigned trace_count;

/* NULL: too many are being read, and a response is queued. */
static struct store_request *
trace_begin(struct gate_request *request)
{
    if (trace_count == TRACES_MAX) {
        gate_request_problem(request, 503, 0, "too many traces are being read");
        return NULL;
    }
    trace_count++;
    return store_request_new(request);
}

/*
 * Call it in the store_traced. NULL: the client has disconnected, or the notification is unknown,
 * or the token may not read it; then a response is queued.
 */
static struct gate_request *
trace_reply(struct store_request *read, enum rc rc, const struct trace *trace)
{
    struct gate_request *request = store_request_done(read);

    trace_count--;
    if (request == NULL)
        return NULL;
    if (rc != RC_OK && !store_is_complete(hub_store(request->gate->hub)))
        gate_request_problem(request, 503, 0, "not found, and a part of the store is unavailable");
    else if (rc != RC_OK)
        gate_request_no_store(request);
    else if (trace_is_empty(trace))
        gate_request_problem(request, 404, 0, "no such notification");
    else if (!may_read(&request->token, trace))
        gate_request_problem(request, 403, GATE_ERR_PERMISSION, NOT_ALLOWED);
    else
        return request;
    return NULL;
}

/* Call it with the result of the store's function. */
static void
trace_sent(struct store_request *read, enum rc rc)
{
    if (rc != RC_OK)
        (void)trace_reply(read, rc, NULL);
}

static void
on_trace_read(void *ctx, enum rc rc, const struct trace *trace)
{
    struct gate_request *request = trace_reply(ctx, rc, trace);
    struct response response;

    if (request == NULL)
        return;
    response_init(&response, 200, GATE_JSON);
    rc = trace_write_json(trace, request->id, &response.body);
    gate_request_respond_whole(request, &response, rc);
}

void
gate_trace(struct gate_request *request)
{
    struct store_request *read = trace_begin(request);

    if (read != NULL)
        trace_sent(read, store_trace(hub_store(request->gate->hub), STORE_SHARD_UNKNOWN,
                                     request->id, on_trace_read, read));
}

/* ---- one user */

static struct gate_why *
why_of(struct gate_request *request)
{
    return (struct gate_why *)request->route_state;
}

static void
on_explained(void *ctx, enum rc rc, const struct trace *trace)
{
    struct gate_request *request = trace_reply(ctx, rc, trace);
    struct response response;
    struct trace allowed;

    if (request == NULL)
        return;
    allowed = *trace;
    if (!request->token.admin && request->token.publish_limits != NULL)
        allowed.facts.relays = -1; /* the user of the request may be any user */
    response_init(&response, 200, GATE_JSON);
    rc = why_write_json(&allowed, request->id, why_of(request)->user, &response.body);
    gate_request_respond_whole(request, &response, rc);
}

void
gate_why(struct gate_request *request)
{
    struct store_request *read;
    char *user = NULL;
    enum rc rc = http_head_argument(request->conn->head, "user=", TOKEN_USER_MAX, &user);

    why_of(request)->user = user;
    if (rc != RC_OK || user == NULL || user[0] == '\0') {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST,
                             "\"user\" must have 1 to 255 bytes");
        return;
    }
    read = trace_begin(request);
    if (read != NULL)
        trace_sent(read, store_trace_of_user(hub_store(request->gate->hub), request->id, user,
                                             on_explained, read));
}

void
gate_why_free(struct gate_request *request)
{
    free(why_of(request)->user);
}

/* ---- receipts */

static void
on_receipts(void *ctx, enum rc rc, struct buffer *json)
{
    struct gate_request *request = store_request_reply(ctx, rc);
    struct response response;

    if (request == NULL)
        return;
    response_init(&response, 200, GATE_JSON);
    rc = buffer_add(&response.body, json->bytes, json->len);
    gate_request_respond_whole(request, &response, rc);
}

/* `id` NULL: of any notification */
static void
read_receipts(struct gate_request *request, const char *id, unsigned limit)
{
    struct store_request *store_request = store_request_new(request);
    char *after = NULL;
    enum rc rc = http_head_argument(request->conn->head, "after=", STORE_RECEIPTS_CURSOR_MAX,
                                    &after) == RC_OK
                     ? store_receipts(hub_store(request->gate->hub), after != NULL ? after : "",
                                      request->token.admin ? NULL : request->token.user, id, limit,
                                      on_receipts, store_request)
                     : RC_BAD;

    if (rc == RC_BAD) {
        (void)store_request_done(store_request);
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, "after: invalid cursor");
    } else {
        store_request_sent(store_request, rc);
    }
    free(after);
}

void
gate_api_receipts(struct gate_request *request)
{
    const unsigned limit = gate_request_limit(request, RECEIPTS_LIMIT, STORE_RECEIPTS_MAX);

    if (limit == 0)
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST,
                             "limit: expected a number from 1 to 1000");
    else
        read_receipts(request, NULL, limit);
}

/* The console shows the receipts of one notification. */
void
gate_console_receipts(struct gate_request *request)
{
    char id[FRAME_UUID_TEXT + 1];
    char *text = NULL;

    if (http_head_argument(request->conn->head, "id=", FRAME_UUID_TEXT, &text) == RC_OK &&
        text != NULL && frame_uuid_parse(text, strlen(text), id))
        read_receipts(request, id, RECEIPTS_LIMIT);
    else
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, "\"id\" must be a UUID");
    free(text);
}
