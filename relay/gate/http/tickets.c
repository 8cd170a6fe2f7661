/*
 * tickets.c: tickets, which replace a token in a URL: POST /v1/ticket stores the claims of the
 * token, and the first use of the ticket redeems them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "gate/http/auth.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "hub/hub.h"
#include "store/store.h"
#include "wire/token.h"

#define CLAIMS_MAX (1024 * 1024) /* maximum bytes of a token's claims as JSON */

/* A ticket that is being stored. */
struct pending_ticket {
    struct store_request *store_request;
    char ticket[STORE_TICKET_TEXT + 1];
};

/* A ticket that is being redeemed. */
struct ticket_redeem {
    struct gate_redeem redeem;
    struct gate *gate;
};

static void
on_ticket_stored(void *ctx, enum rc rc)
{
    struct pending_ticket *pending = ctx;
    struct gate_request *request = store_request_reply(pending->store_request, rc);
    struct response response;

    if (request != NULL) {
        response_init(&response, 200, GATE_JSON);
        if (buffer_addf(&response.body, "{\"ticket\":\"%s\",\"exp\":%" PRId64 "}\n",
                        pending->ticket, clock_wall_us() / 1000000 + STORE_TICKET_SECONDS) != RC_OK)
            buffer_clear(&response.body);
        gate_request_respond(request, &response);
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
    random_hex(pending->ticket, STORE_TICKET_TEXT);
    rc = token_write(&request->token, &claims);
    if (rc == RC_OK)
        rc = store_ticket_save(hub_store(request->gate->hub), pending->ticket, claims.bytes,
                               on_ticket_stored, pending);
    buffer_free(&claims);
    if (rc != RC_OK)
        on_ticket_stored(pending, rc);
}

static bool
is_ticket(const char *text)
{
    return strlen(text) == STORE_TICKET_TEXT &&
           strspn(text, "0123456789abcdef") == STORE_TICKET_TEXT;
}

static void
on_claims_read(void *ctx, enum rc rc, struct bytes claims)
{
    struct ticket_redeem *redeem = ctx;
    struct token_error error = {.text = "store does not reply"};
    struct token token = {0};

    if (redeem->redeem.owner == NULL) {
        free(redeem);
        return;
    }
    if (rc == RC_OK && claims.at == NULL) {
        rc = RC_BAD;
        snprintf(error.text, sizeof(error.text), "ticket unknown, used or expired");
    } else if (rc == RC_OK) {
        rc = token_parse((const char *)claims.at, claims.len, clock_wall_us() / 1000000, &token,
                         &error);
        if (rc == RC_OK && gate_token_is_cut_off(redeem->gate, &token)) {
            rc = RC_LIMIT;
            snprintf(error.text, sizeof(error.text), GATE_CUT_OFF);
        }
    }
    redeem->redeem.done(redeem->redeem.owner, rc, &token, error.text);
    token_free(&token);
    free(redeem);
}

struct gate_redeem *
gate_ticket_redeem(struct gate *gate, const char *ticket, gate_redeemed *done, void *owner)
{
    struct ticket_redeem *redeem;

    if (!gate_cutoffs_are_known(gate))
        return NULL; /* the client may use the ticket again */
    redeem = memory_new(sizeof(*redeem));
    *redeem = (struct ticket_redeem){{done, owner}, gate};
    /*
     * A malformed ticket is looked up under a name that no ticket has, so that it is rejected like
     * an unknown ticket.
     */
    if (store_ticket_redeem(hub_store(gate->hub), is_ticket(ticket) ? ticket : "-", on_claims_read,
                            redeem) == RC_OK)
        return &redeem->redeem;
    free(redeem);
    return NULL;
}
