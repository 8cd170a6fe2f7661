/*
 * operator_routes.c: what operators do over HTTP, apart from cut-offs: dropping a notification,
 * removing a user, switching real-time delivery; and GET /v1/audit, which returns their acts.
 */
#include "gate/routes.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "gate/gate.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "hub/hub.h"
#include "store/admin.h"
#include "wire/client_message.h"
#include "wire/http_head.h"

/* ---- acts */

/* The store rejects a range after the last possible id. */
static bool
is_cursor(const char *text)
{
    struct entry_id entry;

    return entry_id_read(text, strlen(text), &entry) == RC_OK &&
           (entry.ms != UINT64_MAX || entry.seq != UINT64_MAX);
}

static void
on_audit(void *ctx, enum rc rc, struct buffer *json, const char *next)
{
    struct gate_request *request = store_request_reply(ctx, rc);
    struct response response;

    if (request == NULL)
        return;
    response_init(&response, 200, GATE_JSON);
    response_header(&response, "Clairon-Next: %s", next);
    rc = buffer_add(&response.body, json->bytes, json->len);
    gate_request_respond_whole(request, &response, rc);
}

void
gate_audit(struct gate_request *request)
{
    char *after = NULL;
    enum rc rc = http_head_argument(request->conn->head, "after=", ENTRY_ID_TEXT_MAX, &after);
    const unsigned limit = gate_request_limit(request, AUDIT_PAGE_MAX, AUDIT_PAGE_MAX);
    struct store_request *store_request;

    if (limit == 0) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST,
                             "limit: expected a number from 1 to 1000");
    } else if (rc != RC_OK || (after != NULL && after[0] != '\0' && !is_cursor(after))) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, "after: invalid cursor");
    } else {
        store_request = store_request_new(request);
        store_request_sent(store_request, store_audit_read(hub_store(request->gate->hub),
                                                           after != NULL ? after : "", limit,
                                                           on_audit, store_request));
    }
    free(after);
}

/* ---- the removal of a user */

static void
on_forgotten(void *ctx, enum rc rc, const struct store_forgotten *forgotten)
{
    struct gate_request *request = store_request_reply(ctx, rc);
    struct response response;

    if (request == NULL)
        return;
    response_init(&response, 200, GATE_JSON);
    rc = store_forgotten_write(forgotten, &response.body);
    gate_request_respond_whole(request, &response, rc);
}

/* It continues if the client disconnects. */
void
gate_forget(struct gate_request *request)
{
    const char *user = ((struct gate_user *)request->route_state)->name;
    struct store_request *store_request;

    if (user == NULL) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, GATE_BAD_USER);
        return;
    }
    log_audit_act(&(struct log_act){request->token.user, "forget", "", user, ""});
    store_request = store_request_new(request);
    store_request_sent(store_request, store_forget(hub_store(request->gate->hub), user,
                                                   on_forgotten, store_request));
}

/* ---- dropping a notification */

static void
on_dropped(void *ctx, enum rc rc, bool is_known)
{
    struct gate_request *request = store_request_reply(ctx, rc);

    if (request == NULL)
        return;
    if (!is_known)
        gate_request_problem(request, 404, 0, "no such notification, or it needs no ack");
    else
        gate_request_respond_empty(request);
}

/* The drop continues if the client disconnects. */
void
gate_api_drop(struct gate_request *request)
{
    struct store_request *store_request = store_request_new(request);

    log_audit(request->token.user, "drop", request->id);
    store_request_sent(store_request, store_drop_pairs(hub_store(request->gate->hub), request->id,
                                                       on_dropped, store_request));
}

/* ---- real-time delivery */

void
gate_api_realtime(struct gate_request *request)
{
    char error[CLIENT_MESSAGE_ERROR_MAX];
    bool on = true;

    if (client_message_parse_switch(request->body.bytes, request->body.len, &on, error) != RC_OK) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, error);
    } else {
        log_audit(request->token.user, "realtime", on ? "on" : "off");
        request->gate->process->switch_realtime(request->gate->process->ctx, on);
        gate_request_respond_empty(request);
    }
}
