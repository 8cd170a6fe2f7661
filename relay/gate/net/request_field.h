/* request_field.h: reads the request head that libwebsockets holds until the response. */
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
    REQUEST_OTHER /* any other method that passes http/head_check.c */
};

enum request_field {
    FIELD_VERSION, /* of the request line, such as "HTTP/1.1" */
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

/* False: no path, or a longer one. */
bool request_path(struct lws *wsi, enum request_method *ret_method, char path[REQUEST_PATH_MAX]);

/* Length of the value in bytes, all lines of the field together; 0 or less: missing or empty. */
int request_field_len(struct lws *wsi, enum request_field field);
/*
 * Copies the value with a terminating zero. Returns its length; 0: missing or empty; -1: does not
 * fit.
 */
int request_field_copy(struct lws *wsi, enum request_field field, char *text, size_t size);

/* Does the field have this value? Letter case is ignored. */
bool request_field_is(struct lws *wsi, enum request_field field, const char *value);
/* A copy of the value; NULL: missing or empty. The caller frees. */
char *request_field_text(struct lws *wsi, enum request_field field);

/* Returned by request_header and request_argument for a value that is too long; never valid. */
#define REQUEST_TOO_LONG "?"
/*
 * The value of a header, by its name in lower case with a colon; NULL: missing. The caller frees.
 */
char *request_header(struct lws *wsi, const char *name, size_t max);
/* Is the header present and empty? */
bool request_header_is_empty(struct lws *wsi, const char *name);
/* The value of a query argument, by a name such as "pos=". The caller frees. */
char *request_argument(struct lws *wsi, const char *name, size_t max);

#endif
