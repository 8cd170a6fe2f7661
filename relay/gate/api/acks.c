/*
 * acks.c: POST /v1/ack, /v1/nack, /v1/ticket and /v1/push: what a token may do without a
 * connection.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gate/gate_request.h"
#include "hub/hub.h"
#include "store/ticket.h"
#include "wire/client_message.h"

static void
answer_nothing(struct gate_request *request)
{
    struct gate_answer answer;

    gate_answer_init(&answer, 204, GATE_JSON);
    gate_request_answer(request, &answer);
}

void
gate_api_ack(struct gate_request *request)
{
    char error[CLIENT_MESSAGE_ERROR_MAX];
    struct client_message message = {0};

    if (client_message_parse_ack(request->body.bytes, request->body.len, &message, error) !=
        RC_OK) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, error);
    } else if (!store_is_up(hub_store(request->gate->hub))) {
        gate_request_no_store(request);
    } else {
        hub_ack(request->gate->hub, request->token.user, (const char *const *)message.ids,
                message.id_count);
        answer_nothing(request);
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
        answer_nothing(request);
    client_message_free(&message);
}

/* A ticket on its way to the store. */
struct gate_keeping {
    struct gate_request *request; /* NULL: gone */
    char ticket[STORE_TICKET_TEXT + 1];
};

static void
answer_ticket(struct gate_request *request, const char *ticket)
{
    struct gate_answer answer;

    gate_answer_init(&answer, 200, GATE_JSON);
    if (buffer_addf(&answer.body, "{\"ticket\":\"%s\",\"exp\":%lld}\n", ticket,
                    (long long)(clock_wall_us() / 1000000 + STORE_TICKET_SECONDS)) != RC_OK)
        buffer_clear(&answer.body);
    gate_request_answer(request, &answer);
}

static void
on_kept(void *ctx, enum rc rc)
{
    struct gate_keeping *keeping = ctx;
    struct gate_request *request = keeping->request;

    if (request != NULL) {
        request->keeping = NULL;
        if (request->state == GATE_REQUEST_ASKING && rc != RC_OK)
            gate_request_no_store(request);
        else if (request->state == GATE_REQUEST_ASKING)
            answer_ticket(request, keeping->ticket);
    }
    free(keeping);
}

void
gate_api_forget(struct gate_keeping *keeping)
{
    keeping->request = NULL;
}

void
gate_api_ticket(struct gate_request *request)
{
    struct gate_keeping *keeping = memory_new(sizeof(*keeping));
    struct buffer claims;
    enum rc rc;

    keeping->request = request;
    request->keeping = keeping;
    buffer_init(&claims, GATE_BODY_MAX);
    rc = gate_ticket_new(keeping->ticket) ? token_write(&request->token, &claims) : RC_IO;
    if (rc == RC_OK)
        rc = store_ticket_keep(hub_store(request->gate->hub), keeping->ticket, claims.bytes,
                               on_kept, keeping);
    buffer_free(&claims);
    if (rc == RC_OK)
        return;
    request->keeping = NULL;
    free(keeping);
    gate_request_no_store(request);
}

void
gate_api_push(struct gate_request *request)
{
    char error[CLIENT_MESSAGE_ERROR_MAX];
    bool on = true;

    if (!gate_request_is_admin(request))
        return;
    if (client_message_parse_switch(request->body.bytes, request->body.len, &on, error) != RC_OK) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, error);
    } else {
        log_warn(request->who, "\"%s\" turns push %s", request->token.user, on ? "on" : "off");
        request->gate->health.switch_push(request->gate->health.ctx, on);
        answer_nothing(request);
    }
}
