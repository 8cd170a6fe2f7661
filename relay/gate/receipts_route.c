/* receipts_route.c: GET /v1/receipts, and the receipts of one notification for the console. */
#include "gate/routes.h"

#include <stdlib.h>
#include <string.h>

#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "hub/hub.h"
#include "store/store.h"
#include "wire/frame.h"
#include "wire/http_head.h"

#define RECEIPTS_LIMIT 100

static void
on_receipts(void *ctx, enum rc rc, struct buffer *json)
{
    struct gate_request *request = store_request_reply(ctx, rc);
    struct response response;

    if (request == NULL)
        return;
    response_init(&response, 200, GATE_JSON);
    rc = buffer_add(&response.body, json->bytes, json->len);
    gate_request_respond_whole(request, &response, rc);
}

/* `id` NULL: of any notification */
static void
read_receipts(struct gate_request *request, const char *id, unsigned limit)
{
    struct store_request *store_request = store_request_new(request);
    char *after = NULL;
    enum rc rc = http_head_argument(request->conn->head, "after=", STORE_RECEIPTS_CURSOR_MAX,
                                    &after) == RC_OK
                     ? store_receipts(hub_store(request->gate->hub), after != NULL ? after : "",
                                      request->token.admin ? NULL : request->token.user, id, limit,
                                      on_receipts, store_request)
                     : RC_BAD;

    if (rc == RC_BAD) {
        (void)store_request_done(store_request);
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, "after: invalid cursor");
    } else {
        store_request_sent(store_request, rc);
    }
    free(after);
}

void
gate_api_receipts(struct gate_request *request)
{
    const unsigned limit = gate_request_limit(request, RECEIPTS_LIMIT, STORE_RECEIPTS_MAX);

    if (limit == 0)
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST,
                             "limit: expected a number from 1 to 1000");
    else
        read_receipts(request, NULL, limit);
}

/* The console shows the receipts of one notification. */
void
gate_console_receipts(struct gate_request *request)
{
    char id[FRAME_UUID_TEXT + 1];
    char *text = NULL;

    if (http_head_argument(request->conn->head, "id=", FRAME_UUID_TEXT, &text) == RC_OK &&
        text != NULL && frame_uuid_parse(text, strlen(text), id))
        read_receipts(request, id, RECEIPTS_LIMIT);
    else
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, "\"id\" must be a UUID");
    free(text);
}
