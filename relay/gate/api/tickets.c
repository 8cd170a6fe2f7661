/* tickets.c: POST /v1/ticket: issues a ticket for clients that cannot set a header. */
#include "gate/api/tickets.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "gate/http/credentials.h"
#include "gate/http/response.h"
#include "gate/http/response_writer.h"
#include "gate/http/store_request.h"
#include "gate/net/gate_shared.h"
#include "hub/hub.h"
#include "store/store.h"

#define CLAIMS_MAX (1024 * 1024) /* maximum bytes of a token's claims as JSON */

/* A ticket that is being stored. */
struct pending_ticket {
    struct store_request *store_request;
    char ticket[STORE_TICKET_TEXT + 1];
};

static void
respond_ticket(struct gate_request *request, const char *ticket)
{
    struct response response;

    response_init(&response, 200, GATE_JSON);
    if (buffer_addf(&response.body, "{\"ticket\":\"%s\",\"exp\":%" PRId64 "}\n", ticket,
                    clock_wall_us() / 1000000 + STORE_TICKET_SECONDS) != RC_OK)
        buffer_clear(&response.body);
    gate_request_respond(request, &response);
}

static void
on_ticket_stored(void *ctx, enum rc rc)
{
    struct pending_ticket *pending = ctx;
    struct gate_request *request = store_request_done(pending->store_request);

    if (request != NULL && rc != RC_OK)
        gate_request_no_store(request);
    else if (request != NULL)
        respond_ticket(request, pending->ticket);
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
