/* router.c: finds the route of an HTTP request and serves routes that need no token. */
#include "gate/router.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gate/http/auth.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "gate/net/limits.h"
#include "gate/routes.h"
#include "gate/ws/websocket.h"
#include "wire/frame.h"
#include "wire/http_head.h"

#define PATH_ROOM 256 /* for any route; no longer path is one */

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

/* Reads the UUID after the path of a prefix route. */
static bool
read_id(const struct gate_route *route, const char *path, char ret_id[FRAME_UUID_TEXT + 1])
{
    size_t len = strlen(route->path);

    return strncmp(path, route->path, len) == 0 &&
           frame_uuid_parse(path + len, strlen(path + len), ret_id);
}

/* Whether the route is served on the listener that accepted the connection. */
static bool
is_served(const struct conn *conn, const struct gate_route *route)
{
    const struct gate *gate = conn->gate;

    if (gate->hub == NULL)
        return route->serves_any_role;
    if (route->is_console && !gate->config->gate.console)
        return false;
    if (gate->config->gate.admin_listen == NULL || route->side == GATE_LISTENER_BOTH)
        return true;
    return (route->side == GATE_LISTENER_ADMIN) == conn->is_admin;
}

static const struct gate_route *
find_route(const struct conn *conn, const char *path, char ret_id[FRAME_UUID_TEXT + 1])
{
    ret_id[0] = '\0';
    for (const struct gate_route *route = GATE_ROUTES; route->path != NULL; route++) {
        if (route->is_prefix ? read_id(route, path, ret_id) : strcmp(path, route->path) == 0)
            return is_served(conn, route) ? route : NULL;
    }
    return NULL;
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
make_wrong_method(const struct gate_route *route, struct response *ret_response)
{
    char detail[64];

    snprintf(detail, sizeof(detail), "method not allowed, use %s", route->methods);
    response_problem(ret_response, 405, 0, detail);
    response_header(ret_response, "Allow: %s", route->methods);
}

static void
respond_without_token(struct conn *conn, const struct gate_route *route, const char *path)
{
    enum http_method method = conn->head->method;
    struct response response;

    if ((route == NULL || !route->is_rate_exempt) && !gate_admits_request(conn))
        response_problem_with(&response, 429, 0, GATE_RETRY_SOON, GATE_RATE_EXCEEDED);
    else if (route == NULL)
        response_problem(&response, 404, 0, not_found_hint(conn, path));
    else if (route->respond != NULL && (method == HTTP_GET || method == HTTP_HEAD))
        route->respond(conn, &response);
    else if (route->respond == NULL && method == HTTP_OPTIONS)
        make_preflight(conn, route, &response);
    else
        make_wrong_method(route, &response);
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
    if (route != NULL && route->respond == NULL &&
        head->method == (route->body_max > 0 ? HTTP_POST : HTTP_GET))
        gate_request_begin(conn, route, id);
    else
        respond_without_token(conn, route, path);
}
