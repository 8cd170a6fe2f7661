/* response.h: an HTTP response. */
#ifndef CLAIRON_GATE_HTTP_RESPONSE_H
#define CLAIRON_GATE_HTTP_RESPONSE_H

#include <stdbool.h>

#include "base/buffer.h"
#include "wire/codes.h"

#define GATE_JSON "application/json"

struct lws;

struct response {
    int status;
    const char *type;
    bool head; /* the body's length, but not the body */
    struct buffer headers;
    struct buffer body;
};

void response_init(struct response *response, int status, const char *type);
/* As RFC 9457 has it; `code` is one of `err`, or 0. */
void response_problem(struct response *response, int status, int code, const char *detail);
/* The same with a header line; NULL: none. */
void response_problem_with(struct response *response, int status, int code, const char *header,
                           const char *detail);
/* A line without its \r\n; one that does not fit is left out. */
void response_header(struct response *response, const char *format, ...) PRINTF_LIKE(2, 3);
/* Lets pages of `origin` read the response; NULL changes nothing. */
void response_allow_origin(struct response *response, const char *origin);
/* The whole as bytes, and frees the response. */
MUST_CHECK enum rc response_build(struct response *response, struct buffer *out);
/* Writes and frees it, from a callback of lws; always -1: every response ends its connection. */
int response_send(struct lws *wsi, struct response *response);

#endif
