/* probes.c: GET /healthz, /readyz and /metrics. */
#include "gate/api/probes.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "gate/api/process.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "wire/http_head.h"

#define READY_DETAIL_MAX 4096
#define NEED_MAX 16

/* Writes {"status":"ok","feed":"streaming"}. Returns whether the process is ready. */
static bool
add_health(struct gate *gate, bool needs_feed, struct buffer *body, const char *good,
           const char *bad)
{
    struct buffer detail;
    bool ready;
    enum rc rc;

    buffer_init(&detail, READY_DETAIL_MAX);
    ready = gate->process->ready(gate->process->ctx, needs_feed, &detail) && !gate->draining;
    rc = buffer_addf(body, "{\"status\":\"%s\"%s%s%s}\n",
                     gate->draining ? "draining" : (ready ? good : bad), detail.len > 0 ? "," : "",
                     detail.len > 0 ? detail.bytes : "", "");
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
    char *need = http_head_argument(conn->head, "need=", NEED_MAX);
    bool needs_feed = need != NULL && strcmp(need, "feed") == 0;

    if (need != NULL && !needs_feed) {
        response_problem(ret_response, 400, 0, "need: expected feed");
    } else {
        response_init(ret_response, 200, GATE_JSON);
        if (!add_health(conn->gate, needs_feed, &ret_response->body, "ready", "not ready"))
            ret_response->status = 503;
    }
    free(need);
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
