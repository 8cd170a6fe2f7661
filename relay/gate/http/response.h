/* response.h: builds an HTTP response. */
#ifndef CLAIRON_GATE_HTTP_RESPONSE_H
#define CLAIRON_GATE_HTTP_RESPONSE_H

#include <stdbool.h>

#include "base/buffer.h"
#include "gate/net/conn.h"
#include "wire/codes.h"

#define GATE_JSON "application/json"

struct response {
    int status;
    const char *type;
    bool head; /* omit the body, but keep its length */
    struct buffer headers;
    struct buffer body;
    struct out lines; /* the rest of the body, of a poll */
};

void response_init(struct response *response, int status, const char *type);
/* Builds a problem document (RFC 9457). `code` is an enum gate_err, or 0. */
void response_problem(struct response *response, int status, int code, const char *detail);
/* Like response_problem, with an additional header line; NULL: none. */
void response_problem_with(struct response *response, int status, int code, const char *header,
                           const char *detail);
/* Adds a header line, without \r\n. A line that does not fit is dropped. */
void response_header(struct response *response, const char *format, ...) PRINTF_LIKE(2, 3);
/* Adds CORS headers for pages of `origin`; NULL: no headers. */
void response_allow_origin(struct response *response, const char *origin);
/*
 * Writes head and body to `out`. Frees the response, except `lines`, which the caller writes.
 * `is_last`: the connection ends after the response.
 */
MUST_CHECK enum rc response_build(struct response *response, bool is_last, struct buffer *out);

#endif
