/* router.h: finds the route of a request. */
#ifndef CLAIRON_GATE_ROUTER_H
#define CLAIRON_GATE_ROUTER_H

#include <stddef.h>

struct gate;
struct response;
struct lws;

/* Dispatches a request. Returns the lws callback result. */
int gate_router_request(struct gate *gate, struct lws *wsi, void **ret_owner);
/* Builds the response to a method that lws cannot parse: 405 or 404. */
void gate_router_unknown_method(const struct gate *gate, int fd, const char *target, size_t len,
                                struct response *ret_response);

#endif
