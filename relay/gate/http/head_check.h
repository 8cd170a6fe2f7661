/* head_check.h: validates the head of a request before libwebsockets reads it. */
#ifndef CLAIRON_GATE_HTTP_HEAD_CHECK_H
#define CLAIRON_GATE_HTTP_HEAD_CHECK_H

#include <stddef.h>

#include "base/rc.h"

struct gate;
struct response;
struct http_head;

/* The response to a method that no route has: 405, or 404. */
typedef void unknown_method_response(const struct gate *gate, int fd, const char *target,
                                     size_t len, struct response *ret_response);

/*
 * The first bytes of a request on `fd`. RC_OK: lws may read it; RC_AGAIN: valid so far, and more is
 * to come; RC_BAD: *ret_response has the reason.
 */
MUST_CHECK enum rc gate_head_check(const struct gate *gate, int fd, const char *bytes, size_t len,
                                   unknown_method_response *on_unknown_method,
                                   struct http_head *ret_head, struct response *ret_response);
void gate_head_timed_out(struct response *ret_response);

#define GATE_LINGER_US 2000000        /* for the client to read the response */
#define GATE_LINGER_BYTES (64 * 1024) /* that it may still send */

#endif
