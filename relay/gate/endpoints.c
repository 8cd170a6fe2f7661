/* endpoints.c: small routes: acknowledgements, tickets, health probes and metrics. */
#include "gate/routes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/memory.h"
#include "gate/gate.h"
#include "gate/http/auth.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "hub/session.h"
#include "hub/hub.h"
#include "store/store.h"
#include "wire/client_message.h"
#include "wire/http_head.h"

#define CLAIMS_MAX (1024 * 1024) /* maximum bytes of a token's claims as JSON */
#define READY_DETAIL_MAX 4096
#define NEED_MAX 16

void
gate_api_ack(struct gate_request *request)
{
    char error[CLIENT_MESSAGE_ERROR_MAX];
    struct client_message message = {0};

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

/* A ticket that is being stored. */
struct pending_ticket {
    struct store_request *store_request;
    char ticket[STORE_TICKET_TEXT + 1];
};

static void
on_ticket_stored(void *ctx, enum rc rc)
{
    struct pending_ticket *pending = ctx;
    struct gate_request *request = store_request_done(pending->store_request);
    struct response response;

    if (request != NULL && rc == RC_OK) {
        response_init(&response, 200, GATE_JSON);
        if (buffer_addf(&response.body, "{\"ticket\":\"%s\",\"exp\":%" PRId64 "}\n",
                        pending->ticket, clock_wall_us() / 1000000 + STORE_TICKET_SECONDS) != RC_OK)
            buffer_clear(&response.body);
        gate_request_respond(request, &response);
    } else if (request != NULL) {
        gate_request_no_store(request);
    }
    free(pending);
}

void
gate_api_ticket(struct gate_request *request)
{
    struct pending_ticket *pending = memory_new(sizeof(*pending));
    struct buffer claims;
    enum rc rc;

    pending->store_request = store_request_new(request);
    buffer_init(&claims, CLAIMS_MAX);
    rc = gate_ticket_new(pending->ticket) ? token_write(&request->token, &claims) : RC_IO;
    if (rc == RC_OK)
        rc = store_ticket_save(hub_store(request->gate->hub), pending->ticket, claims.bytes,
                               on_ticket_stored, pending);
    buffer_free(&claims);
    if (rc != RC_OK)
        on_ticket_stored(pending, rc);
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
    ready = gate->process->ready(gate->process->ctx, needs_feed, &detail) && !gate->draining;
    rc = buffer_addf(body, "{\"status\":\"%s\"%s%s}\n",
                     gate->draining ? "draining" : (ready ? good : bad), detail.len > 0 ? "," : "",
                     detail.len > 0 ? detail.bytes : "");
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
    char *need = http_head_argument(conn->head, "need=", NEED_MAX);
    bool needs_feed = need != NULL && strcmp(need, "feed") == 0;

    if (need != NULL && !needs_feed) {
        response_problem(ret_response, 400, 0, "need: expected feed");
    } else {
        response_init(ret_response, 200, GATE_JSON);
        if (!add_health(conn->gate, needs_feed, &ret_response->body, "ready", "not ready"))
            ret_response->status = 503;
    }
    free(need);
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
