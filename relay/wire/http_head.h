/*
 * http_head.h: rejects request headers that HTTP parsers could interpret differently. Pure: no I/O.
 */
#ifndef CLAIRON_WIRE_HTTP_HEAD_H
#define CLAIRON_WIRE_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"

#define HTTP_HEAD_LINES_MAX 128
#define HTTP_HEAD_ARGUMENTS_MAX 32

/* Points into the header. */
struct http_head {
    const char *method;
    size_t method_len;
    const char *target; /* starts with a slash */
    size_t target_len;
    size_t len;        /* length of the whole header */
    bool is_websocket; /* a WebSocket upgrade; Connection contains "upgrade" too */
    /*
     * Start of the line with an Upgrade header for another protocol, which may be ignored (RFC
     * 9110, 7.8). NULL: no such header.
     */
    const char *idle_upgrade;
};

/*
 * Validates the received bytes of a request. RC_AGAIN: incomplete but valid so far. RC_OK:
 * complete. RC_LIMIT: more than `max` bytes, or too many lines. RC_BAD: invalid by RFC 9112, or
 * ambiguous; *ret_why is the reason.
 */
MUST_CHECK enum rc http_head_check(const char *bytes, size_t len, size_t max,
                                   struct http_head *ret_head, const char **ret_why);

/*
 * True if the path consists of unreserved characters and single slashes, and no segment starts with
 * a dot, so that parsers neither decode nor normalize it.
 */
bool http_head_has_plain_path(const struct http_head *head);

#endif
