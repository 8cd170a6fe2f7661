/* why_route.c: GET /v1/notifications/ID/why, and which traces a token may read. */
#include "gate/routes.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "hub/hub.h"
#include "store/admin.h"
#include "wire/http_head.h"
#include "wire/token.h"

/* For an id that it does not know, the store searches thousands of stream entries. */
#define TRACES_MAX 4
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

/* The request of a trace that is being read. */
struct trace_read {
    struct gate *gate;
    struct store_request *store_request;
};

struct trace_read *
gate_trace_begin(struct gate_request *request)
{
    struct trace_read *read;

    if (request->gate->trace_count == TRACES_MAX) {
        gate_request_problem(request, 503, 0, "too many traces are being read");
        return NULL;
    }
    request->gate->trace_count++;
    read = memory_new(sizeof(*read));
    *read = (struct trace_read){request->gate, store_request_new(request)};
    return read;
}

void
gate_trace_sent(struct trace_read *read, enum rc rc)
{
    if (rc != RC_OK)
        (void)gate_trace_reply(read, rc, NULL);
}

struct gate_request *
gate_trace_reply(struct trace_read *read, enum rc rc, const struct trace *trace)
{
    struct gate_request *request = store_request_done(read->store_request);

    read->gate->trace_count--;
    free(read);
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

static struct gate_why *
why_of(struct gate_request *request)
{
    return (struct gate_why *)request->route_state;
}

static void
on_explained(void *ctx, enum rc rc, const struct trace *trace)
{
    struct gate_request *request = gate_trace_reply(ctx, rc, trace);
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
    struct trace_read *read;
    char *user = NULL;
    enum rc rc = http_head_argument(request->conn->head, "user=", TOKEN_USER_MAX, &user);

    why_of(request)->user = user;
    if (rc != RC_OK || user == NULL || user[0] == '\0') {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST,
                             "\"user\" must have 1 to 255 bytes");
        return;
    }
    read = gate_trace_begin(request);
    if (read != NULL)
        gate_trace_sent(read, store_trace_of_user(hub_store(request->gate->hub), request->id, user,
                                                  on_explained, read));
}

void
gate_why_free(struct gate_request *request)
{
    free(why_of(request)->user);
}
