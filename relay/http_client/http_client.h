/*
 * http_client.h: sends HTTP requests to other servers without blocking the loop, with libcurl:
 * HTTP/1.1 and HTTP/2, TLS, connections that are reused.
 *
 * The relay's resolver resolves names, and addresses are checked when a socket is opened. Redirects
 * are not followed. The environment, cookies and .netrc are ignored.
 */
#ifndef CLAIRON_HTTP_CLIENT_H
#define CLAIRON_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

struct ev_loop;
struct http_client;
struct http_request;

/* The strings belong to the caller, until http_client_close. */
struct http_client_settings {
    const char *ca_file; /* PEM, in addition to the system's authorities; NULL: only those */
    /*
     * http://[user:password@]host:port; NULL: no proxy. A proxy resolves and checks the names of
     * servers itself.
     */
    const char *proxy;
    bool allow_private;   /* connect to addresses that are not public */
    int connections;      /* maximum connections, and requests in progress; others wait */
    int host_connections; /* the same for one host and port */
};

/*
 * Connections are shared by all requests of a client, so requests that differ in these settings
 * need separate clients. A client without requests for a minute has no connections.
 */
struct http_client *http_client_open(struct ev_loop *loop,
                                     const struct http_client_settings *settings);
/* Cancels all requests. Not from a callback. Accepts NULL. */
void http_client_close(struct http_client *client);

enum http_request_method { HTTP_REQUEST_GET, HTTP_REQUEST_POST, HTTP_REQUEST_PUT };

#define HTTP_RESPONSE_HEADERS_MAX 4

struct http_request_params {
    enum http_request_method method;
    const char *url;            /* http or https */
    const char *const *headers; /* "name: value", ends with NULL; NULL: none */
    const char *body;           /* of POST and PUT; belongs to the caller until the end */
    size_t body_len;
    int64_t timeout_ms;  /* from the call to the end of the response, with any wait */
    size_t response_max; /* bytes of the response's body that are kept */
    /* names of the response headers that are returned; constants */
    const char *wanted_headers[HTTP_RESPONSE_HEADERS_MAX];
};

/* Valid during the callback. */
struct http_response {
    /*
     * RC_OK: `status` is set. RC_BAD: the URL is invalid, or its address is not public.
     * RC_IO: no complete response; a retry may succeed.
     */
    enum rc rc;
    int status;
    const char *error; /* "" for RC_OK; without the URL, which may contain a secret */
    const char *body;  /* zero-terminated */
    size_t body_len;
    bool is_truncated;                              /* the body was longer than response_max */
    const char *headers[HTTP_RESPONSE_HEADERS_MAX]; /* as in wanted_headers; NULL: missing */
};

typedef void http_request_done(void *ctx, const struct http_response *response);

/*
 * Calls back once, from the loop, unless http_request_cancel is called first; both free the
 * request. The callback may start and cancel other requests. `params` is used only during the call.
 */
struct http_request *http_request_start(struct http_client *client,
                                        const struct http_request_params *params,
                                        http_request_done *done, void *ctx);
void http_request_cancel(struct http_request *request); /* accepts NULL */

#endif
