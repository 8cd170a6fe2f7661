/*
 * http_client.c: requests wait for the address of their host and for a free connection, then
 * libcurl sends them on the event loop.
 *
 * libcurl must never resolve a name: it would start a thread, and connect to an address that the
 * relay has not seen. Each request hands its addresses to libcurl (CURLOPT_RESOLVE), and
 * libcurl's resolver is rejected (on_resolve).
 */
#include "http_client/http_client.h"

#include <ctype.h>
#include <curl/curl.h>
#include <ev.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <uthash.h>
#include <utlist.h>

#include "base/addresses.h"
#include "base/memory.h"
#include "decoder/protocol/version.h"
#include "http_client/names.h"

#define CONNECTION_AGE_S 300L /* older connections are not reused: addresses change */
#define IDLE_S 60.0           /* without requests; then connections are closed */
/* libcurl's copy of addresses; longer than requests last, because each request renews it */
#define CURL_NAME_AGE_S 3600L
#define DISCARD_MAX (16 * 1024) /* bytes read beyond response_max, to reuse the connection */
#define ERROR_MAX (CURL_ERROR_SIZE + 64)
#define PORT_TEXT_MAX 8

/* A host and port with requests. */
struct host {
    UT_hash_handle hh;
    struct host *prev, *next;     /* in client->queued, while requests wait */
    struct http_request *waiting; /* oldest first */
    int running;
    struct name *name; /* the name to look up: of the host, or of the proxy */
    char key[];        /* name:port */
};

/*
 * WAITING: in the list of its host, until the address is known and a connection is free. Next:
 * RUNNING; ENDED if the lookup fails, or on a timeout.
 *
 * RUNNING: libcurl connects, sends and receives. Next: ENDED.
 *
 * ENDED: in client->ended. The callback is called in the next loop iteration, then it is freed.
 */
enum request_state { REQUEST_WAITING, REQUEST_RUNNING, REQUEST_ENDED };

struct http_request {
    enum request_state state;
    struct http_client *client;
    struct host *host;                /* NULL in ENDED */
    struct http_request *prev, *next; /* in host->waiting, client->running or client->ended */
    http_request_done *done;
    void *ctx;
    ev_timer deadline;
    int64_t timeout_ms;
    enum http_request_method method;
    CURLU *url;
    struct curl_slist *headers;
    struct curl_slist *addresses; /* CURLOPT_RESOLVE */
    const char *body;
    size_t body_len;
    const char *wanted[HTTP_RESPONSE_HEADERS_MAX];
    CURL *easy; /* NULL: libcurl has not started it */
    struct buffer received;
    size_t discarded; /* bytes of the body after `received` */
    enum rc rc;
    char rejected_address[RESOLVE_ADDRESS_MAX]; /* not public; "": none */
    bool has_socket;                            /* for another address */
    char error[ERROR_MAX];
};

/* A socket that libcurl watches. */
struct watch {
    ev_io io;
    struct watch *prev, *next;
};

struct http_client {
    struct ev_loop *loop;
    struct http_client_settings settings;
    char proxy_host[NAME_LEN_MAX + 1];
    char proxy_port[PORT_TEXT_MAX];
    bool proxy_is_numeric;
    CURLM *multi;   /* NULL until the first request, and when idle */
    ev_timer timer; /* of libcurl */
    ev_timer soon;  /* runs client_run */
    ev_timer idle;  /* closes `multi` */
    struct watch *watches;
    struct names names;
    struct host *hosts;  /* hash */
    struct host *queued; /* hosts with waiting requests; the next one to be served first */
    struct http_request *running;
    int running_count;
    struct http_request *ended; /* oldest first */
};

/* ---- turns of the client */

/* Schedules client_run for the next loop iteration. */
static void
run_soon(struct http_client *client)
{
    if (ev_is_active(&client->soon))
        return;
    ev_timer_set(&client->soon, 0, 0);
    ev_timer_start(client->loop, &client->soon);
}

/* ---- hosts */

static struct host *
host_find(struct http_client *client, const char *text, const char *port, bool is_numeric)
{
    char key[NAME_LEN_MAX + PORT_TEXT_MAX + 2];
    int len = snprintf(key, sizeof(key), "%s:%s", text, port);
    struct host *host;

    HASH_FIND(hh, client->hosts, key, (size_t)len, host);
    if (host != NULL)
        return host;
    host = memory_new(sizeof(*host) + (size_t)len + 1);
    memcpy(host->key, key, (size_t)len);
    host->name = client->settings.proxy != NULL
                     ? name_ref(&client->names, client->proxy_host, client->proxy_is_numeric)
                     : name_ref(&client->names, text, is_numeric);
    HASH_ADD_KEYPTR(hh, client->hosts, host->key, (size_t)len, host);
    return host;
}

/* Removes the request from its host, which is freed if it was the last. */
static void
leave_host(struct http_request *request)
{
    struct http_client *client = request->client;
    struct host *host = request->host;

    request->host = NULL;
    if (request->state == REQUEST_WAITING) {
        DL_DELETE(host->waiting, request);
        if (host->waiting == NULL)
            DL_DELETE(client->queued, host);
    } else {
        DL_DELETE(client->running, request);
        host->running--;
        client->running_count--;
        run_soon(client); /* a connection is free */
    }
    if (host->waiting != NULL || host->running > 0)
        return;
    name_unref(host->name);
    HASH_DEL(client->hosts, host);
    free(host);
}

/* ---- the end of requests */

static void
request_free(struct http_request *request)
{
    struct http_client *client = request->client;

    ev_timer_stop(client->loop, &request->deadline);
    if (request->host != NULL)
        leave_host(request);
    if (request->easy != NULL) {
        (void)curl_multi_remove_handle(client->multi, request->easy);
        curl_easy_cleanup(request->easy);
    }
    curl_slist_free_all(request->headers);
    curl_slist_free_all(request->addresses);
    curl_url_cleanup(request->url);
    buffer_free(&request->received);
    free(request);
}

/* Removes the request from libcurl, and schedules the callback. */
static void
request_end(struct http_request *request, enum rc rc)
{
    struct http_client *client = request->client;

    ev_timer_stop(client->loop, &request->deadline);
    if (request->host != NULL)
        leave_host(request);
    if (request->easy != NULL)
        (void)curl_multi_remove_handle(client->multi, request->easy);
    request->state = REQUEST_ENDED;
    request->rc = rc;
    DL_APPEND(client->ended, request);
    run_soon(client);
}

static void
request_fail(struct http_request *request, enum rc rc, const char *what, const char *why)
{
    (void)snprintf(request->error, sizeof(request->error), "%s%s", what, why);
    request_end(request, rc);
}

static int
status_of(const struct http_request *request)
{
    long status = 0;

    if (request->easy != NULL)
        (void)curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
    return (int)status;
}

static void
call_back(struct http_request *request)
{
    struct http_response response = {
        .rc = request->rc,
        .status = request->rc == RC_OK ? status_of(request) : 0,
        .error = request->rc == RC_OK ? "" : request->error,
        .body = request->received.bytes != NULL ? request->received.bytes : "",
        .body_len = request->received.len,
        .is_truncated = request->discarded > 0,
    };

    for (size_t i = 0; i < HTTP_RESPONSE_HEADERS_MAX && request->rc == RC_OK; i++) {
        struct curl_header *header;

        if (request->wanted[i] != NULL && curl_easy_header(request->easy, request->wanted[i], 0,
                                                           CURLH_HEADER, -1, &header) == CURLHE_OK)
            response.headers[i] = header->value;
    }
    request->done(request->ctx, &response);
    request_free(request);
}

/* The phase in which a request timed out. */
static const char *
phase_of(const struct http_request *request)
{
    curl_off_t connected = 0, responded = 0;

    if (request->state == REQUEST_WAITING)
        return request->host->name->lookup != NULL ? "resolving the host"
                                                   : "waiting for a connection";
    (void)curl_easy_getinfo(request->easy, CURLINFO_PRETRANSFER_TIME_T, &connected);
    (void)curl_easy_getinfo(request->easy, CURLINFO_STARTTRANSFER_TIME_T, &responded);
    return responded > 0   ? "receiving the response"
           : connected > 0 ? "waiting for the response"
                           : "connecting";
}

static void
on_deadline(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct http_request *request = timer->data;

    (void)loop;
    (void)events;
    (void)snprintf(request->error, sizeof(request->error), "timeout after %lld ms: %s",
                   (long long)request->timeout_ms, phase_of(request));
    request_end(request, RC_IO);
}

/* libcurl has ended the request. A response of which the rest is not read is complete. */
static void
handle_result(struct http_request *request, CURLcode result)
{
    if (result == CURLE_OK || (request->discarded > DISCARD_MAX && status_of(request) > 0))
        request_end(request, RC_OK);
    else if (request->rejected_address[0] != '\0' && !request->has_socket)
        request_fail(request, RC_BAD, "address is not public: ", request->rejected_address);
    else if (request->error[0] != '\0')
        request_end(request, RC_IO);
    else
        request_fail(request, RC_IO, curl_easy_strerror(result), "");
}

/* ---- libcurl on the event loop */

static void
collect_results(struct http_client *client)
{
    struct CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(client->multi, &left)) != NULL) {
        CURLcode result = message->data.result; /* the message is freed with its handle */
        char *request = NULL;

        if (message->msg != CURLMSG_DONE)
            continue;
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &request);
        handle_result((void *)request, result);
    }
}

static void
on_ready(struct ev_loop *loop, ev_io *io, int events)
{
    struct http_client *client = io->data;
    int mask = ((events & EV_READ) != 0 ? CURL_CSELECT_IN : 0) |
               ((events & EV_WRITE) != 0 ? CURL_CSELECT_OUT : 0);
    int running;

    (void)loop;
    (void)curl_multi_socket_action(client->multi, io->fd, mask, &running);
    collect_results(client);
}

static void
on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct http_client *client = timer->data;
    int running;

    (void)loop;
    (void)events;
    (void)curl_multi_socket_action(client->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    collect_results(client);
}

static int
on_timer_change(CURLM *multi, long timeout_ms, void *ctx)
{
    struct http_client *client = ctx;

    (void)multi;
    ev_timer_stop(client->loop, &client->timer);
    if (timeout_ms >= 0) {
        ev_timer_set(&client->timer, (double)timeout_ms / 1000, 0);
        ev_timer_start(client->loop, &client->timer);
    }
    return 0;
}

static void
watch_free(struct http_client *client, struct watch *watch)
{
    ev_io_stop(client->loop, &watch->io);
    DL_DELETE(client->watches, watch);
    free(watch);
}

static int
on_socket_change(CURL *easy, curl_socket_t fd, int what, void *ctx, void *watched)
{
    struct http_client *client = ctx;
    struct watch *watch = watched;
    int events = (what != CURL_POLL_OUT ? EV_READ : 0) | (what != CURL_POLL_IN ? EV_WRITE : 0);

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (watch != NULL)
            watch_free(client, watch);
        (void)curl_multi_assign(client->multi, fd, NULL);
        return 0;
    }
    if (watch == NULL) {
        watch = memory_new(sizeof(*watch));
        ev_init(&watch->io, on_ready);
        watch->io.data = client;
        DL_APPEND(client->watches, watch);
        (void)curl_multi_assign(client->multi, fd, watch);
    }
    ev_io_stop(client->loop, &watch->io);
    ev_io_set(&watch->io, fd, events);
    ev_io_start(client->loop, &watch->io);
    return 0;
}

static void
multi_close(struct http_client *client)
{
    if (client->multi == NULL)
        return;
    (void)curl_multi_cleanup(client->multi);
    while (client->watches != NULL)
        watch_free(client, client->watches);
    ev_timer_stop(client->loop, &client->timer);
    client->multi = NULL;
    curl_global_cleanup();
}

/* libcurl counts curl_global_init and curl_global_cleanup. */
static bool
multi_open(struct http_client *client)
{
    const struct http_client_settings *settings = &client->settings;

    if (client->multi != NULL)
        return true;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return false;
    client->multi = curl_multi_init();
    if (client->multi == NULL) {
        curl_global_cleanup();
        return false;
    }
    (void)curl_multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, on_socket_change);
    (void)curl_multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client);
    (void)curl_multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, on_timer_change);
    (void)curl_multi_setopt(client->multi, CURLMOPT_TIMERDATA, client);
    (void)curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, (long)settings->connections);
    (void)curl_multi_setopt(client->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS,
                            (long)settings->connections);
    (void)curl_multi_setopt(client->multi, CURLMOPT_MAX_HOST_CONNECTIONS,
                            (long)settings->host_connections);
    return true;
}

static void
on_idle(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct http_client *client = timer->data;

    (void)loop;
    (void)events;
    multi_close(client);
}

/* ---- callbacks of a request in libcurl */

/* Called before libcurl resolves a host that has no address yet. */
static int
on_resolve(void *state, void *reserved, void *ctx)
{
    const struct http_request *request = ctx;

    (void)state;
    (void)reserved;
    return request->host->name->is_numeric ? 0 : 1;
}

/* Called with the address of each attempt to connect; with a proxy, with that of the proxy. */
static curl_socket_t
on_open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct http_request *request = ctx;
    const struct http_client *client = request->client;
    char text[RESOLVE_ADDRESS_MAX] = "unknown";

    (void)purpose;
    if (client->settings.proxy == NULL && !client->settings.allow_private) {
        if (getnameinfo(&address->addr, address->addrlen, text, sizeof(text), NULL, 0,
                        NI_NUMERICHOST) != 0 ||
            !networks_is_public(text)) {
            memcpy(request->rejected_address, text, sizeof(text));
            return CURL_SOCKET_BAD;
        }
    }
    request->has_socket = true;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static size_t
on_body(char *bytes, size_t size, size_t len, void *ctx)
{
    struct http_request *request = ctx;
    size_t room = request->received.limit - request->received.len;
    size_t kept = size * len < room ? size * len : room;

    if (kept > 0 && buffer_add(&request->received, bytes, kept) != RC_OK)
        return CURL_WRITEFUNC_ERROR;
    request->discarded += size * len - kept;
    return request->discarded > DISCARD_MAX ? CURL_WRITEFUNC_ERROR : size * len;
}

/* ---- the start of requests in libcurl */

#define SET(option, value) (curl_easy_setopt(request->easy, (option), (value)) == CURLE_OK)

static bool
set_method(struct http_request *request)
{
    if (request->method == HTTP_REQUEST_GET)
        return SET(CURLOPT_HTTPGET, 1L);
    return SET(CURLOPT_POST, 1L) && SET(CURLOPT_POSTFIELDS, request->body) &&
           SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_len) &&
           (request->method == HTTP_REQUEST_POST || SET(CURLOPT_CUSTOMREQUEST, "PUT"));
}

/*
 * OpenSSL reads one file of the system's folder for a chain of certificates. It would parse all of
 * the system's bundle for each connection, which blocks the loop for milliseconds.
 */
static bool
set_authorities(struct http_request *request)
{
    const char *ca_file = request->client->settings.ca_file;

    if (curl_version_info(CURLVERSION_NOW)->capath != NULL)
        return SET(CURLOPT_CAINFO, ca_file);
    return ca_file == NULL || SET(CURLOPT_CAINFO, ca_file);
}

/* An empty proxy and "*" make libcurl ignore the environment. */
static bool
set_route(struct http_request *request)
{
    const struct http_client *client = request->client;
    bool is_proxied = client->settings.proxy != NULL;

    return SET(CURLOPT_PROXY, is_proxied ? client->settings.proxy : "") &&
           SET(CURLOPT_NOPROXY, is_proxied ? "" : "*") &&
           SET(CURLOPT_OPENSOCKETFUNCTION, on_open_socket) &&
           SET(CURLOPT_OPENSOCKETDATA, request) &&
           SET(CURLOPT_RESOLVER_START_FUNCTION, on_resolve) &&
           SET(CURLOPT_RESOLVER_START_DATA, request) &&
           SET(CURLOPT_DNS_CACHE_TIMEOUT, CURL_NAME_AGE_S) &&
           SET(CURLOPT_MAXLIFETIME_CONN, CONNECTION_AGE_S) &&
           SET(CURLOPT_RESOLVE, request->addresses);
}

static bool
set_options(struct http_request *request)
{
    return SET(CURLOPT_PRIVATE, request) && SET(CURLOPT_ERRORBUFFER, request->error) &&
           SET(CURLOPT_CURLU, request->url) && SET(CURLOPT_PROTOCOLS_STR, "http,https") &&
           SET(CURLOPT_FOLLOWLOCATION, 0L) && SET(CURLOPT_NOSIGNAL, 1L) &&
           SET(CURLOPT_USERAGENT, "clairon/" CLAIRON_VERSION) &&
           SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS) &&
           SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) &&
           SET(CURLOPT_HTTPHEADER, request->headers) && SET(CURLOPT_WRITEFUNCTION, on_body) &&
           SET(CURLOPT_WRITEDATA, request) && set_method(request) && set_authorities(request) &&
           set_route(request);
}

#undef SET

/* host:port:addresses; the + limits libcurl's copy to CURL_NAME_AGE_S. */
static bool
set_addresses(struct http_request *request)
{
    const struct http_client *client = request->client;
    const struct name *name = request->host->name;
    const char *port = client->proxy_port;
    char text[NAME_ADDRESSES_MAX + NAME_LEN_MAX + PORT_TEXT_MAX + 4];

    if (name->is_numeric)
        return true;
    if (client->settings.proxy == NULL)
        port = strrchr(request->host->key, ':') + 1;
    (void)snprintf(text, sizeof(text), "+%s:%s:%s", name->text, port, name->addresses.bytes);
    request->addresses = curl_slist_append(NULL, text);
    return request->addresses != NULL;
}

static void
request_run(struct http_request *request)
{
    struct http_client *client = request->client;
    struct host *host = request->host;

    DL_DELETE(host->waiting, request);
    DL_DELETE(client->queued, host);
    if (host->waiting != NULL)
        DL_APPEND(client->queued, host); /* the other hosts first */
    request->state = REQUEST_RUNNING;
    DL_APPEND(client->running, request);
    host->running++;
    client->running_count++;
    if (multi_open(client))
        request->easy = curl_easy_init();
    if (request->easy == NULL || !set_addresses(request) || !set_options(request) ||
        curl_multi_add_handle(client->multi, request->easy) != CURLM_OK)
        request_fail(request, RC_IO, "out of memory", "");
}

/* ---- waiting requests */

/* Fails the waiting requests of this name, and frees hosts. */
static void
fail_waiting(struct http_client *client, const struct name *name, const char *error)
{
    struct host *host, *next_host;

    DL_FOREACH_SAFE (client->queued, host, next_host) {
        struct http_request *request, *next;

        if (host->name != name)
            continue;
        for (request = host->waiting; request != NULL; request = next) {
            next = request->next;
            request_fail(request, RC_IO, "could not resolve host: ", error);
        }
    }
}

static void
on_looked_up(void *ctx, const struct name *name, const char *error)
{
    struct http_client *client = ctx;

    if (error != NULL)
        fail_waiting(client, name, error);
    run_soon(client);
}

/* Returns a host that can run its next request; starts lookups. */
static struct host *
next_host(struct http_client *client)
{
    struct host *host, *next;

    DL_FOREACH_SAFE (client->queued, host, next) {
        if (!name_is_known(host->name)) {
            if (name_look_up(host->name) != RC_IO)
                continue;
            fail_waiting(client, host->name, "could not start a process");
            return NULL;
        }
        if (host->running < client->settings.host_connections)
            return host;
    }
    return NULL;
}

static void
on_soon(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct http_client *client = timer->data;
    struct http_request *request;
    struct host *host;
    int ended_count;

    (void)events;
    while (client->running_count < client->settings.connections &&
           (host = next_host(client)) != NULL)
        request_run(host->waiting);
    /* Requests that end during the callbacks wait for the next iteration. */
    DL_COUNT(client->ended, request, ended_count);
    for (; ended_count > 0 && (request = client->ended) != NULL; ended_count--) {
        DL_DELETE(client->ended, request);
        call_back(request);
    }
    ev_timer_stop(loop, &client->idle);
    if (client->multi != NULL && client->running == NULL) {
        ev_timer_set(&client->idle, IDLE_S, 0);
        ev_timer_start(loop, &client->idle);
    }
}

/* ---- requests and clients */

/*
 * Reads host and port of a URL as libcurl will use them: numeric spellings such as 127.1 become an
 * address, capitals small letters. A final dot is removed, because libcurl's list of addresses
 * ignores it. Returns NULL, or the problem.
 */
static const char *
parse_url(CURLU *url, const char *text, char ret_host[NAME_LEN_MAX + 1],
          char ret_port[PORT_TEXT_MAX])
{
    char *scheme = NULL, *host = NULL, *port = NULL;
    const char *wrong = "invalid URL";
    size_t len;

    if (url != NULL && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK) {
        len = strlen(host);
        for (size_t i = 0; i < len; i++)
            host[i] = (char)tolower((unsigned char)host[i]);
        if (len > 1 && host[len - 1] == '.')
            host[--len] = '\0';
        if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)
            wrong = "URL must start with https:// or http://";
        else if (len == 0 || len > NAME_LEN_MAX || strlen(port) >= PORT_TEXT_MAX)
            wrong = "invalid host in the URL";
        else if (host[strspn(host, "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]%")] != '\0')
            wrong = "host in the URL must be ASCII: write international names in Punycode";
        else if (curl_url_set(url, CURLUPART_HOST, host, 0) == CURLUE_OK)
            wrong = NULL;
    }
    if (wrong == NULL) {
        (void)snprintf(ret_host, NAME_LEN_MAX + 1, "%s", host);
        (void)snprintf(ret_port, PORT_TEXT_MAX, "%s", port);
    }
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    return wrong;
}

static bool
is_numeric_host(const char *host)
{
    return host[0] == '[' || networks_is_address(host);
}

/* Without "Expect: 100-continue", a large body is sent without a wait. */
static bool
copy_headers(struct http_request *request, const char *const *headers)
{
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");

    for (; list != NULL && headers != NULL && *headers != NULL; headers++) {
        struct curl_slist *longer = curl_slist_append(list, *headers);

        if (longer == NULL)
            curl_slist_free_all(list);
        list = longer;
    }
    request->headers = list;
    return list != NULL;
}

struct http_request *
http_request_start(struct http_client *client, const struct http_request_params *params,
                   http_request_done *done, void *ctx)
{
    struct http_request *request = memory_new(sizeof(*request));
    char text[NAME_LEN_MAX + 1], port[PORT_TEXT_MAX];
    const char *wrong;
    struct host *host;

    request->client = client;
    request->done = done;
    request->ctx = ctx;
    request->method = params->method;
    request->body = params->body != NULL ? params->body : "";
    request->body_len = params->body_len;
    request->timeout_ms = params->timeout_ms;
    memcpy(request->wanted, params->wanted_headers, sizeof(request->wanted));
    buffer_init(&request->received, params->response_max);
    ev_timer_init(&request->deadline, on_deadline, (double)params->timeout_ms / 1000, 0);
    request->deadline.data = request;
    request->url = curl_url();
    wrong = parse_url(request->url, params->url, text, port);
    if (wrong != NULL || !copy_headers(request, params->headers)) {
        request_fail(request, wrong != NULL ? RC_BAD : RC_IO, "",
                     wrong != NULL ? wrong : "out of memory");
        return request;
    }
    host = request->host = host_find(client, text, port, is_numeric_host(text));
    if (host->waiting == NULL)
        DL_APPEND(client->queued, host);
    DL_APPEND(host->waiting, request);
    ev_timer_start(client->loop, &request->deadline);
    run_soon(client);
    return request;
}

void
http_request_cancel(struct http_request *request)
{
    if (request == NULL)
        return;
    if (request->state == REQUEST_ENDED)
        DL_DELETE(request->client->ended, request);
    request_free(request);
}

/* The settings check the URL of a proxy; an invalid one fails all requests. */
static void
open_proxy(struct http_client *client)
{
    CURLU *url = curl_url();

    (void)parse_url(url, client->settings.proxy, client->proxy_host, client->proxy_port);
    curl_url_cleanup(url);
    client->proxy_is_numeric = is_numeric_host(client->proxy_host);
}

struct http_client *
http_client_open(struct ev_loop *loop, const struct http_client_settings *settings)
{
    struct http_client *client = memory_new(sizeof(*client));

    client->loop = loop;
    client->settings = *settings;
    ev_init(&client->timer, on_timer);
    ev_init(&client->soon, on_soon);
    ev_init(&client->idle, on_idle);
    client->timer.data = client->soon.data = client->idle.data = client;
    client->names = (struct names){.loop = loop, .done = on_looked_up, .ctx = client};
    if (settings->proxy != NULL)
        open_proxy(client);
    return client;
}

void
http_client_close(struct http_client *client)
{
    if (client == NULL)
        return;
    while (client->queued != NULL)
        http_request_cancel(client->queued->waiting);
    while (client->running != NULL)
        http_request_cancel(client->running);
    while (client->ended != NULL)
        http_request_cancel(client->ended);
    names_free(&client->names);
    multi_close(client);
    ev_timer_stop(client->loop, &client->soon);
    ev_timer_stop(client->loop, &client->idle);
    free(client);
}
