/* http_head.h: whether the head of an HTTP request means the same to everybody. Pure: no I/O. */
#ifndef CLAIRON_WIRE_HTTP_HEAD_H
#define CLAIRON_WIRE_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"

#define HTTP_HEAD_LINES_MAX 128
#define HTTP_HEAD_ARGUMENTS_MAX 32

/* Views of the head. */
struct http_head {
    const char *method;
    size_t method_len;
    const char *target; /* begins with a slash */
    size_t target_len;
    size_t len;        /* bytes of the whole head */
    bool is_websocket; /* it asks for one, in Connection too */
    /*
     * The name of an Upgrade that is no request for a WebSocket, which takes `Connection: Upgrade`
     * too. It may be passed over (RFC 9110, 7.8). NULL: there is none.
     */
    const char *idle_upgrade;
};

/*
 * Looks at what has come of a request. RC_AGAIN: its head is not complete, and good so far. RC_OK:
 * it is. RC_LIMIT: it has more than `max` bytes, or too many lines. RC_BAD: it is not what RFC 9112
 * has, or two readers might read it differently; *ret_why says how, in one sentence.
 */
MUST_CHECK enum rc http_head_check(const char *bytes, size_t len, size_t max,
                                   struct http_head *ret_head, const char **ret_why);

#endif
