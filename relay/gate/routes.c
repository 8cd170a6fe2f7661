/*
 * routes.c: the route table: path, methods, body limit and required claim of each route.
 *
 * A route without `respond` needs a valid token with the claim. WebSocket upgrades of GET /v1/ws
 * are validated by ws/receive.c.
 */
#include "gate/routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "gate/net/client_limits.h"
#include "gate/ws/websocket.h"
#include "wire/frame.h"
#include "wire/http_head.h"

#define BODY_MAX (1024 * 1024)
#define SUBSCRIPTION_BODY_MAX (16 * 1024)
#define LOGOUT_BODY_MAX (16 * 1024)
#define PATH_ROOM 256 /* for any route without a user; no longer path is one */

/* Fields of two routes: the console has paths of its own, which require its Origin. */
#define DROPS_NOTIFICATION                                                                         \
    .suffix = "/drop", .methods = "POST", .side = GATE_LISTENER_ADMIN, .body_max = BODY_MAX,       \
    .body_optional = true, .claim = GATE_CLAIM_ADMIN, .handle = gate_api_drop
#define DISCONNECTS_USER                                                                           \
    .user_suffix = "/disconnect", .methods = "POST", .side = GATE_LISTENER_ADMIN,                  \
    .body_max = BODY_MAX, .body_optional = true, .claim = GATE_CLAIM_ADMIN,                        \
    .state_bytes = sizeof(struct gate_user), .read_headers = gate_user_headers,                    \
    .handle = gate_api_cutoff, .free_state = gate_user_free
#define PUBLISHES                                                                                  \
    .methods = "POST", .body_max = BODY_MAX, .state_bytes = sizeof(struct gate_publication),       \
    .read_headers = gate_publish_headers, .handle = gate_publish, .free_state = gate_publish_free

const struct gate_route GATE_ROUTES[] = {
    {.path = "/healthz",
     .methods = "GET, HEAD",
     .side = GATE_LISTENER_BOTH,
     .serves_any_role = true,
     .is_rate_exempt = true,
     .respond = gate_probe_healthz},
    {.path = "/readyz",
     .methods = "GET, HEAD",
     .side = GATE_LISTENER_BOTH,
     .serves_any_role = true,
     .is_rate_exempt = true,
     .respond = gate_probe_readyz},
    {.path = "/metrics",
     .methods = "GET, HEAD",
     .side = GATE_LISTENER_ADMIN,
     .serves_any_role = true,
     .respond = gate_probe_metrics},
    {.path = "/v1/openapi.json",
     .methods = "GET, HEAD",
     .side = GATE_LISTENER_BOTH,
     .respond = gate_api_document},
    {.path = "/v1/asyncapi.json",
     .methods = "GET, HEAD",
     .side = GATE_LISTENER_BOTH,
     .respond = gate_api_document},
    {.path = "/v1/ws", .methods = "GET, HEAD", .respond = gate_ws_upgrade_required},
    {.path = "/v1/sse",
     .methods = "GET",
     .claim = GATE_CLAIM_NONE,
     .accepts_ticket = true,
     .ends_on_half_close = true,
     .is_stream = true,
     .state_bytes = sizeof(struct gate_sse),
     .read_headers = gate_sse_headers,
     .handle = gate_sse_begin,
     .on_line = gate_sse_line,
     .on_sweep = gate_sse_sweep,
     .on_end = gate_sse_end,
     .free_state = gate_sse_free},
    {.path = "/v1/poll",
     .methods = "GET",
     .claim = GATE_CLAIM_NONE,
     .is_stream = true,
     .state_bytes = sizeof(struct gate_poll),
     .handle = gate_poll_begin,
     .on_line = gate_poll_line,
     .on_writable = gate_poll_writable,
     .on_half_closed = gate_poll_end_wait,
     .on_sweep = gate_poll_sweep,
     .on_end = gate_poll_end,
     .free_state = gate_poll_free},
    {.path = "/v1/rows",
     .methods = "GET",
     .claim = GATE_CLAIM_NONE,
     .state_bytes = sizeof(struct gate_rows),
     .limits_its_wait = true,
     .handle = gate_rows_begin,
     .free_state = gate_rows_free},
    {.path = "/v1/barrier",
     .methods = "GET",
     .claim = GATE_CLAIM_NONE,
     .state_bytes = sizeof(struct gate_barrier),
     .limits_its_wait = true,
     .handle = gate_api_barrier,
     .free_state = gate_api_barrier_free},
    {.path = "/v1/ack",
     .methods = "POST",
     .token_optional = true,
     .body_max = BODY_MAX,
     .claim = GATE_CLAIM_NONE,
     .handle = gate_api_ack},
    {.path = "/v1/nack",
     .methods = "POST",
     .body_max = BODY_MAX,
     .claim = GATE_CLAIM_NONE,
     .handle = gate_api_nack},
    {.path = "/v1/ticket",
     .methods = "POST",
     .body_max = BODY_MAX,
     .body_optional = true,
     .claim = GATE_CLAIM_NONE,
     .handle = gate_api_ticket},
    {.path = "/v1/notifications", .claim = GATE_CLAIM_PUBLISH, .is_pipelined = true, PUBLISHES},
    {.path = "/v1/receipts",
     .methods = "GET",
     .claim = GATE_CLAIM_PUBLISH_OR_ADMIN, /* without admin, the own ones */
     .side = GATE_LISTENER_BOTH,
     .handle = gate_api_receipts},
    {.path = "/v1/notifications/",
     .suffix = "",
     .methods = "GET",
     .side = GATE_LISTENER_BOTH,           /* the console also uses this route */
     .claim = GATE_CLAIM_PUBLISH_OR_ADMIN, /* of any emitter, within the limits of `publish` */
     .handle = gate_trace},
    {.path = "/v1/notifications/",
     .suffix = "/why",
     .methods = "GET",
     .side = GATE_LISTENER_BOTH, /* the console also uses this route */
     .claim = GATE_CLAIM_PUBLISH_OR_ADMIN,
     .state_bytes = sizeof(struct gate_why),
     .handle = gate_why,
     .free_state = gate_why_free},
    {.path = "/v1/notifications/", DROPS_NOTIFICATION},
    {.path = "/v1/users/",
     .user_suffix = "/forget",
     .methods = "POST",
     .side = GATE_LISTENER_ADMIN,
     .body_max = BODY_MAX,
     .body_optional = true,
     .claim = GATE_CLAIM_ADMIN,
     .state_bytes = sizeof(struct gate_user),
     .limits_its_wait = true,
     .read_headers = gate_user_headers,
     .handle = gate_forget,
     .free_state = gate_user_free},
    {.path = "/v1/audit",
     .methods = "GET",
     .side = GATE_LISTENER_ADMIN,
     .claim = GATE_CLAIM_ADMIN,
     .handle = gate_audit},
    {.path = "/v1/webpush/key",
     .methods = "GET, HEAD",
     .is_web_push = true,
     .respond = gate_web_push_key},
    {.path = "/v1/webpush/subscriptions",
     .methods = "GET, POST, DELETE",
     .is_web_push = true,
     .claim = GATE_CLAIM_NONE,
     .handle = gate_web_push_list},
    {.path = "/v1/webpush/subscriptions",
     .methods = "GET, POST, DELETE",
     .is_web_push = true,
     .body_max = SUBSCRIPTION_BODY_MAX,
     .claim = GATE_CLAIM_NONE,
     .handle = gate_web_push_subscribe},
    {.path = "/v1/webpush/subscriptions",
     .methods = "GET, POST, DELETE",
     .is_web_push = true,
     .is_delete = true,
     .body_max = SUBSCRIPTION_BODY_MAX,
     .claim = GATE_CLAIM_NONE,
     .handle = gate_web_push_unsubscribe},
    {.path = "/v1/webpush/test",
     .methods = "POST",
     .is_web_push = true,
     .body_max = SUBSCRIPTION_BODY_MAX,
     .body_optional = true,
     .claim = GATE_CLAIM_NONE,
     .state_bytes = sizeof(struct gate_push_test),
     .limits_its_wait = true,
     .handle = gate_web_push_test,
     .free_state = gate_web_push_test_free},
    {.path = "/v1/users/", DISCONNECTS_USER},
    {.path = "/v1/backchannel-logout",
     .methods = "POST",
     .has_credentials = true,
     .body_max = LOGOUT_BODY_MAX,
     .claim = GATE_CLAIM_NONE,
     .handle = gate_api_logout},
    {.path = "/v1/realtime",
     .methods = "POST",
     .side = GATE_LISTENER_ADMIN,
     .body_max = BODY_MAX,
     .claim = GATE_CLAIM_ADMIN,
     .handle = gate_api_realtime},
    {.path = "/console",
     .methods = "GET, HEAD",
     .side = GATE_LISTENER_ADMIN,
     .is_console = true,
     .respond = gate_console_file},
    {.path = "/console/",
     .methods = "GET, HEAD",
     .side = GATE_LISTENER_ADMIN,
     .is_console = true,
     .respond = gate_console_folder},
    {.path = "/console/console.css",
     .methods = "GET, HEAD",
     .side = GATE_LISTENER_ADMIN,
     .is_console = true,
     .respond = gate_console_file},
    {.path = "/console/console.js",
     .methods = "GET, HEAD",
     .side = GATE_LISTENER_ADMIN,
     .is_console = true,
     .respond = gate_console_file},
    {.path = "/v1/console",
     .methods = "GET",
     .side = GATE_LISTENER_ADMIN,
     .is_console = true,
     .claim = GATE_CLAIM_ADMIN,
     .handle = gate_console_overview},
    {.path = "/v1/console/errors",
     .methods = "GET",
     .side = GATE_LISTENER_ADMIN,
     .is_console = true,
     .claim = GATE_CLAIM_ADMIN,
     .handle = gate_console_errors},
    {.path = "/v1/console/latest",
     .methods = "GET",
     .side = GATE_LISTENER_ADMIN,
     .is_console = true,
     .claim = GATE_CLAIM_ADMIN,
     .handle = gate_console_latest},
    {.path = "/v1/console/user",
     .methods = "GET",
     .side = GATE_LISTENER_ADMIN,
     .is_console = true,
     .claim = GATE_CLAIM_ADMIN,
     .state_bytes = sizeof(struct gate_console_user),
     .handle = gate_console_user},
    {.path = "/v1/console/receipts",
     .methods = "GET",
     .side = GATE_LISTENER_ADMIN,
     .is_console = true,
     .claim = GATE_CLAIM_ADMIN,
     .handle = gate_console_receipts},
    {.path = "/v1/console/subscriptions",
     .methods = "GET",
     .side = GATE_LISTENER_ADMIN,
     .is_console = true,
     .claim = GATE_CLAIM_ADMIN,
     .handle = gate_console_subscriptions},
    {.path = "/v1/console/rules",
     .methods = "GET",
     .side = GATE_LISTENER_ADMIN,
     .is_console = true,
     .claim = GATE_CLAIM_ADMIN,
     .handle = gate_console_rules},
    {.path = "/v1/console/notifications", /* the console's test form */
     .side = GATE_LISTENER_ADMIN,
     .is_console = true,
     .claim = GATE_CLAIM_ADMIN_AND_PUBLISH,
     PUBLISHES},
    {.path = "/v1/console/notifications/", .is_console = true, DROPS_NOTIFICATION},
    {.path = "/v1/console/users/", .is_console = true, DISCONNECTS_USER},
    {.path = "/v1/console/redrive",
     .methods = "POST",
     .side = GATE_LISTENER_ADMIN,
     .is_console = true,
     .body_max = BODY_MAX,
     .claim = GATE_CLAIM_ADMIN,
     .handle = gate_console_redrive},
    {.path = "/v1/console/drop",
     .methods = "POST",
     .side = GATE_LISTENER_ADMIN,
     .is_console = true,
     .body_max = BODY_MAX,
     .claim = GATE_CLAIM_ADMIN,
     .handle = gate_console_drop},
    {.path = NULL},
};

/* CORS preflight */
static void
make_preflight(struct conn *conn, const struct gate_route *route, struct response *ret_response)
{
    const char *origins = route->is_console ? NULL : conn->gate->config->gate.origins;
    char *origin;

    if (!gate_origin_read(conn, origins, &origin)) {
        response_problem(ret_response, 403, 0, GATE_ORIGIN_NOT_ALLOWED);
        return;
    }
    response_init(ret_response, 204, GATE_JSON);
    response_header(ret_response, "Access-Control-Allow-Methods: %s", route->methods);
    response_header(ret_response,
                    "Access-Control-Allow-Headers: authorization, content-type, "
                    "last-event-id, idempotency-key, prefer, traceparent, tracestate");
    response_header(ret_response, "Access-Control-Max-Age: 600");
    response_allow_origin(ret_response, origin);
    free(origin);
}

/* Reads the UUID after the path of a route with a suffix. */
static bool
read_id(const struct gate_route *route, const char *path, char ret_id[FRAME_UUID_TEXT + 1])
{
    const size_t start = strlen(route->path), end = start + FRAME_UUID_TEXT;

    return strncmp(path, route->path, start) == 0 && strlen(path) >= end &&
           strcmp(path + end, route->suffix) == 0 &&
           frame_uuid_parse(path + start, FRAME_UUID_TEXT, ret_id);
}

/* Whether a user is between the path of the route and its suffix. */
static bool
has_user(const struct conn *conn, const struct gate_route *route)
{
    char *user = NULL;
    enum rc rc =
        http_head_segment(conn->head, route->path, route->user_suffix, TOKEN_USER_MAX, &user);
    const bool is_found = rc == RC_LIMIT || user != NULL;

    free(user);
    return is_found;
}

/* Whether the route is served on the listener that accepted the connection. */
static bool
is_served(const struct conn *conn, const struct gate_route *route)
{
    const struct gate *gate = conn->gate;

    if (gate->hub == NULL)
        return route->serves_any_role;
    if ((route->is_console && !gate->config->gate.console) ||
        (route->is_web_push && gate->web_push == NULL))
        return false;
    if (gate->config->gate.admin_listen == NULL || route->side == GATE_LISTENER_BOTH)
        return true;
    return (route->side == GATE_LISTENER_ADMIN) == conn->is_admin;
}

/* Whether the route's handler serves the method of the request. */
static bool
is_handled(const struct conn *conn, const struct gate_route *route)
{
    enum http_method method = route->body_max == 0 ? HTTP_GET
                              : route->is_delete   ? HTTP_DELETE
                                                   : HTTP_POST;

    return route->respond == NULL && conn->head->method == method;
}

/* Returns the path's route with the method of the request, otherwise any route of the path. */
static const struct gate_route *
find_route(const struct conn *conn, const char *path, char ret_id[FRAME_UUID_TEXT + 1])
{
    const struct gate_route *found = NULL;

    ret_id[0] = '\0';
    for (const struct gate_route *route = GATE_ROUTES; route->path != NULL; route++) {
        bool is_path = route->suffix != NULL        ? read_id(route, path, ret_id)
                       : route->user_suffix != NULL ? has_user(conn, route)
                                                    : strcmp(path, route->path) == 0;

        if (!is_path || !is_served(conn, route))
            continue;
        if (is_handled(conn, route))
            return route;
        found = route;
    }
    return found;
}

/* Returns hints for paths that users open in a browser. */
static const char *
not_found_hint(const struct conn *conn, const char *path)
{
    const struct gate *gate = conn->gate;

    if (strcmp(path, "/") == 0)
        return gate->hub != NULL && !conn->is_admin
                   ? "clairon relay; clients connect to /v1/ws, /v1/sse or /v1/poll"
                   : "clairon relay; see /healthz, /readyz and /metrics";
    if (gate->hub != NULL && !gate->config->gate.console &&
        (strcmp(path, "/console") == 0 || strcmp(path, "/console/") == 0))
        return "console disabled; enable it with gate.console = on";
    return "no such path";
}

static void
respond_without_token(struct conn *conn, const struct gate_route *route, const char *path)
{
    enum http_method method = conn->head->method;
    struct response response;
    char detail[64];

    if ((route == NULL || !route->is_rate_exempt) && !gate_admits_request(conn)) {
        response_problem_with(&response, 429, 0, GATE_RETRY_SOON, GATE_RATE_EXCEEDED);
    } else if (method == HTTP_OPTIONS && conn->head->path_len == 0) { /* RFC 9110, 9.3.7 */
        response_init(&response, 204, GATE_JSON);
        response_header(&response, "Allow: GET, HEAD, POST, DELETE, OPTIONS");
    } else if (route == NULL) {
        response_problem(&response, 404, 0, not_found_hint(conn, path));
    } else if (route->respond != NULL && (method == HTTP_GET || method == HTTP_HEAD)) {
        route->respond(conn, &response);
    } else if (route->respond == NULL && method == HTTP_OPTIONS) {
        make_preflight(conn, route, &response);
    } else {
        snprintf(detail, sizeof(detail), "method not allowed, use %s", route->methods);
        response_problem(&response, 405, 0, detail);
        response_header(&response, "Allow: %s", route->methods);
    }
    response.head = method == HTTP_HEAD;
    gate_request_reply(conn, &response);
}

void
gate_router_serve(struct conn *conn)
{
    const struct http_head *head = conn->head;
    char path[PATH_ROOM] = "";
    char id[FRAME_UUID_TEXT + 1];
    const struct gate_route *route;

    if (http_head_is_websocket(head) && http_head_has_plain_path(head)) {
        gate_ws_upgrade(conn);
        return;
    }
    /* A proxy may have checked a path that a parser would normalize. */
    if (http_head_has_plain_path(head) && head->path_len < sizeof(path))
        memcpy(path, head->bytes + head->target, head->path_len);
    route = find_route(conn, path, id);
    if (route != NULL && is_handled(conn, route))
        gate_request_begin(conn, route, id);
    else
        respond_without_token(conn, route, path);
}
