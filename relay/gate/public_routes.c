/* public_routes.c: the routes without a token: health probes, metrics, documents of the API. */
#include "gate/routes.h"

#include <stdlib.h>
#include <string.h>

#include "gate/gate.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "wire/http_head.h"

#define READY_DETAIL_MAX 4096
#define NEED_MAX 16
#define ETAGS_MAX 1024

/* Writes {"status":"ok","feed":"streaming"}. Returns whether the process is ready. */
static bool
add_health(struct gate *gate, bool needs_feed, struct buffer *body, const char *good,
           const char *bad)
{
    struct buffer detail;
    bool ready;
    enum rc rc;

    buffer_init(&detail, READY_DETAIL_MAX);
    ready =
        gate->process->ready(gate->process->ctx, needs_feed, &detail) && gate->state == GATE_OPEN;
    rc = buffer_addf(body, "{\"status\":\"%s\"%s%s}\n",
                     gate->state != GATE_OPEN ? "draining" : (ready ? good : bad),
                     detail.len > 0 ? "," : "", detail.len > 0 ? detail.bytes : "");
    buffer_free(&detail);
    if (rc != RC_OK)
        buffer_clear(body);
    return ready;
}

void
gate_probe_healthz(struct conn *conn, struct response *ret_response)
{
    response_init(ret_response, 200, GATE_JSON);
    (void)add_health(conn->gate, false, &ret_response->body, "ok", "ok");
}

void
gate_probe_readyz(struct conn *conn, struct response *ret_response)
{
    char *need = NULL;
    enum rc rc = http_head_argument(conn->head, "need=", NEED_MAX, &need);
    bool needs_feed = need != NULL && strcmp(need, "feed") == 0;

    if (rc != RC_OK || (need != NULL && !needs_feed)) {
        response_problem(ret_response, 400, 0, "need: expected feed");
    } else {
        response_init(ret_response, 200, GATE_JSON);
        if (!add_health(conn->gate, needs_feed, &ret_response->body, "ready", "not ready"))
            ret_response->status = 503;
    }
    free(need);
}

/*
 * The documents describe every relay of this version, and contain nothing of this one: they need no
 * token, and pages of any origin may read them.
 */
void
gate_api_document(struct conn *conn, struct response *ret_response)
{
    const struct http_head *head = conn->head;
    const bool is_openapi =
        memmem(head->bytes + head->target, head->path_len, "openapi", strlen("openapi")) != NULL;
    const char *text = is_openapi ? gate_api_openapi : gate_api_asyncapi;
    const char *etag = is_openapi ? gate_api_openapi_etag : gate_api_asyncapi_etag;
    char *cached = NULL;
    const bool is_cached = http_head_text(head, "if-none-match", ETAGS_MAX, &cached) == RC_OK &&
                           cached != NULL &&
                           (strcmp(cached, "*") == 0 || strstr(cached, etag) != NULL);

    free(cached);
    response_init(ret_response, is_cached ? 304 : 200, GATE_JSON);
    ret_response->has_etag = true;
    response_header(ret_response, "ETag: %s", etag);
    response_header(ret_response, "Access-Control-Allow-Origin: *");
    if (!is_cached && buffer_add(&ret_response->body, text, strlen(text)) != RC_OK)
        ret_response->status = 500;
}

void
gate_probe_metrics(struct conn *conn, struct response *ret_response)
{
    response_init(ret_response, 200, "text/plain; version=0.0.4");
    if (stats_write(conn->gate->stats, &ret_response->body) == RC_OK)
        return;
    buffer_free(&ret_response->body);
    buffer_free(&ret_response->headers);
    response_problem(ret_response, 500, 0, "metrics exceed the buffer limit");
}
