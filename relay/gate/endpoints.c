/* endpoints.c: small routes: acknowledgements, drops, tickets, barriers, health probes, metrics. */
#include "gate/routes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/clock.h"
#include "gate/gate.h"
#include "gate/http/auth.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "hub/hub.h"
#include "store/admin.h"
#include "store/store.h"
#include "wire/client_message.h"
#include "wire/http_head.h"

#define CLAIMS_MAX (1024 * 1024) /* maximum bytes of a token's claims as JSON */
#define READY_DETAIL_MAX 4096
#define NEED_MAX 16
#define ETAGS_MAX 1024
#define XID_DIGITS_MAX 20
#define TICKET_UNKNOWN "ticket used, expired or unknown"

/* A ticket that is being stored or redeemed. */
struct pending_ticket {
    struct store_request *store_request;
    char ticket[STORE_TICKET_TEXT + 1];
};

/* Without a reply of the store the ticket stays valid, but the acknowledgement was taken. */
static void
on_push_ticket_used(void *ctx, enum rc rc, const char *id, const char *user)
{
    struct gate_request *request = store_request_done(ctx);

    (void)id;
    (void)user;
    if (request == NULL)
        return;
    if (rc == RC_BAD)
        gate_request_problem(request, 410, 0, TICKET_UNKNOWN);
    else
        gate_request_respond_empty(request);
}

/* The ticket is removed after the acknowledgement was taken, so that the client can repeat it. */
static void
on_push_ticket(void *ctx, enum rc rc, const char *id, const char *user)
{
    struct pending_ticket *pending = ctx;
    struct gate_request *request = store_request_done(pending->store_request);
    struct gate *gate = request != NULL ? request->gate : NULL;

    if (request != NULL && rc == RC_OK && store_serves(hub_store(gate->hub), user)) {
        struct store_request *store_request = store_request_new(request);

        hub_ack(gate->hub, user, &id, 1);
        rc = store_push_ticket(hub_store(gate->hub), pending->ticket, true, on_push_ticket_used,
                               store_request);
        if (rc != RC_OK)
            on_push_ticket_used(store_request, rc, id, user);
    } else if (request != NULL && rc == RC_BAD) {
        gate_request_problem(request, 410, 0, TICKET_UNKNOWN);
    } else if (request != NULL) {
        gate_request_no_store(request);
    }
    free(pending);
}

/* The ticket in a Web Push replaces the token. */
static void
ack_by_ticket(struct gate_request *request)
{
    struct pending_ticket *pending;
    char ticket[STORE_TICKET_TEXT + 1];
    enum rc rc;

    if (!client_message_parse_push_ticket(request->body.bytes, request->body.len, ticket)) {
        gate_request_problem(request, 401, 0, GATE_NO_TOKEN);
        return;
    }
    pending = memory_new(sizeof(*pending));
    pending->store_request = store_request_new(request);
    memcpy(pending->ticket, ticket, sizeof(ticket));
    rc = store_push_ticket(hub_store(request->gate->hub), ticket, false, on_push_ticket, pending);
    if (rc != RC_OK)
        on_push_ticket(pending, rc, "", "");
}

void
gate_api_ack(struct gate_request *request)
{
    char error[CLIENT_MESSAGE_ERROR_MAX];
    struct client_message message = {0};

    if (request->token.user == NULL) {
        ack_by_ticket(request);
        return;
    }
    if (client_message_parse_ack(request->body.bytes, request->body.len, &message, error) !=
        RC_OK) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, error);
    } else if (!store_serves(hub_store(request->gate->hub), request->token.user)) {
        gate_request_no_store(request);
    } else {
        hub_ack(request->gate->hub, request->token.user, (const char *const *)message.ids,
                message.id_count);
        gate_request_respond_empty(request);
    }
    client_message_free(&message);
}

void
gate_api_nack(struct gate_request *request)
{
    char error[CLIENT_MESSAGE_ERROR_MAX];
    struct client_message message = {0};

    if (client_message_parse_nack(request->body.bytes, request->body.len, &message, error) != RC_OK)
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, error);
    else if (hub_nack(request->gate->hub, request->token.user, (const char *const *)message.ids,
                      message.id_count, message.delay_ms) != RC_OK)
        gate_request_no_store(request);
    else
        gate_request_respond_empty(request);
    client_message_free(&message);
}

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
        gate_slot_release(request);
    else
        gate_request_problem(request, 503, GATE_ERR_RATE, "too many barriers");
}

void
gate_api_barrier_free(struct gate_request *request)
{
    hub_barrier_end(barrier_of(request)->barrier);
}

/* Writes {"status":"ok","feed":"streaming"}. Returns whether the process is ready. */
static bool
add_health(struct gate *gate, bool needs_feed, struct buffer *body, const char *good,
           const char *bad)
{
    struct buffer detail;
    bool ready;
    enum rc rc;

    buffer_init(&detail, READY_DETAIL_MAX);
    ready =
        gate->process->ready(gate->process->ctx, needs_feed, &detail) && gate->state == GATE_OPEN;
    rc = buffer_addf(body, "{\"status\":\"%s\"%s%s}\n",
                     gate->state != GATE_OPEN ? "draining" : (ready ? good : bad),
                     detail.len > 0 ? "," : "", detail.len > 0 ? detail.bytes : "");
    buffer_free(&detail);
    if (rc != RC_OK)
        buffer_clear(body);
    return ready;
}

void
gate_probe_healthz(struct conn *conn, struct response *ret_response)
{
    response_init(ret_response, 200, GATE_JSON);
    (void)add_health(conn->gate, false, &ret_response->body, "ok", "ok");
}

void
gate_probe_readyz(struct conn *conn, struct response *ret_response)
{
    char *need = NULL;
    enum rc rc = http_head_argument(conn->head, "need=", NEED_MAX, &need);
    bool needs_feed = need != NULL && strcmp(need, "feed") == 0;

    if (rc != RC_OK || (need != NULL && !needs_feed)) {
        response_problem(ret_response, 400, 0, "need: expected feed");
    } else {
        response_init(ret_response, 200, GATE_JSON);
        if (!add_health(conn->gate, needs_feed, &ret_response->body, "ready", "not ready"))
            ret_response->status = 503;
    }
    free(need);
}

/*
 * The documents describe every relay of this version, and contain nothing of this one: they need no
 * token, and pages of any origin may read them.
 */
void
gate_api_document(struct conn *conn, struct response *ret_response)
{
    const struct http_head *head = conn->head;
    const bool is_openapi =
        memmem(head->bytes + head->target, head->path_len, "openapi", strlen("openapi")) != NULL;
    const char *text = is_openapi ? gate_api_openapi : gate_api_asyncapi;
    const char *etag = is_openapi ? gate_api_openapi_etag : gate_api_asyncapi_etag;
    char *cached = NULL;
    const bool is_cached = http_head_text(head, "if-none-match", ETAGS_MAX, &cached) == RC_OK &&
                           cached != NULL &&
                           (strcmp(cached, "*") == 0 || strstr(cached, etag) != NULL);

    free(cached);
    response_init(ret_response, is_cached ? 304 : 200, GATE_JSON);
    ret_response->has_etag = true;
    response_header(ret_response, "ETag: %s", etag);
    response_header(ret_response, "Access-Control-Allow-Origin: *");
    if (!is_cached && buffer_add(&ret_response->body, text, strlen(text)) != RC_OK)
        ret_response->status = 500;
}

void
gate_probe_metrics(struct conn *conn, struct response *ret_response)
{
    response_init(ret_response, 200, "text/plain; version=0.0.4");
    if (stats_write(conn->gate->stats, &ret_response->body) == RC_OK)
        return;
    buffer_free(&ret_response->body);
    buffer_free(&ret_response->headers);
    response_problem(ret_response, 500, 0, "metrics exceed the buffer limit");
}
