/*
 * http_head.h: the head of an HTTP/1.1 request. Rejects what HTTP parsers could interpret
 * differently. Pure: no I/O.
 */
#ifndef CLAIRON_WIRE_HTTP_HEAD_H
#define CLAIRON_WIRE_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

#define HTTP_HEAD_LINES_MAX 128
#define HTTP_HEAD_ARGUMENTS_MAX 32

enum http_method { HTTP_GET, HTTP_HEAD, HTTP_POST, HTTP_OPTIONS, HTTP_DELETE, HTTP_OTHER };

/*
 * A zeroed head expects the first line. All positions count from the start of the head, so that the
 * bytes may move until the head is complete.
 */
struct http_head {
    const char *bytes; /* of the complete head */
    size_t len;        /* of the complete head */
    size_t parsed;     /* end of the last complete line */
    size_t fields;     /* start of the first header */
    int lines;         /* complete lines */
    unsigned seen;     /* bitmap of headers that must be unique */
    uint16_t target;   /* path and query */
    uint16_t target_len;
    uint16_t path_len;      /* without the query; 0: * or a URI without a path */
    uint16_t authority_len; /* before the target, if it is an absolute URI; otherwise 0 */
    bool is_1_1;            /* otherwise HTTP/1.0 */
    bool is_chunked;        /* Transfer-Encoding: chunked */
    bool has_length;        /* Content-Length */
    bool is_last;           /* Connection: close */
    bool offers_websocket;  /* Upgrade: websocket */
    bool connects_upgrade;  /* Connection: upgrade */
    enum http_method method;
    int64_t content_length; /* INT64_MAX: this or longer */
};

/*
 * Parses the first `len` bytes of a request, which must include those of earlier calls; complete
 * lines are not parsed again. RC_AGAIN: incomplete but valid so far. RC_OK: complete, and
 * head->bytes is set. RC_LIMIT: more than `max` bytes, or too many lines. RC_BAD: invalid by RFC
 * 9112, or ambiguous; *ret_why is the reason.
 */
MUST_CHECK enum rc http_head_parse(struct http_head *head, const char *bytes, size_t len,
                                   size_t max, const char **ret_why);

/* The functions below require a complete head. */

/*
 * True if the path consists of unreserved characters and single slashes, and no segment starts with
 * a dot, so that parsers neither decode nor normalize it.
 */
bool http_head_has_plain_path(const struct http_head *head);
/* An upgrade to another protocol may be ignored (RFC 9110, 7.8). */
bool http_head_is_websocket(const struct http_head *head);

/* Header names are in lower case. */
bool http_head_has(const struct http_head *head, const char *name);
/* Whether the header has this value, case-insensitively. */
bool http_head_is(const struct http_head *head, const char *name, const char *value);

/*
 * The functions below read a value, which the caller frees; NULL: missing. RC_LIMIT: it has more
 * than `max` bytes.
 */

/* A header, with all its lines joined by commas; an empty one is missing. */
MUST_CHECK enum rc http_head_text(const struct http_head *head, const char *name, size_t max,
                                  char **ret_text);
/* RFC 9112, 3.2.2: the authority of the target, or else the header Host. */
MUST_CHECK enum rc http_head_host(const struct http_head *head, size_t max, char **ret_text);
/* A decoded argument of the query, by a name such as "pos=". */
MUST_CHECK enum rc http_head_argument(const struct http_head *head, const char *name, size_t max,
                                      char **ret_text);
/* Like http_head_argument, for a body of the type application/x-www-form-urlencoded. */
MUST_CHECK enum rc http_form_argument(const char *body, size_t len, const char *name, size_t max,
                                      char **ret_text);
/*
 * The decoded segment of the path between a prefix and a suffix; missing in other paths, and if
 * parsers remove it (. and ..).
 */
MUST_CHECK enum rc http_head_segment(const struct http_head *head, const char *prefix,
                                     const char *suffix, size_t max, char **ret_text);

#endif
