/* webhook.c: the webhook, which POSTs receipts to an endpoint as Standard Webhooks defines. */
#include "sink/sink_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "http_client/http_client.h"
#include "wire/http_fields.h"
#include "wire/webhook_signature.h"

#define BATCH_BYTES ((size_t)1024 * 1024)
#define BODY_BYTES_MAX ((size_t)64 * 1024 * 1024) /* a notification has at most 16 MB */
#define RETRY_BASE_MS 1000
#define RETRY_CAP_MS 300000
#define RESPONSE_MAX 1024
#define ID_MAX 80
#define NOTIFICATION_ID_LEN 36
#define STATUS_GONE 410
#define CHECK_TIMEOUT_MS 5000

/*
 * LOADING: reads the notification of an escalation. SENDING: a request is in progress. WAITING: for
 * the next attempt, with the same id and body.
 */
enum request_state { REQUEST_LOADING, REQUEST_SENDING, REQUEST_WAITING };

/* A batch and its request. */
struct request {
    struct request *prev, *next;
    struct webhook *webhook;
    struct sink_batch *batch; /* NULL: forgotten while the store was asked */
    enum request_state state;
    struct http_request *http; /* in SENDING */
    ev_timer again;            /* in WAITING */
    unsigned failures;
    char id[ID_MAX];
    struct buffer body;
};

struct webhook {
    struct sink *sink;
    struct ev_loop *loop;
    const struct config *config;
    struct store *store;
    struct stats *stats;
    struct http_client *client;
    struct webhook_secrets secrets;
    struct request *requests;
    uint64_t sent; /* number of ids */
    bool has_failed;
    struct throttle warning;
};

/* ---- the outcome in an id: <notification>:<user>:<outcome>:<round>; a user may contain colons */

static struct bytes
outcome_of(struct bytes id)
{
    const unsigned char *end = memrchr(id.at, ':', id.len);
    const unsigned char *colon = end != NULL ? memrchr(id.at, ':', (size_t)(end - id.at)) : NULL;

    return colon != NULL ? (struct bytes){colon + 1, (size_t)(end - colon - 1)}
                         : (struct bytes){NULL, 0};
}

static bool
wants(void *ctx, struct bytes id)
{
    const struct webhook *webhook = ctx;
    const struct bytes outcome = outcome_of(id);
    char text[16];

    if (webhook->config->webhook.outcomes == NULL)
        return true;
    snprintf(text, sizeof(text), "%.*s", (int)outcome.len,
             outcome.at != NULL ? (const char *)outcome.at : "");
    return config_list_contains(webhook->config->webhook.outcomes, text);
}

/* An escalation carries its notification, which may be large. */
static bool
is_escalation(void *ctx, struct bytes id)
{
    static const char escalated[] = "escalated";
    const struct bytes outcome = outcome_of(id);

    (void)ctx;
    return outcome.len >= sizeof(escalated) - 1 &&
           memcmp(outcome.at, escalated, sizeof(escalated) - 1) == 0;
}

/* ---- a request */

static void
request_free(struct request *request)
{
    struct webhook *webhook = request->webhook;

    http_request_cancel(request->http);
    ev_timer_stop(webhook->loop, &request->again);
    DL_DELETE(webhook->requests, request);
    buffer_free(&request->body);
    free(request);
}

/* A request that waits for the store is freed by its callback. */
static void
forget(struct request *request)
{
    request->batch = NULL;
    if (request->state != REQUEST_LOADING)
        request_free(request);
}

static void
forget_all(struct webhook *webhook)
{
    struct request *request, *next;

    DL_FOREACH_SAFE (webhook->requests, request, next)
        forget(request);
}

static void
warn(struct webhook *webhook, const struct http_response *response, int64_t delay_ms)
{
    unsigned skipped = 0;

    if (!throttle_allows(&webhook->warning, clock_monotonic_us(), &skipped))
        return;
    log_warn("sink", "webhook request failed", LOG_TEXT("sink", "webhook"),
             LOG_INT("status", response->rc == RC_OK ? response->status : 0),
             LOG_TEXT("error", response->rc == RC_OK ? NULL : response->error),
             LOG_INT("retry_ms", delay_ms), LOG_UINT("suppressed", skipped));
}

static void on_again(struct ev_loop *loop, ev_timer *timer, int events);

static void
wait_for(struct request *request, void (*next)(struct ev_loop *loop, ev_timer *timer, int events),
         int64_t delay_ms)
{
    request->state = REQUEST_WAITING;
    ev_timer_init(&request->again, next, (double)delay_ms / 1e3, 0.);
    ev_timer_start(request->webhook->loop, &request->again);
}

static void
repeat_later(struct request *request, const struct http_response *response)
{
    struct webhook *webhook = request->webhook;
    int64_t delay_ms =
        backoff_full_ms(&(struct backoff){RETRY_BASE_MS, RETRY_CAP_MS, request->failures++});
    int64_t wanted_ms = -1;
    char status[24];

    if (response->headers[0] != NULL)
        wanted_ms = retry_after_ms(response->headers[0], clock_wall_us() / 1000000, RETRY_CAP_MS);
    if (delay_ms < wanted_ms)
        delay_ms = wanted_ms;
    if (delay_ms > RETRY_CAP_MS)
        delay_ms = RETRY_CAP_MS;
    snprintf(status, sizeof(status), "status %d", response->status);
    sink_failed(webhook->sink, "webhook request failed",
                response->rc == RC_OK ? status : response->error);
    warn(webhook, response, delay_ms);
    webhook->has_failed = true;
    wait_for(request, on_again, delay_ms);
}

static void
on_response(void *ctx, const struct http_response *response)
{
    struct request *request = ctx;
    struct webhook *webhook = request->webhook;
    struct sink_batch *batch = request->batch;

    request->http = NULL;
    if (response->rc == RC_OK && response->status == STATUS_GONE) {
        sink_switch(webhook->sink, false);
    } else if (response->rc != RC_OK || response->status < 200 || response->status > 299) {
        repeat_later(request, response);
    } else {
        if (webhook->has_failed)
            log_info("sink", "sink takes receipts again", LOG_TEXT("sink", "webhook"));
        webhook->has_failed = false;
        request_free(request);
        sink_batch_done(batch);
    }
}

static void
post(struct request *request)
{
    struct webhook *webhook = request->webhook;
    int64_t now_s = clock_wall_us() / 1000000;
    char signature[WEBHOOK_SIGNATURE_MAX], id[ID_MAX + 16], timestamp[48];
    char header[WEBHOOK_SIGNATURE_MAX + 32];
    const char *headers[] = {"content-type: application/json", id, timestamp, header, NULL};
    const struct http_request_params params = {.method = HTTP_REQUEST_POST,
                                               .url = webhook->config->webhook.url,
                                               .headers = headers,
                                               .body = request->body.bytes,
                                               .body_len = request->body.len,
                                               .timeout_ms = webhook->config->webhook.timeout_ms,
                                               .response_max = RESPONSE_MAX,
                                               .wanted_headers = {"Retry-After"}};

    webhook_sign(&webhook->secrets, request->id, now_s, request->body.bytes, request->body.len,
                 signature);
    snprintf(id, sizeof(id), "webhook-id: %s", request->id);
    snprintf(timestamp, sizeof(timestamp), "webhook-timestamp: %" PRId64, now_s);
    snprintf(header, sizeof(header), "webhook-signature: %s", signature);
    request->state = REQUEST_SENDING;
    request->http = http_request_start(webhook->client, &params, on_response, request);
}

/* Receipts beyond the retention are not sent any more. */
static void
on_again(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct request *request = timer->data;
    struct sink_batch *batch = request->batch;

    (void)loop;
    (void)events;
    if (!sink_batch_is_trimmed(batch)) {
        post(request);
        return;
    }
    request_free(request);
    sink_batch_drop(batch);
}

/* ---- the body */

/* Adds `n` to the last receipt, which is a JSON object. */
static enum rc
add_notification(struct buffer *body, struct bytes notification)
{
    enum rc rc = RC_OK;

    if (notification.len == 0 || body->len == 0 || body->bytes[body->len - 1] != '}')
        return RC_OK;
    body->bytes[--body->len] = '\0';
    rc = buffer_add(body, ",\"n\":", 5);
    if (rc == RC_OK)
        rc = buffer_add(body, notification.at, notification.len);
    return rc == RC_OK ? buffer_add(body, "}", 1) : rc;
}

/* BODY_BYTES_MAX is above the sum of all limits. */
static enum rc
build_body(struct request *request, struct bytes notification)
{
    static const char begin[] = "{\"type\":\"receipts\",\"receipts\":[";
    const struct sink_receipt *receipt;
    struct buffer *body = &request->body;
    enum rc rc = buffer_add(body, begin, sizeof(begin) - 1);

    DL_FOREACH (request->batch->receipts, receipt) {
        if (rc == RC_OK && receipt->prev->next != NULL)
            rc = buffer_add(body, ",", 1);
        if (rc == RC_OK)
            rc = buffer_add(body, receipt->data.at, receipt->data.len);
    }
    if (rc == RC_OK)
        rc = add_notification(body, notification);
    return rc == RC_OK ? buffer_add(body, "]}", 2) : rc;
}

static void
begin(struct request *request, struct bytes notification)
{
    struct sink_batch *batch = request->batch;

    if (build_body(request, notification) == RC_OK) {
        post(request);
        return;
    }
    log_error("sink", "receipt too large for the webhook, dropping it");
    request_free(request);
    sink_batch_drop(batch);
}

static void on_load_again(struct ev_loop *loop, ev_timer *timer, int events);

static void
on_notification(void *ctx, enum rc rc, struct bytes data)
{
    struct request *request = ctx;

    if (request->batch == NULL)
        request_free(request);
    else if (rc == RC_OK)
        begin(request, data);
    else
        wait_for(request, on_load_again, RETRY_BASE_MS);
}

/* The store has the notification while it is pending; it is added when it is sent. */
static void
load(struct request *request)
{
    struct webhook *webhook = request->webhook;
    const struct sink_receipt *receipt = request->batch->receipts;
    char id[NOTIFICATION_ID_LEN + 1];

    snprintf(id, sizeof(id), "%.*s", (int)receipt->id.len, (const char *)receipt->id.at);
    request->state = REQUEST_LOADING;
    if (store_receipts_read_notification(webhook->store, receipt->shard->number, id,
                                         on_notification, request) != RC_OK)
        wait_for(request, on_load_again, RETRY_BASE_MS); /* the shard is down */
}

static void
on_load_again(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    load(timer->data);
}

static void
send_batch(void *ctx, struct sink_batch *batch)
{
    struct webhook *webhook = ctx;
    struct request *request = memory_new(sizeof(*request));

    request->webhook = webhook;
    request->batch = batch;
    ev_init(&request->again, on_again);
    request->again.data = request; /* kept by ev_timer_init */
    buffer_init(&request->body, BODY_BYTES_MAX);
    snprintf(request->id, sizeof(request->id), "msg_%s_%" PRIu64, store_relay_id(webhook->store),
             ++webhook->sent);
    DL_APPEND(webhook->requests, request);
    if (is_escalation(webhook, batch->receipts->id))
        load(request);
    else
        begin(request, (struct bytes){NULL, 0});
}

/* ---- on and off */

static void
on_switched(void *ctx, bool on)
{
    struct webhook *webhook = ctx;

    stats_set(webhook->stats, STAT_SINK_WEBHOOK_OFF, on ? 0 : 1);
    if (on) {
        log_info("sink", "webhook is switched on");
        return;
    }
    log_error("sink", "webhook is switched off: the endpoint has replied 410",
              LOG_TEXT("hint", "correct the endpoint, then send SIGHUP to a relay"));
    forget_all(webhook);
}

/* Returns NULL, or the reason for a failure. */
static const char *
load_secrets(const char *path, struct webhook_secrets *ret_secrets, char error[WEBHOOK_ERROR_MAX])
{
    char *bytes = NULL;
    size_t len = 0;
    const char *reason = config_secret_read(path, &bytes, &len);

    if (reason == NULL && webhook_secrets_parse(bytes, len, ret_secrets, error) != RC_OK)
        reason = error;
    if (bytes != NULL)
        explicit_bzero(bytes, len);
    free(bytes);
    return reason;
}

enum rc
sink_webhook_check_secrets(const struct config *config, char *error, size_t size)
{
    struct webhook_secrets secrets = {0};
    char detail[WEBHOOK_ERROR_MAX] = "";
    const char *reason = load_secrets(config->webhook.secret_file, &secrets, detail);

    explicit_bzero(&secrets, sizeof(secrets));
    if (reason == NULL)
        return RC_OK;
    snprintf(error, size, "[webhook] secret_file: %s: %s", config->webhook.secret_file, reason);
    return RC_BAD;
}

static enum rc
read_secrets(struct webhook *webhook)
{
    const char *path = webhook->config->webhook.secret_file;
    char error[WEBHOOK_ERROR_MAX] = "";
    const char *reason = load_secrets(path, &webhook->secrets, error);

    if (reason == NULL)
        return RC_OK;
    log_error("sink", "could not read the secrets of the webhook", LOG_TEXT("path", path),
              LOG_TEXT("error", reason));
    return RC_BAD;
}

void
sink_webhook_reload(struct sink *sink)
{
    struct webhook *webhook = sink->ctx;

    if (read_secrets(webhook) == RC_OK) {
        log_info("sink", "secrets of the webhook reloaded");
        sink_resume(sink, NULL); /* does nothing if the secrets were valid before */
    }
    sink_switch(sink, true);
}

/* ---- start and end */

static void
stop(void *ctx)
{
    struct webhook *webhook = ctx;

    forget_all(webhook);
    http_client_close(webhook->client);
    webhook->client = NULL;
}

static void
free_webhook(void *ctx)
{
    struct webhook *webhook = ctx;

    explicit_bzero(&webhook->secrets, sizeof(webhook->secrets));
    free(webhook);
}

static const struct sink_kind WEBHOOK = {
    .name = "webhook",
    .group = "webhook",
    .metrics = {STAT_SINK_WEBHOOK_BACKLOG, STAT_SINK_WEBHOOK_OLDEST, STAT_SINK_WEBHOOK_RECEIPTS,
                STAT_SINK_WEBHOOK_FAILURES, STAT_SINK_WEBHOOK_SUCCESS, STAT_SINK_WEBHOOK_DROPPED},
    .send = send_batch,
    .wants = wants,
    .is_alone = is_escalation,
    .on_switched = on_switched,
    .stop = stop,
    .free = free_webhook,
};

static struct http_client *
open_client(struct ev_loop *loop, const struct config *config)
{
    const struct http_client_settings settings = {.ca_file = config->webhook.ca_file,
                                                  .proxy = config->sink.proxy,
                                                  .allow_private = config->webhook.allow_private,
                                                  .connections = config->webhook.concurrency,
                                                  .host_connections = config->webhook.concurrency};

    return http_client_open(loop, &settings);
}

struct sink *
sink_webhook_open(struct ev_loop *loop, const struct config *config, struct store *store,
                  struct stats *stats, struct sink_report *report)
{
    const struct sink_limits limits = {(size_t)config->webhook.batch, BATCH_BYTES,
                                       (unsigned)config->webhook.concurrency};
    struct webhook *webhook = memory_new(sizeof(*webhook));

    webhook->loop = loop;
    webhook->config = config;
    webhook->store = store;
    webhook->stats = stats;
    webhook->client = open_client(loop, config);
    webhook->sink = sink_new(loop, config, store, stats, report, &WEBHOOK, &limits, webhook);
    if (read_secrets(webhook) == RC_OK)
        sink_resume(webhook->sink, NULL);
    return webhook->sink;
}

/* ---- the check of the doctor */

struct check {
    struct ev_loop *loop;
    enum rc rc;
    char *detail;
};

static void
on_checked(void *ctx, const struct http_response *response)
{
    struct check *check = ctx;

    check->rc = response->rc;
    if (response->rc == RC_OK)
        snprintf(check->detail, SINK_CHECK_MAX, "endpoint replies, with status %d to GET",
                 response->status);
    else
        snprintf(check->detail, SINK_CHECK_MAX, "%s", response->error);
    ev_break(check->loop, EVBREAK_ALL);
}

enum rc
sink_webhook_check(const struct config *config, char ret_detail[SINK_CHECK_MAX])
{
    const struct http_request_params params = {.method = HTTP_REQUEST_GET,
                                               .url = config->webhook.url,
                                               .timeout_ms = CHECK_TIMEOUT_MS,
                                               .response_max = RESPONSE_MAX};
    struct check check = {.loop = ev_loop_new(EVFLAG_AUTO), .rc = RC_IO, .detail = ret_detail};
    struct webhook_secrets secrets = {0};
    char error[WEBHOOK_ERROR_MAX] = "";
    const char *reason = load_secrets(config->webhook.secret_file, &secrets, error);
    struct http_client *client;

    explicit_bzero(&secrets, sizeof(secrets));
    snprintf(ret_detail, SINK_CHECK_MAX, "webhook.secret_file: %s", reason != NULL ? reason : "");
    if (check.loop == NULL || reason != NULL) {
        if (check.loop != NULL)
            ev_loop_destroy(check.loop);
        return RC_BAD;
    }
    client = open_client(check.loop, config);
    (void)http_request_start(client, &params, on_checked, &check);
    ev_run(check.loop, 0);
    http_client_close(client);
    ev_loop_destroy(check.loop);
    return check.rc;
}
