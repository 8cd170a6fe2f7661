/* request_auth.c: checks the credentials of a request before its handler is called. */
#include "gate/http/request_auth.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "gate/http/credentials.h"
#include "gate/http/response_writer.h"
#include "gate/net/gate_shared.h"
#include "gate/net/limits.h"
#include "wire/codes.h"

static const char NO_PUBLISH[] = "token lacks the claim \"publish\": true";
static const char NO_ADMIN[] = "token lacks the claim \"admin\": true";

/* Returns the missing claim; NULL: none. */
static const char *
missing_claim(const struct gate_request *request)
{
    const struct token *token = &request->token;

    switch (request->route->claim) {
    case GATE_CLAIM_NONE:
        return NULL;
    case GATE_CLAIM_PUBLISH:
        return token->publish ? NULL : NO_PUBLISH;
    case GATE_CLAIM_ADMIN:
        return token->admin ? NULL : NO_ADMIN;
    case GATE_CLAIM_ADMIN_AND_PUBLISH:
        return !token->admin ? NO_ADMIN : (!token->publish ? NO_PUBLISH : NULL);
    case GATE_CLAIM_PUBLISH_OR_ADMIN:
        break;
    }
    return token->publish || token->admin ? NULL : NO_PUBLISH;
}

/* Checks the limits again, because they may have changed while a ticket was redeemed. */
void
gate_request_handle(struct gate_request *request)
{
    struct gate *gate = request->gate;
    const struct gate_route *route = request->route;
    struct gate_rejection rejection;
    const char *missing = missing_claim(request);

    if (route->is_stream && !gate_serves(gate, route->accepts_ticket, &rejection)) {
        gate_request_reject(request, &rejection);
        return;
    }
    if (route->is_stream && !gate_admits_user(gate, request->token.user)) {
        gate_request_problem(request, 429, GATE_ERR_RATE, "per-user connection limit reached");
        return;
    }
    if (missing != NULL)
        gate_request_problem(request, 403, GATE_ERR_PERMISSION, missing);
    else
        route->handle(request);
}

static void
reject_token(struct gate_request *request, enum rc rc, const char *error)
{
    gate_log_rejected_token(request->gate, request->route->path, error);
    gate_request_problem(request, 401, rc == RC_CLOSED ? GATE_ERR_EXPIRED : GATE_ERR_UNAUTHORISED,
                         error);
}

static void
on_token_redeemed(void *owner, enum rc rc, struct token *token, const char *error)
{
    struct gate_request *request = owner;

    request->redeem = NULL;
    if (request->state != GATE_REQUEST_WAITING)
        return; /* the request has timed out and has a response */
    if (rc == RC_OK) {
        request->token = *token;
        *token = (struct token){0};
        gate_request_handle(request);
    } else if (rc == RC_IO) {
        gate_request_problem(request, 503, 0, error);
    } else {
        reject_token(request, rc, error);
    }
}

static void
reject_rate(struct gate_request *request)
{
    const struct gate_rejection rejection = {429, GATE_ERR_RATE, GATE_RETRY_SOON,
                                             GATE_RATE_EXCEEDED};

    log_debug("gate", "request rejected: gate.request_rate exceeded", LOG_REQUEST(request));
    gate_request_reject(request, &rejection);
}

static void
use_bearer(struct gate_request *request, const char *bearer)
{
    char error[TOKEN_ERROR_MAX];
    enum rc rc = gate_token_verify(request->gate, bearer, strlen(bearer), &request->token, error);

    if (rc != RC_OK)
        reject_token(request, rc, error);
    else if (!gate_admits_user_request(request->conn, request->token.user))
        reject_rate(request);
    else if (request->route->body_max == 0)
        gate_request_handle(request);
}

/* Not rate-limited again: the request for the ticket was rate-limited. */
static void
use_ticket(struct gate_request *request, const char *ticket)
{
    gate_request_set_state(request, GATE_REQUEST_WAITING);
    request->redeem = gate_ticket_redeem(request->gate, ticket, on_token_redeemed, request);
    if (request->redeem == NULL)
        gate_request_no_store(request);
}

void
gate_request_authenticate(struct gate_request *request)
{
    char *bearer = gate_request_bearer(request->conn->head);
    char *ticket = request->route->accepts_ticket ? gate_request_ticket(request->conn->head) : NULL;

    if (bearer != NULL && ticket != NULL)
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, GATE_TWO_CREDENTIALS);
    else if (bearer != NULL)
        use_bearer(request, bearer);
    else if (ticket != NULL)
        use_ticket(request, ticket);
    else
        gate_request_problem(request, 401, 0, "missing Authorization: Bearer");
    free(bearer);
    free(ticket);
}

void
gate_request_auth_cancel(struct gate_request *request)
{
    if (request->redeem != NULL)
        gate_ticket_cancel(request->redeem);
    request->redeem = NULL;
}
