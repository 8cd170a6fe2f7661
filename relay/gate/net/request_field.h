/* request_field.h: reads the request whose head libwebsockets holds; only until its answer. */
#ifndef CLAIRON_GATE_NET_REQUEST_FIELD_H
#define CLAIRON_GATE_NET_REQUEST_FIELD_H

#include <stdbool.h>
#include <stddef.h>

struct lws;

enum request_method {
    REQUEST_GET,
    REQUEST_HEAD,
    REQUEST_POST,
    REQUEST_OPTIONS,
    REQUEST_OTHER /* of those that pass http/head_check.c */
};

enum request_field {
    FIELD_VERSION, /* of the request line: "HTTP/1.1" */
    FIELD_HOST,
    FIELD_ORIGIN,
    FIELD_AUTHORIZATION,
    FIELD_CONTENT_LENGTH,
    FIELD_TRANSFER_ENCODING,
    FIELD_EXPECT,
    FIELD_FORWARDED_FOR,
    FIELD_UPGRADE,
    FIELD_WEBSOCKET_PROTOCOL,
    FIELD_WEBSOCKET_KEY,
    FIELD_WEBSOCKET_VERSION,
};

#define REQUEST_PATH_MAX 256

/* False: there is none, or a longer one. */
bool request_path(struct lws *wsi, enum request_method *ret_method, char path[REQUEST_PATH_MAX]);

/* Bytes of a field's value, of all its lines together; 0 or less: it is missing or empty. */
int request_field_len(struct lws *wsi, enum request_field field);
/* Copies it with a terminating zero. Its bytes; 0: missing or empty; -1: longer than `size`. */
int request_field_copy(struct lws *wsi, enum request_field field, char *text, size_t size);

/* Does the field have this value? Letter case is ignored. */
bool request_field_is(struct lws *wsi, enum request_field field, const char *value);
/* A copy of the value; NULL: missing or empty. The caller frees. */
char *request_field_text(struct lws *wsi, enum request_field field);

/* What request_header and request_argument return for a longer value: no valid one looks so. */
#define REQUEST_TOO_LONG "?"
/* A header by its name in lower case with a colon; NULL: none. The caller frees. */
char *request_header(struct lws *wsi, const char *name, size_t max);
/* Is the header there, and empty? */
bool request_header_is_empty(struct lws *wsi, const char *name);
/* Likewise, an argument of the query, as "pos=". */
char *request_argument(struct lws *wsi, const char *name, size_t max);

#endif
