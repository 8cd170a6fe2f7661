/* routes.c: finds what a plain HTTP request asks for, and answers what needs no token. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "gate/gate_request.h"
#include "wire/client_message.h"
#include "wire/frame.h"

#define ORIGIN_MAX 512
#define HOST_MAX 512
#define DETAIL_MAX 4096
#define AUTHORIZATION_MAX (TOKEN_BYTES_MAX + 64)

/* {"status":"ok","feed":"streaming"}; whether main is ready comes back. */
static bool
add_health(struct gate *gate, struct buffer *body, const char *good, const char *bad)
{
    struct buffer detail;
    bool ready;
    enum rc rc;

    buffer_init(&detail, DETAIL_MAX);
    ready = gate->health.ready(gate->health.ctx, &detail) && !gate->draining;
    rc = buffer_addf(body, "{\"status\":\"%s\"%s%s%s}\n",
                     gate->draining ? "draining" : (ready ? good : bad), detail.len > 0 ? "," : "",
                     detail.len > 0 ? detail.bytes : "", "");
    buffer_free(&detail);
    if (rc != RC_OK)
        buffer_clear(body);
    return ready;
}

static void
answer_healthz(struct gate *gate, struct gate_answer *ret_answer)
{
    gate_answer_init(ret_answer, 200, GATE_JSON);
    (void)add_health(gate, &ret_answer->body, "ok", "ok");
}

static void
answer_readyz(struct gate *gate, struct gate_answer *ret_answer)
{
    gate_answer_init(ret_answer, 200, GATE_JSON);
    if (!add_health(gate, &ret_answer->body, "ready", "not ready"))
        ret_answer->status = 503;
}

static void
make_problem(struct gate_answer *ret_answer, int status, const char *header, const char *sentence)
{
    gate_answer_problem(ret_answer, status, 0, sentence);
    if (header != NULL)
        gate_answer_header(ret_answer, "%s", header);
}

static void
answer_metrics(struct gate *gate, struct gate_answer *ret_answer)
{
    gate_answer_init(ret_answer, 200, "text/plain; version=0.0.4");
    if (stats_write(gate->stats, &ret_answer->body) == RC_OK)
        return;
    buffer_free(&ret_answer->body);
    buffer_free(&ret_answer->headers);
    make_problem(ret_answer, 500, NULL, "the metrics do not fit their buffer");
}

static void
answer_upgrade_required(struct gate *gate, struct gate_answer *ret_answer)
{
    (void)gate;
    make_problem(ret_answer, 426, NULL,
                 "/v1/ws is a WebSocket: send Upgrade: websocket, and Connection: Upgrade");
}

/* Only from /console do the page's links lead where they should. */
static void
answer_console_folder(struct gate *gate, struct gate_answer *ret_answer)
{
    (void)gate;
    make_problem(ret_answer, 308, "Location: ../console", "the console is at /console");
}

static const struct gate_route ROUTES[] = {
    {.path = "/healthz",
     .side = GATE_SIDE_BOTH,
     .is_process = true,
     .methods = "GET, HEAD",
     .answer = answer_healthz,
     .is_probe = true},
    {.path = "/readyz",
     .side = GATE_SIDE_BOTH,
     .is_process = true,
     .methods = "GET, HEAD",
     .answer = answer_readyz,
     .is_probe = true},
    {.path = "/metrics",
     .side = GATE_SIDE_ADMIN,
     .is_process = true,
     .methods = "GET, HEAD",
     .answer = answer_metrics},
    {.path = "/v1/ws", .methods = "GET, HEAD", .answer = answer_upgrade_required},
    {.path = "/v1/sse",
     .methods = "GET",
     .headers = gate_sse_headers,
     .act = gate_sse_begin,
     .takes_ticket = true,
     .needs_client = true,
     .is_stream = true,
     .on_lines = gate_sse_lines,
     .on_sweep = gate_sse_sweep,
     .end = gate_sse_end},
    {.path = "/v1/poll",
     .methods = "GET",
     .act = gate_poll_begin,
     .is_stream = true,
     .on_lines = gate_poll_lines,
     .on_writable = gate_poll_writable,
     .on_sweep = gate_poll_sweep,
     .end = gate_poll_end},
    {.path = "/v1/ack", .methods = "POST", .act = gate_api_ack, .is_post = true},
    {.path = "/v1/nack", .methods = "POST", .act = gate_api_nack, .is_post = true},
    {.path = "/v1/ticket",
     .methods = "POST",
     .act = gate_api_ticket,
     .is_post = true,
     .needs_no_body = true},
    {.path = "/v1/notifications",
     .methods = "POST",
     .headers = gate_publish_headers,
     .act = gate_publish,
     .is_post = true},
    {.path = "/v1/notifications/",
     .side = GATE_SIDE_BOTH, /* the console shows it too */
     .methods = "GET",
     .act = gate_publish_timeline,
     .is_prefix = true},
    {.path = "/v1/push",
     .side = GATE_SIDE_ADMIN,
     .methods = "POST",
     .act = gate_api_push,
     .is_post = true},
    {.path = "/console",
     .side = GATE_SIDE_ADMIN,
     .methods = "GET, HEAD",
     .answer = gate_console_page,
     .is_console = true},
    {.path = "/console/",
     .side = GATE_SIDE_ADMIN,
     .methods = "GET, HEAD",
     .answer = answer_console_folder,
     .is_console = true},
    {.path = "/console/console.css",
     .side = GATE_SIDE_ADMIN,
     .methods = "GET, HEAD",
     .answer = gate_console_style,
     .is_console = true},
    {.path = "/console/console.js",
     .side = GATE_SIDE_ADMIN,
     .methods = "GET, HEAD",
     .answer = gate_console_script,
     .is_console = true},
    {.path = "/v1/console",
     .side = GATE_SIDE_ADMIN,
     .methods = "GET",
     .act = gate_console_overview,
     .is_console = true},
    {.path = "/v1/console/errors",
     .side = GATE_SIDE_ADMIN,
     .methods = "GET",
     .act = gate_console_errors,
     .is_console = true},
    {.path = "/v1/console/latest",
     .side = GATE_SIDE_ADMIN,
     .methods = "GET",
     .act = gate_console_latest,
     .is_console = true},
    {.path = "/v1/console/user",
     .side = GATE_SIDE_ADMIN,
     .methods = "GET",
     .act = gate_console_user,
     .is_console = true},
    {.path = "/v1/console/rules",
     .side = GATE_SIDE_ADMIN,
     .methods = "GET",
     .act = gate_console_rules,
     .is_console = true},
    {.path = "/v1/console/notifications",
     .side = GATE_SIDE_ADMIN,
     .methods = "POST",
     .headers = gate_publish_headers,
     .act = gate_console_notify,
     .is_console = true,
     .is_post = true},
    {.path = "/v1/console/redrive",
     .side = GATE_SIDE_ADMIN,
     .methods = "POST",
     .act = gate_console_redrive,
     .is_console = true,
     .is_post = true},
    {.path = "/v1/console/drop",
     .side = GATE_SIDE_ADMIN,
     .methods = "POST",
     .act = gate_console_drop,
     .is_console = true,
     .is_post = true},
};

bool
gate_http_path(struct lws *wsi, int *ret_method, char path[GATE_TARGET_MAX])
{
    char *uri = NULL;
    int len = 0;
    int method = lws_http_get_uri_and_method(wsi, &uri, &len);

    if (method < 0 || uri == NULL || len < 0 || len >= GATE_TARGET_MAX)
        return false;
    memcpy(path, uri, (size_t)len);
    path[len] = '\0';
    *ret_method = method;
    return true;
}

bool
gate_http_origin(struct gate *gate, const char *origins, struct lws *wsi, char **ret_origin)
{
    char origin[ORIGIN_MAX];
    char host[HOST_MAX] = "";
    int len = lws_hdr_copy(wsi, origin, sizeof(origin), WSI_TOKEN_ORIGIN);

    *ret_origin = NULL;
    if (len <= 0)
        return len == 0 && lws_hdr_total_length(wsi, WSI_TOKEN_ORIGIN) == 0;
    if (lws_hdr_copy(wsi, host, sizeof(host), WSI_TOKEN_HOST) <= 0 ||
        !gate_origin_allowed(origins, origin, host)) {
        gate_refused_origin(gate, origins, origin, host);
        return false;
    }
    *ret_origin = memory_text(origin, (size_t)len);
    return true;
}

/* What does not fit is not left out, but becomes a text that nobody takes for a good one. */
static char *
bounded(char *text, size_t max)
{
    if (strlen(text) <= max)
        return text;
    free(text);
    return memory_text(GATE_TOO_LONG, strlen(GATE_TOO_LONG));
}

char *
gate_http_header(struct lws *wsi, const char *name, size_t max)
{
    int name_len = (int)strlen(name);
    int len = lws_hdr_custom_length(wsi, name, name_len);
    char *text;

    if (len <= 0)
        return NULL;
    text = memory_new((size_t)len + 1);
    if (lws_hdr_custom_copy(wsi, text, len + 1, name, name_len) > 0)
        return bounded(text, max);
    free(text);
    return NULL;
}

char *
gate_http_argument(struct lws *wsi, const char *name, size_t max)
{
    size_t name_len = strlen(name);
    bool is_there = true;

    /* Its length does not tell the last from an empty one: "?&pos=..". */
    for (int nth = 0; is_there; nth++) {
        int len = lws_hdr_fragment_length(wsi, WSI_TOKEN_HTTP_URI_ARGS, nth);
        char *text = memory_new((size_t)len + 1);

        is_there = lws_hdr_copy_fragment(wsi, text, len + 1, WSI_TOKEN_HTTP_URI_ARGS, nth) >= 0;
        if (is_there && strncmp(text, name, name_len) == 0) {
            memmove(text, text + name_len, strlen(text) - name_len + 1);
            return bounded(text, max);
        }
        free(text);
    }
    return NULL;
}

char *
gate_http_bearer(struct lws *wsi)
{
    static const char SCHEME[] = "Bearer ";
    int len = lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_AUTHORIZATION);
    char *header;
    char *token = NULL;

    if (len <= 0)
        return NULL;
    if (len > AUTHORIZATION_MAX)
        return memory_text("too long", strlen("too long"));
    header = memory_new((size_t)len + 1);
    if (lws_hdr_copy(wsi, header, len + 1, WSI_TOKEN_HTTP_AUTHORIZATION) > 0 &&
        strncasecmp(header, SCHEME, sizeof(SCHEME) - 1) == 0) {
        const char *text = header + sizeof(SCHEME) - 1;

        text += strspn(text, " ");
        token = memory_text(text, strcspn(text, " "));
    }
    free(header);
    return token;
}

bool
gate_http_has_two_proofs(struct lws *wsi)
{
    char *bearer = gate_http_bearer(wsi);
    char *ticket = gate_http_argument(wsi, "ticket=", GATE_TICKET_MAX);
    bool has_both = bearer != NULL && ticket != NULL;

    free(bearer);
    free(ticket);
    return has_both;
}

bool
gate_http_topics(char *list, const char *names[SESSION_TOPICS_MAX], size_t *ret_count)
{
    size_t count = 0;

    for (char *rest = list, *name; rest != NULL;) {
        size_t len;

        name = strsep(&rest, ",");
        len = strlen(name);
        if (len == 0 || len > CLIENT_MESSAGE_TOPIC_MAX || strcspn(name, "*") + 1 < len ||
            strcmp(name, GATE_TOO_LONG) == 0 || count == SESSION_TOPICS_MAX)
            return false;
        names[count++] = name;
    }
    *ret_count = count;
    return true;
}

/* A page of another origin asks what it may send. */
static void
make_preflight(struct gate *gate, struct lws *wsi, const struct gate_route *route,
               struct gate_answer *ret_answer)
{
    char *origin;

    if (!gate_http_origin(gate, route->is_console ? NULL : gate->config->gate.origins, wsi,
                          &origin)) {
        make_problem(ret_answer, 403, NULL, "pages of this origin may not");
        return;
    }
    gate_answer_init(ret_answer, 204, GATE_JSON);
    gate_answer_header(ret_answer, "Access-Control-Allow-Methods: %s", route->methods);
    gate_answer_header(ret_answer,
                       "Access-Control-Allow-Headers: authorization, content-type, "
                       "last-event-id, idempotency-key, prefer, traceparent, tracestate");
    gate_answer_header(ret_answer, "Access-Control-Max-Age: 600");
    gate_answer_allow(ret_answer, origin);
    free(origin);
}

/* Reads the id behind the path of a route that takes one. */
static bool
take_id(const struct gate_route *route, const char *path, char ret_id[FRAME_UUID_TEXT + 1])
{
    size_t len = strlen(route->path);

    return strncmp(path, route->path, len) == 0 &&
           frame_read_uuid(path + len, strlen(path + len), ret_id);
}

/* Whether the address that connection `fd` came by serves the route. */
static bool
is_served(const struct gate *gate, int fd, const struct gate_route *route)
{
    if (gate->hub == NULL)
        return route->is_process;
    if (route->is_console && !gate->config->gate.console)
        return false;
    if (gate->config->gate.admin_listen == NULL || route->side == GATE_SIDE_BOTH)
        return true;
    return (route->side == GATE_SIDE_ADMIN) == gate_fd_is_admin(gate, fd);
}

static const struct gate_route *
find_route(const struct gate *gate, int fd, const char *path, char ret_id[FRAME_UUID_TEXT + 1])
{
    ret_id[0] = '\0';
    for (size_t i = 0; i < sizeof(ROUTES) / sizeof(ROUTES[0]); i++) {
        const struct gate_route *route = &ROUTES[i];

        if (route->is_prefix ? take_id(route, path, ret_id) : strcmp(path, route->path) == 0)
            return is_served(gate, fd, route) ? route : NULL;
    }
    return NULL;
}

/* What a person in front of a browser asks for first. */
static const char *
nothing_at(const struct gate *gate, int fd, const char *path)
{
    if (strcmp(path, "/") == 0)
        return gate->hub != NULL && !gate_fd_is_admin(gate, fd)
                   ? "this is a clairon relay: clients connect to /v1/ws, /v1/sse or /v1/poll"
                   : "this is a clairon relay: see /healthz, /readyz and /metrics";
    if (gate->hub != NULL && !gate->config->gate.console &&
        (strcmp(path, "/console") == 0 || strcmp(path, "/console/") == 0))
        return "the console is off: gate.console = on turns it on";
    return "there is nothing at this path";
}

static void
make_wrong_method(const struct gate_route *route, struct gate_answer *ret_answer)
{
    char sentence[64];

    snprintf(sentence, sizeof(sentence), "this path answers %s only", route->methods);
    gate_answer_problem(ret_answer, 405, 0, sentence);
    gate_answer_header(ret_answer, "Allow: %s", route->methods);
}

/* NULL: there is nothing. */
static const struct gate_route *
route_of(const struct gate *gate, int fd, const char *target, size_t len)
{
    const char *query = memchr(target, '?', len);
    size_t path_len = query != NULL ? (size_t)(query - target) : len;
    char path[GATE_TARGET_MAX] = "";
    char id[FRAME_UUID_TEXT + 1];

    if (path_len < sizeof(path))
        memcpy(path, target, path_len);
    return find_route(gate, fd, path, id);
}

void
gate_http_stray_method(const struct gate *gate, int fd, const char *target, size_t len,
                       struct gate_answer *ret_answer)
{
    const struct gate_route *route = route_of(gate, fd, target, len);

    if (route != NULL)
        make_wrong_method(route, ret_answer);
    else
        gate_answer_problem(ret_answer, 404, 0, "there is nothing at this path");
}

/* What needs no token. */
static void
answer_anybody(struct gate *gate, struct lws *wsi, const struct gate_route *route, const char *path,
               int method, struct gate_answer *ret_answer)
{
    bool is_head = method == LWSHUMETH_HEAD;

    if ((route == NULL || !route->is_probe) && !gate_admits_request(gate, wsi))
        make_problem(ret_answer, 429, GATE_SOON, GATE_TOO_FAST);
    else if (route == NULL)
        make_problem(ret_answer, 404, NULL, nothing_at(gate, lws_get_socket_fd(wsi), path));
    else if (route->answer != NULL && (method == LWSHUMETH_GET || is_head))
        route->answer(gate, ret_answer);
    else if (route->answer == NULL && method == LWSHUMETH_OPTIONS)
        make_preflight(gate, wsi, route, ret_answer);
    else
        make_wrong_method(route, ret_answer);
    ret_answer->head = is_head;
}

int
gate_http_request(struct gate *gate, struct lws *wsi, struct gate_request **slot)
{
    char path[GATE_TARGET_MAX] = "";
    int method = -1;
    char id[FRAME_UUID_TEXT + 1];
    const struct gate_route *route = gate_http_path(wsi, &method, path)
                                         ? find_route(gate, lws_get_socket_fd(wsi), path, id)
                                         : NULL;
    struct gate_answer answer;

    if (route != NULL && route->answer == NULL &&
        method == (route->is_post ? LWSHUMETH_POST : LWSHUMETH_GET))
        return gate_request_begin(gate, wsi, route, id, slot);
    answer_anybody(gate, wsi, route, path, method, &answer);
    if (gate_body_len(wsi) == 0)
        return gate_answer_send(wsi, &answer);
    return gate_request_pass_over(gate, wsi, &answer, slot);
}
