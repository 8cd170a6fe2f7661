/* response.h: an HTTP response. */
#ifndef CLAIRON_GATE_HTTP_RESPONSE_H
#define CLAIRON_GATE_HTTP_RESPONSE_H

#include <stdbool.h>

#include "base/buffer.h"
#include "wire/codes.h"

#define GATE_JSON "application/json"

struct lws;

struct gate_answer {
    int status;
    const char *type;
    bool head; /* the body's length, but not the body */
    struct buffer headers;
    struct buffer body;
};

void gate_answer_init(struct gate_answer *answer, int status, const char *type);
/* As RFC 9457 has it; `code` is one of `err`, or 0. */
void gate_answer_problem(struct gate_answer *answer, int status, int code, const char *sentence);
/* Likewise, with a header line; NULL: none. */
void gate_answer_problem_with(struct gate_answer *answer, int status, const char *header,
                              const char *sentence);
/* A line without its \r\n; one that does not fit is left out. */
void gate_answer_header(struct gate_answer *answer, const char *format, ...) PRINTF_LIKE(2, 3);
/* Lets pages of `origin` read the response; NULL changes nothing. */
void gate_answer_allow(struct gate_answer *answer, const char *origin);
/* The whole as bytes, and frees the response. */
MUST_CHECK enum rc gate_answer_build(struct gate_answer *answer, struct buffer *out);
/* Writes and frees it, from a callback of lws; always -1: every response ends its connection. */
int gate_answer_send(struct lws *wsi, struct gate_answer *answer);

#endif
