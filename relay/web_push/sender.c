/*
 * sender.c: a request to a push service, from its encryption to the response. A subscription that
 * the service no longer knows is removed from the store.
 */
#include "web_push/web_push.h"

#include <ev.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/rates.h"
#include "base/stats.h"
#include "http_client/http_client.h"
#include "store/store.h"
#include "wire/http_fields.h"
#include "wire/subscription.h"
#include "wire/push_encryption.h"

#define CONNECTIONS 64
#define SERVICE_CONNECTIONS (CONNECTIONS / 4)
#define RESPONSE_MAX 512
#define RETRY_MAX_MS 86400000
#define LINE_ROOM 128
#define HEADER_MAX 8192

/*
 * The hosts of one item of webpush.origins. One that hangs leaves connections, and requests of the
 * queue, to the others.
 */
struct service {
    struct service *prev, *next; /* in sender->services; the next one to be served first */
    size_t item;                 /* its number in webpush.origins */
    struct web_push_request *waiting, *started; /* oldest first */
    int started_count;
    int count;                 /* of both */
    struct throttles warnings; /* by status */
};

/* A VAPID key and its signed tokens. */
struct sender_key {
    struct web_push_key *key; /* NULL: none */
    struct web_push_tokens *tokens;
};

struct web_push_sender {
    struct ev_loop *loop;
    const struct config *config;
    struct store *store;
    struct stats *stats;
    struct web_push_report *report;
    struct http_client *client;
    struct sender_key keys[CONFIG_VAPID_KEYS_MAX];
    struct service *services;
    int started_count;
    ev_timer soon; /* starts waiting requests */
};

struct web_push_request {
    struct web_push_request *prev, *next; /* in service->waiting or service->started */
    struct web_push_sender *sender;
    struct service *service;
    bool is_started; /* the timeout runs */
    struct http_request *http;
    struct subscription subscription;
    char *user;
    char *origin; /* of the endpoint */
    struct buffer body;
    char ttl[LINE_ROOM], urgency[LINE_ROOM], topic[LINE_ROOM];
    size_t key;         /* index of the VAPID key */
    bool has_other_key; /* the other key was not tried */
    web_push_done *done;
    void *ctx;
};

static void on_soon(struct ev_loop *loop, ev_timer *timer, int events);

struct web_push_sender *
web_push_sender_open(struct ev_loop *loop, const struct config *config, struct store *store,
                     struct stats *stats, struct web_push_report *report)
{
    const struct http_client_settings settings = {.ca_file = config->webpush.ca_file,
                                                  .proxy = config->sink.proxy,
                                                  .allow_private = config->webpush.allow_private,
                                                  .connections = CONNECTIONS,
                                                  .host_connections = SERVICE_CONNECTIONS};
    struct web_push_sender *sender = memory_new(sizeof(*sender));

    sender->loop = loop;
    ev_timer_init(&sender->soon, on_soon, 0, 0);
    sender->soon.data = sender;
    sender->config = config;
    sender->store = store;
    sender->stats = stats;
    sender->report = report;
    report->is_open = true;
    sender->client = http_client_open(loop, &settings);
    for (size_t i = 0; i < CONFIG_VAPID_KEYS_MAX && config->webpush.keys[i] != NULL; i++) {
        const char *fault = NULL;
        struct web_push_key *key =
            web_push_key_parse(config->webpush.keys[i], strlen(config->webpush.keys[i]), &fault);

        if (key != NULL) /* the settings are loaded only if both keys are valid */
            sender->keys[i] =
                (struct sender_key){key, web_push_tokens_new(key, config->webpush.subject)};
    }
    return sender;
}

static void
start_soon(struct web_push_sender *sender)
{
    if (ev_is_active(&sender->soon))
        return;
    ev_timer_set(&sender->soon, 0, 0);
    ev_timer_start(sender->loop, &sender->soon);
}

static void
leave_service(struct web_push_request *request)
{
    struct service *service = request->service;

    service->count--;
    if (!request->is_started) {
        DL_DELETE(service->waiting, request);
        return;
    }
    DL_DELETE(service->started, request);
    service->started_count--;
    request->sender->started_count--;
    start_soon(request->sender);
}

static void
request_free(struct web_push_request *request)
{
    if (request->service != NULL)
        leave_service(request);
    subscription_free(&request->subscription);
    free(request->user);
    free(request->origin);
    buffer_free(&request->body);
    free(request);
}

void
web_push_cancel(struct web_push_request *request)
{
    if (request == NULL)
        return;
    http_request_cancel(request->http);
    request_free(request);
}

void
web_push_sender_close(struct web_push_sender *sender)
{
    struct service *service, *next;

    if (sender == NULL)
        return;
    DL_FOREACH_SAFE (sender->services, service, next) {
        while (service->waiting != NULL)
            web_push_cancel(service->waiting);
        while (service->started != NULL)
            web_push_cancel(service->started);
        free(service);
    }
    ev_timer_stop(sender->loop, &sender->soon);
    http_client_close(sender->client);
    for (size_t i = 0; i < CONFIG_VAPID_KEYS_MAX; i++) {
        web_push_tokens_free(sender->keys[i].tokens);
        web_push_key_free(sender->keys[i].key);
    }
    free(sender);
}

/* ---- the response */

static void
on_removed(void *ctx, enum rc rc, bool has_changed)
{
    (void)ctx;
    (void)has_changed;
    if (rc != RC_OK)
        log_warn("webpush", "could not remove a subscription, the next response removes it");
}

static void
count_rejected(struct stats *stats, int status)
{
    switch (status) {
    case 401:
        stats_add(stats, STAT_PUSH_REJECTED_401, 1);
        break;
    case 403:
        stats_add(stats, STAT_PUSH_REJECTED_403, 1);
        break;
    case 413:
        stats_add(stats, STAT_PUSH_REJECTED_413, 1);
        break;
    default:
        stats_add(stats, STAT_PUSH_REJECTED_400, 1);
        break;
    }
}

static enum web_push_outcome
outcome_of(const struct http_response *response)
{
    if (response->rc != RC_OK)
        return response->rc == RC_BAD ? WEB_PUSH_REJECTED : WEB_PUSH_FAILED;
    if (response->status >= 200 && response->status < 300)
        return WEB_PUSH_SENT;
    if (response->status == 404 || response->status == 410)
        return WEB_PUSH_REMOVED;
    return response->status == 429 || response->status >= 500 ? WEB_PUSH_FAILED : WEB_PUSH_REJECTED;
}

/* Removes the subscription if it is still the user's. */
static void
remove_subscription(const struct web_push_request *request)
{
    enum rc rc = store_subscribe(request->sender->store, request->user,
                                 request->subscription.endpoint, NULL, on_removed, NULL);

    if (rc != RC_OK)
        on_removed(NULL, rc, false);
}

static void
on_failure_stored(void *ctx, enum rc rc)
{
    (void)ctx;
    (void)rc; /* logged; only the console reads it */
}

/* Keeps the last failure of all subscriptions, and of this one, for the console. */
static void
report_failure(const struct web_push_request *request, const struct web_push_result *result)
{
    struct web_push_sender *sender = request->sender;
    struct web_push_report *report = sender->report;
    const char *reason = result->error;
    char status[24];

    if (result->status != 0) {
        snprintf(status, sizeof(status), "status %d", result->status);
        reason = status;
    }
    report->failed_ms = clock_wall_us() / 1000;
    snprintf(report->reason, sizeof(report->reason), "%s: %s", request->origin, reason);
    if (store_save_push_failure(sender->store, request->subscription.endpoint, report->failed_ms,
                                reason, on_failure_stored, NULL) != RC_OK)
        on_failure_stored(NULL, RC_AGAIN);
}

static void
log_failure(const struct web_push_request *request, const struct web_push_result *result)
{
    char status[16];
    unsigned skipped = 0;

    report_failure(request, result);
    if (!throttle_allows(throttles_find(&request->service->warnings, (uint64_t)result->status),
                         clock_monotonic_us(), &skipped))
        return;
    snprintf(status, sizeof(status), "%d", result->status);
    log_warn("webpush", "could not send to a push service", LOG_TEXT("service", request->origin),
             LOG_TEXT("status", result->status != 0 ? status : NULL),
             LOG_TEXT("error", result->error[0] != '\0' ? result->error : NULL),
             LOG_UINT("suppressed", skipped));
}

static bool start(struct web_push_request *request);

static void
on_response(void *ctx, const struct http_response *response)
{
    struct web_push_request *request = ctx;
    struct web_push_sender *sender = request->sender;
    struct web_push_result result = {.outcome = outcome_of(response), .error = response->error};

    request->http = NULL;
    result.status = response->rc == RC_OK ? response->status : 0;
    if ((result.status == 401 || result.status == 403) && request->has_other_key) {
        request->has_other_key = false;
        request->key = 1 - request->key;
        if (start(request))
            return;
    }
    if (result.outcome == WEB_PUSH_FAILED && response->headers[0] != NULL)
        result.retry_ms =
            retry_after_ms(response->headers[0], clock_wall_us() / 1000000, RETRY_MAX_MS);
    if (result.retry_ms < 0)
        result.retry_ms = 0;
    if (result.outcome == WEB_PUSH_SENT)
        stats_add(sender->stats, STAT_PUSH_SENT, 1);
    else if (result.outcome == WEB_PUSH_REMOVED)
        remove_subscription(request);
    else
        log_failure(request, &result);
    if (result.outcome == WEB_PUSH_REJECTED && result.status != 0)
        count_rejected(sender->stats, result.status);
    request->done(request->ctx, &result);
    request_free(request);
}

/* ---- the request */

/* False: the token could not be signed. */
static bool
start(struct web_push_request *request)
{
    struct web_push_sender *sender = request->sender;
    const char *authorization = web_push_authorization(sender->keys[request->key].tokens,
                                                       request->origin, clock_wall_us() / 1000000);
    const char *headers[] = {"Content-Type: application/notification+json",
                             "Content-Encoding: aes128gcm",
                             request->ttl,
                             request->urgency,
                             request->topic,
                             NULL,
                             NULL};
    struct http_request_params params = {.method = HTTP_REQUEST_POST,
                                         .url = request->subscription.endpoint,
                                         .headers = headers,
                                         .body = request->body.bytes,
                                         .body_len = request->body.len,
                                         .timeout_ms = sender->config->webpush.timeout_ms,
                                         .response_max = RESPONSE_MAX,
                                         .wanted_headers = {"Retry-After"}};
    struct buffer line;
    bool is_signed;

    buffer_init(&line, HEADER_MAX);
    is_signed =
        authorization != NULL && buffer_addf(&line, "Authorization: %s", authorization) == RC_OK;
    headers[5] = line.bytes;
    if (is_signed)
        request->http = http_request_start(sender->client, &params, on_response, request);
    buffer_free(&line);
    return is_signed;
}

/* The key that the subscription was made with, otherwise the first one. */
static size_t
key_of(const struct web_push_sender *sender, const struct subscription *subscription)
{
    const struct web_push_key *second = sender->keys[1].key;

    return second != NULL && strcmp(web_push_key_public(second), subscription->key) == 0;
}

/* The signature failed. */
static void
fail(struct web_push_request *request)
{
    const struct web_push_result result = {.outcome = WEB_PUSH_FAILED, .error = "could not sign"};

    log_failure(request, &result);
    request->done(request->ctx, &result);
    request_free(request);
}

/* Returns the request to start next. NULL: none, or there is no free connection. */
static struct web_push_request *
next_request(struct web_push_sender *sender)
{
    struct service *service;

    if (sender->started_count >= CONNECTIONS)
        return NULL;
    DL_FOREACH (sender->services, service) {
        if (service->waiting != NULL && service->started_count < SERVICE_CONNECTIONS)
            return service->waiting;
    }
    return NULL;
}

static void
on_soon(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct web_push_sender *sender = timer->data;
    struct web_push_request *request;

    (void)loop;
    (void)events;
    while ((request = next_request(sender)) != NULL) {
        struct service *service = request->service;

        DL_DELETE(service->waiting, request);
        DL_APPEND(service->started, request);
        request->is_started = true;
        service->started_count++;
        sender->started_count++;
        DL_DELETE(sender->services, service);
        DL_APPEND(sender->services, service); /* the other services first */
        if (!start(request))
            fail(request);
    }
}

static struct service *
service_of(struct web_push_sender *sender, const struct subscription *subscription)
{
    size_t item = subscription_origin_item(sender->config->webpush.origins, subscription->endpoint);
    struct service *service;

    DL_SEARCH_SCALAR(sender->services, service, item, item);
    if (service != NULL)
        return service;
    service = memory_new(sizeof(*service));
    service->item = item;
    DL_APPEND(sender->services, service);
    return service;
}

/* The body for this subscription. False: it is invalid, or OpenSSL failed. */
static bool
encrypt(struct web_push_request *request, const char *subscription,
        const struct web_push_content *content)
{
    return subscription_read(subscription, strlen(subscription), &request->subscription) == RC_OK &&
           web_push_encrypt(&request->subscription.keys, content->body, content->len,
                            &request->body) == RC_OK;
}

enum rc
web_push_send(struct web_push_sender *sender, const char *user, const char *subscription,
              const struct web_push_content *content, web_push_done *done, void *ctx,
              struct web_push_request **ret_request)
{
    struct web_push_request *request = memory_new(sizeof(*request));
    struct service *service;

    request->sender = sender;
    request->done = done;
    request->ctx = ctx;
    buffer_init(&request->body, WEB_PUSH_BODY_MAX);
    if (!encrypt(request, subscription, content)) {
        request_free(request);
        return RC_BAD;
    }
    service = service_of(sender, &request->subscription);
    if (service->count >= WEB_PUSH_SERVICE_MAX) {
        request_free(request);
        return RC_LIMIT;
    }
    request->service = service;
    DL_APPEND(service->waiting, request);
    service->count++;
    request->user = memory_text(user, strlen(user));
    request->origin = memory_text(request->subscription.endpoint, request->subscription.origin_len);
    request->key = key_of(sender, &request->subscription);
    request->has_other_key = sender->keys[1].key != NULL;
    snprintf(request->ttl, LINE_ROOM, "TTL: %" PRId64, content->ttl_s);
    snprintf(request->urgency, LINE_ROOM, "Urgency: %s", content->urgency);
    snprintf(request->topic, LINE_ROOM, "Topic: %s", content->topic);
    start_soon(sender);
    *ret_request = request;
    return RC_OK;
}
