/* admin.c: POST /v1/push: the push kill switch. */
#include "gate/api/admin.h"

#include "base/log.h"
#include "gate/api/process.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "wire/client_message.h"

void
gate_api_push(struct gate_request *request)
{
    char error[CLIENT_MESSAGE_ERROR_MAX];
    bool on = true;

    if (client_message_parse_switch(request->body.bytes, request->body.len, &on, error) != RC_OK) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, error);
    } else {
        log_warn("gate", "push switch requested", LOG_BOOL("push", on), LOG_REQUEST(request));
        request->gate->process->switch_push(request->gate->process->ctx, on);
        gate_request_respond_empty(request);
    }
}
