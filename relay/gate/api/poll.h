/* poll.h: GET /v1/poll: long polling. */
#ifndef CLAIRON_GATE_API_POLL_H
#define CLAIRON_GATE_API_POLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ev.h>

#include "gate/http/request.h"
#include "hub/session.h"

/* request->route_state of the route */
struct gate_poll {
    int64_t deadline_us;
    struct ev_timer recheck; /* runs after the wait, until the store has replied */
    struct out lines;        /* the body of the response */
    int max;                 /* maximum number of notifications */
    int line_count;
    bool has_lines;            /* contains a line that ends the poll */
    bool is_full;              /* the response is full */
    char pos[SESSION_POS_MAX]; /* cursor of the last line */
};

void gate_poll_begin(struct gate_request *request);
bool gate_poll_lines(struct gate_request *request, const struct gate_frame *frame);
void gate_poll_writable(struct gate_request *request);
void gate_poll_sweep(struct gate_request *request, int64_t now_us, int64_t wall_us);
/* The client half-closed: ends the wait. */
void gate_poll_half_closed(struct gate_request *request);
void gate_poll_end(struct gate_request *request, int code, const char *reason, int64_t in_ms);
void gate_poll_free(struct gate_request *request);

#endif
