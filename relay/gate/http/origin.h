/* origin.h: the Origin of web pages. */
#ifndef CLAIRON_GATE_HTTP_ORIGIN_H
#define CLAIRON_GATE_HTTP_ORIGIN_H

#include <stdbool.h>

struct conn;

/* Whether gate.origins (NULL: same host only) allows pages of `origin` to access `host`. Pure. */
bool gate_origin_allowed(const char *origins, const char *origin, const char *host);

#define GATE_ORIGIN_NOT_ALLOWED "origin not allowed"

/*
 * Reads the Origin header if it is allowed; NULL: absent. False: not allowed, which is logged at a
 * limited rate. `origins` NULL: same host only. The caller frees *ret_origin.
 */
bool gate_origin_read(struct conn *conn, const char *origins, char **ret_origin);

#endif
