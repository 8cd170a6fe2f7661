/* head_check.h: validates a request head before libwebsockets reads it. */
#ifndef CLAIRON_GATE_HTTP_HEAD_CHECK_H
#define CLAIRON_GATE_HTTP_HEAD_CHECK_H

#include <stddef.h>

#include "base/rc.h"

struct gate;
struct response;
struct http_head;

/* Builds the response to a method that no route has: 405 or 404. */
typedef void unknown_method_response(const struct gate *gate, int fd, const char *target,
                                     size_t len, struct response *ret_response);

/*
 * Checks the first bytes of a request on `fd`. RC_OK: lws may read the head. RC_AGAIN: valid but
 * incomplete. RC_BAD: *ret_response is the error.
 */
MUST_CHECK enum rc gate_head_check(const struct gate *gate, int fd, const char *bytes, size_t len,
                                   unknown_method_response *on_unknown_method,
                                   struct http_head *ret_head, struct response *ret_response);
void gate_head_timed_out(struct response *ret_response);

#define GATE_LINGER_US 2000000        /* time in which the client can read the response */
#define GATE_LINGER_BYTES (64 * 1024) /* maximum bytes that are discarded while lingering */

#endif
