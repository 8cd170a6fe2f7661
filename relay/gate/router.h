/* router.h: finds the route of a request. */
#ifndef CLAIRON_GATE_ROUTER_H
#define CLAIRON_GATE_ROUTER_H

struct conn;

/* Serves the request of conn->head. */
void gate_router_serve(struct conn *conn);

#endif
