/* forget_route.c: POST /v1/users/<id>/forget: removes a user from the store. */
#include "gate/routes.h"

#include "base/log.h"
#include "gate/gate.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "hub/hub.h"
#include "store/forget.h"

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
