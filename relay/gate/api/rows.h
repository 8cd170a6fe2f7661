/* rows.h: GET /v1/rows: the rows of a live rule. */
#ifndef CLAIRON_GATE_API_ROWS_H
#define CLAIRON_GATE_API_ROWS_H

#include "gate/http/request.h"
#include "hub/hub.h"

struct rows_request;

/* request->route_state of the route */
struct gate_rows {
    struct rows_request *request; /* NULL: rejected */
    struct hub_cursor reached;    /* the rows must contain all changes up to it */
    char *source;                 /* NULL: the request has none */
    char *rule;
};

void gate_rows_begin(struct gate_request *request);
void gate_rows_free(struct gate_request *request);

#endif
