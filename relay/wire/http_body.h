/*
 * http_body.h: the body of an HTTP/1.1 request: of a known length, or in chunks. Pure: no I/O.
 */
#ifndef CLAIRON_WIRE_HTTP_BODY_H
#define CLAIRON_WIRE_HTTP_BODY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"
#include "wire/bytes.h"
#include "wire/http_head.h"

#define HTTP_CHUNK_EXTENSIONS_MAX 256
#define HTTP_TRAILERS_MAX 4096

enum http_body_part {
    HTTP_BODY_DATA,       /* `left` bytes, of the body or of a chunk */
    HTTP_BODY_DATA_END,   /* the line end after a chunk */
    HTTP_BODY_SIZE,       /* of a chunk */
    HTTP_BODY_EXTENSIONS, /* to the line end */
    HTTP_BODY_TRAILERS,
    HTTP_BODY_COMPLETE,
};

struct http_body {
    enum http_body_part part;
    bool is_chunked;
    bool has_return; /* the last byte was a carriage return */
    int digits;      /* of the size */
    int64_t left;
    size_t seen; /* bytes of the extensions, of the trailers or of a trailer's line */
    size_t line; /* bytes of the trailer's line */
};

/* The part is HTTP_BODY_COMPLETE if the request has no body. */
void http_body_begin(struct http_body *body, const struct http_head *head);
/*
 * Parses bytes up to the end of a piece of data; *ret_used bytes are consumed, which includes all
 * data in *ret_data. RC_OK: valid. RC_BAD: invalid, which is final; *ret_why is the reason.
 */
MUST_CHECK enum rc http_body_next(struct http_body *body, const char *bytes, size_t len,
                                  size_t *ret_used, struct bytes *ret_data, const char **ret_why);

#endif
