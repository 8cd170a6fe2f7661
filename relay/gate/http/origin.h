/* origin.h: which web pages may speak to this relay. */
#ifndef CLAIRON_GATE_HTTP_ORIGIN_H
#define CLAIRON_GATE_HTTP_ORIGIN_H

#include <stdbool.h>

struct gate;
struct lws;

/* Does gate.origins (NULL: the same host only) allow a page of `origin` to reach `host`? Pure. */
bool gate_origin_allowed(const char *origins, const char *origin, const char *host);

#define GATE_ORIGIN_NOT_ALLOWED "origin not allowed"

/*
 * The Origin header, if it is allowed; NULL if there is none. False: it is not allowed, which is
 * logged, not each time. The caller frees. `origins`: NULL: of the same host.
 */
bool gate_origin_read(struct gate *gate, const char *origins, struct lws *wsi, char **ret_origin);

#endif
