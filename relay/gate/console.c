/*
 * console.c: the routes of the console, and its page.
 *
 * The page contains no secret and loads nothing from other hosts.
 */
#include "gate/routes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "decoder/protocol/version.h"
#include "gate/gate.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "hub/hub.h"
#include "store/admin.h"
#include "wire/client_message.h"
#include "wire/http_head.h"
#include "wire/token.h"

#define HEALTH_DETAIL_MAX 4096

static struct store *
store_of(const struct gate_request *request)
{
    return hub_store(request->gate->hub);
}

static enum rc
add_relay(struct gate *gate, struct buffer *out)
{
    struct buffer detail;
    bool is_ready;
    enum rc rc;

    buffer_init(&detail, HEALTH_DETAIL_MAX);
    is_ready = gate->process->ready(gate->process->ctx, false, &detail);
    rc = buffer_addf(out,
                     "{\"at\":%" PRId64 ",\"relay\":{\"name\":\"%s\",\"version\":\"" CLAIRON_VERSION
                     "\",\"uptime\":%" PRId64 ",\"ready\":%s,\"realtime\":%s%s%s,\"reason\":",
                     clock_wall_us() / 1000, store_relay_id(hub_store(gate->hub)),
                     (clock_monotonic_us() - gate->opened_us) / 1000000,
                     is_ready ? "true" : "false", gate->is_realtime_off ? "false" : "true",
                     detail.len > 0 ? "," : "", detail.len > 0 ? detail.bytes : "");
    if (rc == RC_OK)
        rc = gate->process->feed_reason(gate->process->ctx, out);
    if (rc == RC_OK)
        rc = buffer_add(out, "}", 1);
    buffer_free(&detail);
    return rc;
}

/* Adds the bytes of WAL that were received and not confirmed; null unless the feed is streaming. */
static enum rc
add_slot(struct gate *gate, struct buffer *out)
{
    uint64_t received = stats_total(gate->stats, STAT_FEED_RECEIVED_LSN);
    uint64_t confirmed = stats_total(gate->stats, STAT_FEED_CONFIRMED_LSN);

    if (stats_total(gate->stats, STAT_FEED_CONNECTED) == 0)
        return buffer_addf(out, ",\"slot\":null");
    return buffer_addf(out, ",\"slot\":{\"name\":\"%s\",\"lag\":%" PRIu64 "}",
                       gate->config->feed.slot, received > confirmed ? received - confirmed : 0);
}

/* Adds the sinks of this relay, and whether it sends Web Pushes. */
static enum rc
add_sinks(struct gate *gate, struct buffer *out)
{
    enum rc rc =
        buffer_addf(out, ",\"webpush\":%s,\"sinks\":", gate->web_push != NULL ? "true" : "false");

    return rc == RC_OK ? gate->process->sinks(gate->process->ctx, out) : rc;
}

/* Adds the shards that did not reply, if any, and ends the JSON object. */
static enum rc
add_missing(struct buffer *out, const char *missing)
{
    if (missing[0] == '\0')
        return buffer_addf(out, "}\n");
    return buffer_addf(out, ",\"missing\":[%s]}\n", missing);
}

/* `store`: the store's overview as JSON; empty if the store is down. */
static void
respond_overview(struct gate_request *request, struct bytes store, const char *missing)
{
    struct response response;
    enum rc rc;

    response_init(&response, 200, GATE_JSON);
    rc = add_relay(request->gate, &response.body);
    if (rc == RC_OK)
        rc = add_slot(request->gate, &response.body);
    if (rc == RC_OK)
        rc = add_sinks(request->gate, &response.body);
    if (rc == RC_OK)
        rc = buffer_addf(&response.body, ",\"stats\":");
    if (rc == RC_OK)
        rc = stats_write_json(request->gate->stats, &response.body);
    if (rc == RC_OK)
        rc = buffer_addf(&response.body, ",\"store\":%.*s", store.at != NULL ? (int)store.len : 4,
                         store.at != NULL ? (const char *)store.at : "null");
    if (rc == RC_OK)
        rc = add_missing(&response.body, missing);
    gate_request_respond_whole(request, &response, rc);
}

static void
on_overview(void *ctx, enum rc rc, struct bytes json, const char *missing)
{
    struct gate_request *request = store_request_done(ctx);

    if (request != NULL && rc == RC_OK)
        respond_overview(request, json, missing);
    else if (request != NULL)
        respond_overview(request, (struct bytes){NULL, 0}, "");
}

void
gate_console_overview(struct gate_request *request)
{
    struct store_request *store_request;

    store_request = store_request_new(request);
    if (store_overview(store_of(request), on_overview, store_request) != RC_OK)
        on_overview(store_request, RC_IO, (struct bytes){NULL, 0}, "");
}

/* Responds with {"`name`": json}. */
static void
respond_json(void *store_request, enum rc rc, const char *name, struct bytes json,
             const char *missing)
{
    struct gate_request *request = store_request_reply(store_request, rc);
    struct response response;

    if (request == NULL)
        return;
    response_init(&response, 200, GATE_JSON);
    rc = buffer_addf(&response.body, "{\"%s\":%.*s", name, (int)json.len, (const char *)json.at);
    if (rc == RC_OK)
        rc = add_missing(&response.body, missing);
    gate_request_respond_whole(request, &response, rc);
}

static void
on_errors(void *ctx, enum rc rc, struct bytes json, const char *missing)
{
    respond_json(ctx, rc, "errors", json, missing);
}

static void
on_latest(void *ctx, enum rc rc, struct bytes json, const char *missing)
{
    respond_json(ctx, rc, "latest", json, missing);
}

static struct gate_console_user *
user_of(struct gate_request *request)
{
    return (struct gate_console_user *)request->route_state;
}

static void
on_user(void *ctx, enum rc rc, struct bytes json, const char *missing)
{
    struct gate_request *request = store_request_reply(ctx, rc);
    struct response response;

    if (request == NULL)
        return;
    response_init(&response, 200, GATE_JSON);
    rc = buffer_addf(&response.body, "{\"connections\":%zu,\"user\":%.*s",
                     user_of(request)->sessions, (int)json.len, (const char *)json.at);
    if (rc == RC_OK)
        rc = add_missing(&response.body, missing);
    gate_request_respond_whole(request, &response, rc);
}

/* Reads a stream entry id from a query argument such as "before=". False: a response is queued. */
static bool
read_entry_argument(struct gate_request *request, const char *name, bool *ret_has_bound,
                    struct entry_id *ret_entry)
{
    char detail[64];
    char *text = NULL;
    bool is_good =
        http_head_argument(request->conn->head, name, ENTRY_ID_TEXT_MAX, &text) == RC_OK &&
        (text == NULL || entry_id_read(text, strlen(text), ret_entry) == RC_OK);

    *ret_has_bound = text != NULL;
    free(text);
    if (is_good)
        return true;
    snprintf(detail, sizeof(detail), "\"%.*s\" must be a stream entry id", (int)strcspn(name, "="),
             name);
    gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, detail);
    return false;
}

typedef enum rc entries_query(struct store *store, const struct entry_id *bound,
                              store_described *done, void *ctx);

/* Requests stream entries from the store, before or after the id in the query, if any. */
static void
query_entries(struct gate_request *request, const char *name, entries_query *query,
              store_described *done)
{
    struct store_request *store_request;
    struct entry_id bound;
    bool has_bound;

    if (!read_entry_argument(request, name, &has_bound, &bound))
        return;
    store_request = store_request_new(request);
    store_request_sent(store_request,
                       query(store_of(request), has_bound ? &bound : NULL, done, store_request));
}

void
gate_console_errors(struct gate_request *request)
{
    query_entries(request, "before=", store_errors, on_errors);
}

/* Polled by the console's live tail; no state is kept between requests. */
void
gate_console_latest(struct gate_request *request)
{
    query_entries(request, "after=", store_latest, on_latest);
}

/* Returns the user of the query, which the caller frees. NULL: a response is queued. */
static char *
read_user(struct gate_request *request)
{
    char *user = NULL;

    if (http_head_argument(request->conn->head, "id=", TOKEN_USER_MAX, &user) == RC_OK &&
        user != NULL && user[0] != '\0')
        return user;
    gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, "\"id\" must have 1 to 255 bytes");
    free(user);
    return NULL;
}

void
gate_console_user(struct gate_request *request)
{
    struct store_request *store_request;
    char *user;

    user = read_user(request);
    if (user != NULL) {
        user_of(request)->sessions = hub_user_sessions(request->gate->hub, user);
        store_request = store_request_new(request);
        store_request_sent(store_request,
                           store_user(store_of(request), user, on_user, store_request));
    }
    free(user);
}

/*
 * Adds the origin of an endpoint and the time of the last renewal. The path of an endpoint is a
 * secret: whoever has it can send to the browser.
 */
static enum rc
add_subscription(struct buffer *body, const struct store_subscription *subscription, bool is_first)
{
    const char *host = strstr(subscription->text, "//");
    size_t origin_len =
        host != NULL ? (size_t)(host - subscription->text) + 2 + strcspn(host + 2, "/ ") : 0;
    enum rc rc = buffer_addf(body, "%s{\"renewed_at\":%" PRId64 ",\"origin\":", is_first ? "" : ",",
                             subscription->renewed_ms);

    if (rc == RC_OK)
        rc = buffer_add_json(body, subscription->text, origin_len);
    if (rc == RC_OK)
        rc = buffer_addf(body, ",\"failed_at\":%" PRId64 ",\"reason\":", subscription->failed_ms);
    if (rc == RC_OK)
        rc = buffer_add_json(body, subscription->reason, strlen(subscription->reason));
    return rc == RC_OK ? buffer_addf(body, "}") : rc;
}

static void
on_subscriptions(void *ctx, enum rc rc, const struct store_subscription *list, size_t count)
{
    struct gate_request *request = store_request_reply(ctx, rc);
    struct response response;

    if (request == NULL)
        return;
    response_init(&response, 200, GATE_JSON);
    rc = buffer_addf(&response.body, "{\"at\":%" PRId64 ",\"subscriptions\":[",
                     clock_wall_us() / 1000);
    for (size_t i = 0; i < count && rc == RC_OK; i++)
        rc = add_subscription(&response.body, &list[i], i == 0);
    if (rc == RC_OK)
        rc = buffer_addf(&response.body, "]}\n");
    gate_request_respond_whole(request, &response, rc);
}

void
gate_console_subscriptions(struct gate_request *request)
{
    struct store_request *store_request;
    char *user = read_user(request);

    if (user != NULL) {
        store_request = store_request_new(request);
        store_request_sent(store_request, store_subscriptions(store_of(request), user,
                                                              on_subscriptions, store_request));
    }
    free(user);
}

void
gate_console_rules(struct gate_request *request)
{
    struct gate *gate = request->gate;
    struct response response;
    enum rc rc;

    response_init(&response, 200, GATE_JSON);
    rc = gate->process->rules(gate->process->ctx, &response.body);
    if (rc == RC_AGAIN)
        rc = buffer_addf(&response.body, "{\"at\":0,\"rules\":null,\"elsewhere\":true}");
    gate_request_respond_whole(request, &response, rc);
}

/* Reads the stream entry id from the body. False: a response is queued. */
static bool
read_entry(struct gate_request *request, struct entry_id *ret_entry)
{
    char error[CLIENT_MESSAGE_ERROR_MAX];
    char text[CLIENT_MESSAGE_ENTRY_MAX];

    if (client_message_parse_entry(request->body.bytes, request->body.len, text, error) != RC_OK) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, error);
        return false;
    }
    if (entry_id_read(text, strlen(text), ret_entry) == RC_OK)
        return true;
    gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, "\"entry\" must be a stream entry id");
    return false;
}

static void
on_updated(void *ctx, enum rc rc, enum store_error_change outcome, long long users)
{
    struct gate_request *request = store_request_reply(ctx, rc);
    struct response response;

    if (request == NULL)
        return;
    if (outcome == STORE_ERROR_NOT_FOUND) {
        gate_request_problem(request, 404, 0, "no such entry in the error log");
    } else if (outcome == STORE_ERROR_NO_USERS) {
        gate_request_problem(request, 422, GATE_ERR_BAD_REQUEST,
                             "entry has no pending users: drop it");
    } else {
        response_init(&response, 200, GATE_JSON);
        rc = buffer_addf(&response.body, "{\"users\":%lld}\n", users);
        gate_request_respond_whole(request, &response, rc);
    }
}

static void
update_error(struct gate_request *request, const char *act,
             enum rc (*update)(struct store *, struct entry_id, store_error_changed *, void *))
{
    struct store_request *store_request;
    struct entry_id entry;
    char object[ENTRY_ID_TEXT_MAX + 32];

    if (!read_entry(request, &entry))
        return;
    snprintf(object, sizeof(object), "error log: entry %" PRIu64 "-%" PRIu64, entry.ms, entry.seq);
    log_audit(request->token.user, act, object);
    store_request = store_request_new(request);
    store_request_sent(store_request, update(store_of(request), entry, on_updated, store_request));
}

void
gate_console_redrive(struct gate_request *request)
{
    update_error(request, "redrive", store_redrive);
}

void
gate_console_drop(struct gate_request *request)
{
    update_error(request, "drop", store_drop);
}

/* The files of the page. */
static const struct {
    const char *path;
    const char *type;
    const char *text;
} FILES[] = {
    {"/console", "text/html; charset=utf-8", gate_console_index_html},
    {"/console/console.css", "text/css; charset=utf-8", gate_console_console_css},
    {"/console/console.js", "text/javascript; charset=utf-8", gate_console_console_js},
};

void
gate_console_file(struct conn *conn, struct response *ret_response)
{
    const struct http_head *head = conn->head;
    size_t at = 0;

    while (strlen(FILES[at].path) != head->path_len ||
           memcmp(head->bytes + head->target, FILES[at].path, head->path_len) != 0)
        at++; /* the route table has only these paths */
    response_init(ret_response, 200, FILES[at].type);
    response_header(ret_response, "Content-Security-Policy: default-src 'none'; script-src 'self'; "
                                  "style-src 'self'; connect-src 'self'; img-src data:; "
                                  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    response_header(ret_response, "X-Frame-Options: DENY");
    response_header(ret_response, "Referrer-Policy: no-referrer");
    response_header(ret_response, "Cross-Origin-Opener-Policy: same-origin");
    response_header(ret_response, "Cross-Origin-Resource-Policy: same-origin");
    if (buffer_add(&ret_response->body, FILES[at].text, strlen(FILES[at].text)) != RC_OK)
        ret_response->status = 500;
}

/* The page's relative links work only at /console. */
void
gate_console_folder(struct conn *conn, struct response *ret_response)
{
    (void)conn;
    response_problem_with(ret_response, 308, 0, "Location: ../console",
                          "the console is at /console");
}
