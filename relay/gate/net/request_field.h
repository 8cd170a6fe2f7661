/* request_field.h: reads the request head, which libwebsockets keeps until the response. */
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
    REQUEST_OTHER /* any other method that http/head_check.c accepts */
};

enum request_field {
    FIELD_VERSION, /* in the request line, such as "HTTP/1.1" */
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

/* False: the path is missing or too long. */
bool request_path(struct lws *wsi, enum request_method *ret_method, char path[REQUEST_PATH_MAX]);

/*
 * Returns the length of the value in bytes, including all lines of the field; 0 or less: missing or
 * empty.
 */
int request_field_len(struct lws *wsi, enum request_field field);
/*
 * Copies the value with a terminating zero. Returns its length; 0: missing or empty; -1: does not
 * fit.
 */
int request_field_copy(struct lws *wsi, enum request_field field, char *text, size_t size);

/* Whether the field has this value, case-insensitively. */
bool request_field_is(struct lws *wsi, enum request_field field, const char *value);
/* Returns a copy of the value; NULL: missing or empty. The caller frees it. */
char *request_field_text(struct lws *wsi, enum request_field field);

/* Returned by request_header and request_argument for a value that is too long; never valid. */
#define REQUEST_TOO_LONG "?"
/*
 * Returns the value of a header, by its lower case name with a colon; NULL: missing. The caller
 * frees it.
 */
char *request_header(struct lws *wsi, const char *name, size_t max);
/* Whether the header is present and empty. */
bool request_header_is_empty(struct lws *wsi, const char *name);
/* Returns the value of a query argument, by a name such as "pos=". The caller frees it. */
char *request_argument(struct lws *wsi, const char *name, size_t max);

#endif
