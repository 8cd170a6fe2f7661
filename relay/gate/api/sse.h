/* sse.h: GET /v1/sse: a session as server-sent events. */
#ifndef CLAIRON_GATE_API_SSE_H
#define CLAIRON_GATE_API_SSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gate/http/request.h"
#include "gate/http/auth.h"

/* request->route_state of the route */
struct gate_sse {
    char *pos; /* NULL: none */
    char *topics;
    char *lists;
    int64_t ping_due_us;
    struct gate_expiry expiry;
};

void gate_sse_headers(struct gate_request *request);
void gate_sse_begin(struct gate_request *request);
bool gate_sse_lines(struct gate_request *request, const struct gate_frame *frame);
void gate_sse_sweep(struct gate_request *request, int64_t now_us, int64_t wall_us);
void gate_sse_end(struct gate_request *request, int code, const char *reason, int64_t in_ms);
void gate_sse_free(struct gate_request *request);

#endif
