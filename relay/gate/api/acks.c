/* acks.c: POST /v1/ack and /v1/nack: acknowledgements over HTTP. */
#include "gate/api/acks.h"

#include "gate/http/response.h"
#include "gate/http/response_writer.h"
#include "gate/net/gate_shared.h"
#include "hub/hub.h"
#include "store/store.h"
#include "wire/client_message.h"

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
