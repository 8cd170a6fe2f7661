/*
 * ack_routes.c: POST /v1/ack and /v1/nack: acknowledgements of clients over HTTP, and of service
 * workers, by the ticket in a Web Push.
 */
#include "gate/routes.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "gate/http/auth.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "hub/hub.h"
#include "store/store.h"
#include "wire/client_message.h"

#define TICKET_UNKNOWN "ticket used, expired or unknown"

/* An acknowledgement by a ticket. */
struct ticket_ack {
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
    struct ticket_ack *pending = ctx;
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
    struct ticket_ack *pending;
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
