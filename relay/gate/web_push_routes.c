/*
 * web_push_routes.c: the routes of Web Push: the VAPID key, the subscriptions of the token's user,
 * and a test of them.
 */
#include "gate/routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "hub/hub.h"
#include "store/store.h"
#include "web_push/web_push.h"
#include "wire/push_message.h"
#include "wire/subscription.h"
#include "wire/push_encryption.h"

#define TEXT_MAX (SUBSCRIPTION_ENDPOINT_MAX + 512)

#define TEST_TTL_S 60
#define ERROR_MAX 64
/* The log has the reason, which may contain an address of the relay's network. */
#define FAILED_TEXT "could not send to the push service"

struct web_push {
    struct web_push_sender *sender;
    char *keys[CONFIG_VAPID_KEYS_MAX]; /* public keys; the first is for new subscriptions */
};

void
gate_web_push_open(struct gate *gate, struct web_push_sender *sender)
{
    const struct config *config = gate->config;

    if (gate->hub == NULL || sender == NULL)
        return;
    gate->web_push = memory_new(sizeof(*gate->web_push));
    gate->web_push->sender = sender;
    for (size_t i = 0; i < CONFIG_VAPID_KEYS_MAX && config->webpush.keys[i] != NULL; i++) {
        const char *pem = config->webpush.keys[i], *fault = NULL;
        /* The settings are loaded only if both keys are valid. */
        struct web_push_key *key = web_push_key_parse(pem, strlen(pem), &fault);
        const char *public = key != NULL ? web_push_key_public(key) : "";

        gate->web_push->keys[i] = memory_text(public, strlen(public));
        web_push_key_free(key);
    }
}

void
gate_web_push_close(struct gate *gate)
{
    if (gate->web_push == NULL)
        return;
    for (size_t i = 0; i < CONFIG_VAPID_KEYS_MAX; i++)
        free(gate->web_push->keys[i]);
    free(gate->web_push);
    gate->web_push = NULL;
}

void
gate_web_push_key(struct conn *conn, struct response *ret_response)
{
    char *origin;

    if (!gate_origin_read(conn, conn->gate->config->gate.origins, &origin)) {
        response_problem(ret_response, 403, 0, GATE_ORIGIN_NOT_ALLOWED);
        return;
    }
    response_init(ret_response, 200, GATE_JSON);
    if (buffer_addf(&ret_response->body, "{\"key\":\"%s\"}\n", conn->gate->web_push->keys[0]) !=
        RC_OK)
        buffer_clear(&ret_response->body);
    response_allow_origin(ret_response, origin);
    free(origin);
}

/* Without a key in the subscription, the browser uses the first one. */
static bool
set_key(const struct web_push *web_push, struct subscription *subscription)
{
    if (subscription->key[0] == '\0')
        memcpy(subscription->key, web_push->keys[0], sizeof(subscription->key));
    for (size_t i = 0; i < CONFIG_VAPID_KEYS_MAX; i++) {
        if (web_push->keys[i] != NULL && strcmp(web_push->keys[i], subscription->key) == 0)
            return true;
    }
    return false;
}

static void
on_subscribed(void *ctx, enum rc rc, bool is_new)
{
    struct gate_request *request = store_request_reply(ctx, rc);
    struct response response;

    if (request != NULL) {
        response_init(&response, is_new ? 201 : 200, GATE_JSON);
        gate_request_respond_whole(request, &response, buffer_addf(&response.body, "{}\n"));
    }
}

static void
save(struct gate_request *request, const struct subscription *subscription)
{
    struct store_request *store_request = store_request_new(request);
    struct buffer text;
    enum rc rc;

    buffer_init(&text, TEXT_MAX);
    rc = subscription_write(subscription, &text);
    if (rc == RC_OK)
        rc = store_subscribe(hub_store(request->gate->hub), request->token.user,
                             subscription->endpoint, text.bytes, on_subscribed, store_request);
    store_request_sent(store_request, rc);
    buffer_free(&text);
}

void
gate_web_push_subscribe(struct gate_request *request)
{
    char error[WIRE_ERROR_MAX];
    struct subscription subscription = {.endpoint = NULL};

    if (subscription_parse(request->body.bytes, request->body.len,
                           request->gate->config->webpush.origins, &subscription, error) != RC_OK)
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, error);
    else if (!set_key(request->gate->web_push, &subscription))
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST,
                             "key must be a VAPID key of this relay, see GET /v1/webpush/key");
    else
        save(request, &subscription);
    subscription_free(&subscription);
}

static void
on_unsubscribed(void *ctx, enum rc rc, bool was_bound)
{
    struct gate_request *request = store_request_reply(ctx, rc);

    (void)was_bound; /* idempotent */
    if (request != NULL)
        gate_request_respond_empty(request);
}

void
gate_web_push_unsubscribe(struct gate_request *request)
{
    char error[WIRE_ERROR_MAX], *endpoint = NULL;
    struct store_request *store_request;

    if (subscription_parse_endpoint(request->body.bytes, request->body.len, &endpoint, error) !=
        RC_OK) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, error);
        return;
    }
    store_request = store_request_new(request);
    store_request_sent(store_request,
                       store_subscribe(hub_store(request->gate->hub), request->token.user, endpoint,
                                       NULL, on_unsubscribed, store_request));
    free(endpoint);
}

static enum rc
add_endpoint(struct buffer *body, const char *text, bool is_first)
{
    enum rc rc = buffer_addf(body, "%s{\"endpoint\":", is_first ? "" : ",");

    if (rc == RC_OK)
        rc = buffer_add_json(body, text, strcspn(text, " "));
    return rc == RC_OK ? buffer_addf(body, "}") : rc;
}

static void
on_listed(void *ctx, enum rc rc, const struct store_subscription *list, size_t count)
{
    struct gate_request *request = store_request_reply(ctx, rc);
    struct response response;

    if (request == NULL)
        return;
    response_init(&response, 200, GATE_JSON);
    rc = buffer_addf(&response.body, "{\"subscriptions\":[");
    for (size_t i = 0; i < count && rc == RC_OK; i++)
        rc = add_endpoint(&response.body, list[i].text, i == 0);
    if (rc == RC_OK)
        rc = buffer_addf(&response.body, "]}\n");
    gate_request_respond_whole(request, &response, rc);
}

void
gate_web_push_list(struct gate_request *request)
{
    struct store_request *store_request = store_request_new(request);

    store_request_sent(store_request,
                       store_subscriptions(hub_store(request->gate->hub), request->token.user,
                                           on_listed, store_request));
}

/* ---- POST /v1/webpush/test */

struct gate_push {
    struct gate_request *request;
    struct web_push_request *sent; /* NULL: has a result */
    char *endpoint;
    int status;
    char error[ERROR_MAX];
};

static struct gate_push_test *
test_of(struct gate_request *request)
{
    return (struct gate_push_test *)request->route_state;
}

static enum rc
add_push(struct buffer *body, const struct gate_push *push, bool is_first)
{
    enum rc rc = add_endpoint(body, push->endpoint, is_first);

    if (rc == RC_OK) {
        body->len--; /* the closing brace */
        rc = push->status != 0 ? buffer_addf(body, ",\"status\":%d}", push->status)
                               : buffer_addf(body, ",\"error\":");
    }
    if (rc == RC_OK && push->status == 0)
        rc = buffer_add_json(body, push->error, strlen(push->error));
    return rc == RC_OK && push->status == 0 ? buffer_addf(body, "}") : rc;
}

static void
respond_results(struct gate_request *request)
{
    const struct gate_push_test *test = test_of(request);
    struct response response;
    enum rc rc;

    response_init(&response, 200, GATE_JSON);
    rc = buffer_addf(&response.body, "{\"subscriptions\":[");
    for (size_t i = 0; i < test->count && rc == RC_OK; i++)
        rc = add_push(&response.body, &test->pushes[i], i == 0);
    if (rc == RC_OK)
        rc = buffer_addf(&response.body, "]}\n");
    gate_request_respond_whole(request, &response, rc);
}

static void
on_pushed(void *ctx, const struct web_push_result *result)
{
    struct gate_push *push = ctx;
    struct gate_request *request = push->request;

    push->sent = NULL;
    push->status = result->status;
    snprintf(push->error, sizeof(push->error), "%s", FAILED_TEXT);
    if (--test_of(request)->waiting == 0 && request->state == GATE_REQUEST_WAITING)
        respond_results(request);
}

/* A further test of the same user replaces the first one in the browser. */
static enum rc
write_test(const struct gate_request *request, struct buffer *body,
           char ret_topic[PUSH_TOPIC_TEXT + 1])
{
    static const char json[] = "{\"title\":\"Test notification\",\"body\":\"Web Push works in this "
                               "browser.\",\"collapse\":\"clairon test\"}";
    char error[WIRE_ERROR_MAX];
    struct push_text text = {.title = NULL};
    enum rc rc = push_text_parse(json, strlen(json), &text, error);
    const struct push_message message = {.text = &text,
                                         .id = "",
                                         .user = request->token.user,
                                         .app_url = request->gate->config->webpush.app_url};

    if (rc == RC_OK)
        rc = push_message_write(&message, body, ret_topic);
    push_text_free(&text);
    return rc;
}

static void
send_tests(struct gate_request *request, const struct store_subscription *list)
{
    struct gate_push_test *test = test_of(request);
    char topic[PUSH_TOPIC_TEXT + 1] = "";
    struct web_push_content content = {.topic = topic, .urgency = "normal", .ttl_s = TEST_TTL_S};
    struct buffer body;
    enum rc rc;

    buffer_init(&body, WEB_PUSH_PLAIN_MAX);
    rc = write_test(request, &body, topic);
    content.body = body.bytes;
    content.len = body.len;
    for (size_t i = 0; i < test->count; i++) {
        struct gate_push *push = &test->pushes[i];

        push->request = request;
        push->endpoint = memory_text(list[i].text, strcspn(list[i].text, " "));
        snprintf(push->error, sizeof(push->error), "could not encrypt");
        if (rc == RC_OK &&
            web_push_send(request->gate->web_push->sender, request->token.user, list[i].text,
                          &content, on_pushed, push, &push->sent) == RC_LIMIT)
            snprintf(push->error, sizeof(push->error), "too many requests to this push service");
        test->waiting += push->sent != NULL;
    }
    buffer_free(&body);
}

static void
on_test_listed(void *ctx, enum rc rc, const struct store_subscription *list, size_t count)
{
    struct gate_request *request = store_request_reply(ctx, rc);

    if (request == NULL)
        return;
    test_of(request)->pushes = memory_new((count + 1) * sizeof(struct gate_push));
    test_of(request)->count = count;
    send_tests(request, list);
    if (test_of(request)->waiting == 0)
        respond_results(request);
}

void
gate_web_push_test(struct gate_request *request)
{
    struct store_request *store_request = store_request_new(request);

    store_request_sent(store_request,
                       store_subscriptions(hub_store(request->gate->hub), request->token.user,
                                           on_test_listed, store_request));
}

void
gate_web_push_test_free(struct gate_request *request)
{
    struct gate_push_test *test = test_of(request);

    for (size_t i = 0; i < test->count; i++) {
        web_push_cancel(test->pushes[i].sent);
        free(test->pushes[i].endpoint);
    }
    free(test->pushes);
}
