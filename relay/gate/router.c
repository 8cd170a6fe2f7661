/* router.c: finds the route of an HTTP request and serves routes that need no token. */
#include "gate/router.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gate/net/limits.h"
#include "gate/http/origin.h"
#include "gate/http/request_body.h"
#include "gate/http/requests.h"
#include "gate/http/response.h"
#include "gate/net/accept.h"
#include "gate/net/gate_shared.h"
#include "gate/net/request_field.h"
#include "gate/routes.h"
#include "wire/frame.h"

static const char NO_ROUTE[] = "no such path";

/* CORS preflight */
static void
make_preflight(struct gate *gate, struct lws *wsi, const struct gate_route *route,
               struct response *ret_response)
{
    char *origin;

    if (!gate_origin_read(gate, route->is_console ? NULL : gate->config->gate.origins, wsi,
                          &origin)) {
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

/* Whether the route is served on the listener that accepted `fd`. */
static bool
is_served(const struct gate *gate, int fd, const struct gate_route *route)
{
    if (gate->hub == NULL)
        return route->serves_any_role;
    if (route->is_console && !gate->config->gate.console)
        return false;
    if (gate->config->gate.admin_listen == NULL || route->side == GATE_LISTENER_BOTH)
        return true;
    return (route->side == GATE_LISTENER_ADMIN) == gate_fd_is_admin(gate, fd);
}

static const struct gate_route *
find_route(const struct gate *gate, int fd, const char *path, char ret_id[FRAME_UUID_TEXT + 1])
{
    ret_id[0] = '\0';
    for (const struct gate_route *route = GATE_ROUTES; route->path != NULL; route++) {
        if (route->is_prefix ? read_id(route, path, ret_id) : strcmp(path, route->path) == 0)
            return is_served(gate, fd, route) ? route : NULL;
    }
    return NULL;
}

/* Returns hints for paths that users open in a browser. */
static const char *
not_found_hint(const struct gate *gate, int fd, const char *path)
{
    if (strcmp(path, "/") == 0)
        return gate->hub != NULL && !gate_fd_is_admin(gate, fd)
                   ? "clairon relay; clients connect to /v1/ws, /v1/sse or /v1/poll"
                   : "clairon relay; see /healthz, /readyz and /metrics";
    if (gate->hub != NULL && !gate->config->gate.console &&
        (strcmp(path, "/console") == 0 || strcmp(path, "/console/") == 0))
        return "console disabled; enable it with gate.console = on";
    return NO_ROUTE;
}

static void
make_wrong_method(const struct gate_route *route, struct response *ret_response)
{
    char detail[64];

    snprintf(detail, sizeof(detail), "method not allowed, use %s", route->methods);
    response_problem(ret_response, 405, 0, detail);
    response_header(ret_response, "Allow: %s", route->methods);
}

/* NULL: the route does not exist. */
static const struct gate_route *
route_of(const struct gate *gate, int fd, const char *target, size_t len)
{
    const char *query = memchr(target, '?', len);
    size_t path_len = query != NULL ? (size_t)(query - target) : len;
    char path[REQUEST_PATH_MAX] = "";
    char id[FRAME_UUID_TEXT + 1];

    if (path_len < sizeof(path))
        memcpy(path, target, path_len);
    return find_route(gate, fd, path, id);
}

void
gate_router_unknown_method(const struct gate *gate, int fd, const char *target, size_t len,
                           struct response *ret_response)
{
    const struct gate_route *route = route_of(gate, fd, target, len);

    if (route != NULL)
        make_wrong_method(route, ret_response);
    else
        response_problem(ret_response, 404, 0, NO_ROUTE);
}

static void
respond_without_token(struct gate *gate, struct lws *wsi, const struct gate_route *route,
                      const char *path, enum request_method method, struct response *ret_response)
{
    bool is_head = method == REQUEST_HEAD;

    if ((route == NULL || !route->is_rate_exempt) && !gate_admits_request(gate, wsi))
        response_problem_with(ret_response, 429, 0, GATE_RETRY_SOON, GATE_RATE_EXCEEDED);
    else if (route == NULL)
        response_problem(ret_response, 404, 0, not_found_hint(gate, conn_io_of(wsi).fd, path));
    else if (route->respond != NULL && (method == REQUEST_GET || is_head))
        route->respond(gate, wsi, ret_response);
    else if (route->respond == NULL && method == REQUEST_OPTIONS)
        make_preflight(gate, wsi, route, ret_response);
    else
        make_wrong_method(route, ret_response);
    ret_response->head = is_head;
}

int
gate_router_request(struct gate *gate, struct lws *wsi, void **ret_owner)
{
    char path[REQUEST_PATH_MAX] = "";
    enum request_method method = REQUEST_OTHER;
    char id[FRAME_UUID_TEXT + 1];
    const struct gate_route *route =
        request_path(wsi, &method, path) ? find_route(gate, conn_io_of(wsi).fd, path, id) : NULL;
    struct response response;

    if (route != NULL && route->respond == NULL &&
        method == (route->body_max > 0 ? REQUEST_POST : REQUEST_GET))
        return gate_request_begin(gate, wsi, route, id, ret_owner);
    respond_without_token(gate, wsi, route, path, method, &response);
    if (gate_body_len(wsi) == 0)
        return response_send(wsi, &response);
    return gate_request_discard_body(gate, wsi, &response, ret_owner);
}
