/* gate_http.c: answers plain HTTP requests, and refuses upgrades before they happen. */
#include "gate/gate_conn.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"

#define TARGET_MAX 256
#define ORIGIN_MAX 512
#define HOST_MAX 512
#define PROTOCOLS_MAX 128 /* lws drops a longer list without an answer */
#define BODY_MAX (256 * 1024)
#define DETAIL_MAX 4096
#define RETRY_AFTER_S 5

struct http_answer {
    int status;
    const char *phrase;
    const char *type;
    const char *headers; /* more of them, each with its \r\n */
    bool head;           /* the body's length, but not the body */
    struct buffer body;
};

#define JSON_TYPE "application/json"

static void
answer_init(struct http_answer *answer, int status, const char *phrase, const char *type)
{
    *answer = (struct http_answer){.status = status, .phrase = phrase, .type = type, .headers = ""};
    buffer_init(&answer->body, BODY_MAX);
}

/* Always -1: every answer ends its connection, which spares us pipelining and bodies. */
static int
answer_send(struct lws *wsi, struct http_answer *answer)
{
    static const char HEADROOM[LWS_PRE];
    struct buffer out;
    enum rc rc;

    buffer_init(&out, BODY_MAX + LWS_PRE + 1024);
    rc = buffer_add(&out, HEADROOM, LWS_PRE);
    if (rc == RC_OK)
        rc = buffer_addf(&out,
                         "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                         "Cache-Control: no-store\r\n%sConnection: close\r\n\r\n",
                         answer->status, answer->phrase, answer->type, answer->body.len,
                         answer->headers);
    if (rc == RC_OK && !answer->head)
        rc = buffer_add(&out, answer->body.bytes, answer->body.len);
    /* A failed write has no one left to be told. */
    if (rc == RC_OK)
        (void)lws_write(wsi, (unsigned char *)out.bytes + LWS_PRE, out.len - LWS_PRE,
                        LWS_WRITE_HTTP);
    buffer_free(&answer->body);
    buffer_free(&out);
    return -1;
}

static int
answer_error(struct lws *wsi, int status, const char *phrase, const char *headers, bool head,
             const char *sentence)
{
    struct http_answer answer;

    answer_init(&answer, status, phrase, JSON_TYPE);
    answer.headers = headers;
    answer.head = head;
    if (buffer_addf(&answer.body, "{\"error\":\"%s\"}\n", sentence) != RC_OK)
        buffer_clear(&answer.body);
    return answer_send(wsi, &answer);
}

/* {"status":"ok","feed":"streaming"}; whether main is ready comes back. */
static bool
add_health(struct gate *gate, struct buffer *body, const char *good, const char *bad)
{
    struct buffer detail;
    bool ready;
    enum rc rc;

    buffer_init(&detail, DETAIL_MAX);
    ready = gate->health.ready(gate->health.ctx, &detail) && !gate->draining;
    rc = buffer_addf(body, "{\"status\":\"%s\"%s%s%s}\n",
                     gate->draining ? "draining" : (ready ? good : bad), detail.len > 0 ? "," : "",
                     detail.len > 0 ? detail.bytes : "", "");
    buffer_free(&detail);
    if (rc != RC_OK)
        buffer_clear(body);
    return ready;
}

static int
answer_healthz(struct gate *gate, struct lws *wsi, bool head)
{
    struct http_answer answer;

    answer_init(&answer, 200, "OK", JSON_TYPE);
    answer.head = head;
    (void)add_health(gate, &answer.body, "ok", "ok");
    return answer_send(wsi, &answer);
}

static int
answer_readyz(struct gate *gate, struct lws *wsi, bool head)
{
    struct http_answer answer;

    answer_init(&answer, 200, "OK", JSON_TYPE);
    answer.head = head;
    if (!add_health(gate, &answer.body, "ready", "not ready")) {
        answer.status = 503;
        answer.phrase = "Service Unavailable";
    }
    return answer_send(wsi, &answer);
}

static int
answer_metrics(struct gate *gate, struct lws *wsi, bool head)
{
    struct http_answer answer;

    answer_init(&answer, 200, "OK", "text/plain; version=0.0.4");
    answer.head = head;
    if (stats_write(gate->stats, &answer.body) != RC_OK) {
        buffer_free(&answer.body);
        return answer_error(wsi, 500, "Internal Server Error", "", head,
                            "the metrics do not fit their buffer");
    }
    return answer_send(wsi, &answer);
}

static int
answer_upgrade_required(struct gate *gate, struct lws *wsi, bool head)
{
    (void)gate;
    return answer_error(wsi, 426, "Upgrade Required", "Upgrade: websocket\r\n", head,
                        "/v1/ws is a WebSocket: send an Upgrade");
}

struct http_route {
    const char *path;
    int (*answer)(struct gate *gate, struct lws *wsi, bool head);
};

static const struct http_route ROUTES[] = {
    {"/healthz", answer_healthz},
    {"/readyz", answer_readyz},
    {"/metrics", answer_metrics},
    {"/v1/ws", answer_upgrade_required},
};

/* The request's path; false when it has none that fits. */
static bool
request_path(struct lws *wsi, int *ret_method, char path[TARGET_MAX])
{
    char *uri = NULL;
    int len = 0;
    int method = lws_http_get_uri_and_method(wsi, &uri, &len);

    if (method < 0 || uri == NULL || len < 0 || len >= TARGET_MAX)
        return false;
    memcpy(path, uri, (size_t)len);
    path[len] = '\0';
    *ret_method = method;
    return true;
}

int
gate_http_request(struct gate *gate, struct lws *wsi)
{
    char path[TARGET_MAX];
    int method = -1;
    bool head;

    if (!request_path(wsi, &method, path))
        return answer_error(wsi, 404, "Not Found", "", false, "there is nothing at this path");
    head = method == LWSHUMETH_HEAD;
    for (size_t i = 0; i < sizeof(ROUTES) / sizeof(ROUTES[0]); i++) {
        if (strcmp(path, ROUTES[i].path) != 0)
            continue;
        if (method != LWSHUMETH_GET && !head)
            return answer_error(wsi, 405, "Method Not Allowed", "Allow: GET, HEAD\r\n", false,
                                "this path answers GET and HEAD only");
        return ROUTES[i].answer(gate, wsi, head);
    }
    return answer_error(wsi, 404, "Not Found", "", head, "there is nothing at this path");
}

static int
refuse_upgrade(struct gate *gate, struct lws *wsi, int status, const char *phrase,
               const char *headers, const char *sentence)
{
    stats_add(gate->stats, STAT_GATE_REFUSED, 1);
    log_info("gate", "refused an upgrade with %d: %s", status, sentence);
    return answer_error(wsi, status, phrase, headers, false, sentence);
}

/* None offered is allowed: only browsers cannot speak without one. */
static bool
offers_protocol(struct lws *wsi)
{
    char list[PROTOCOLS_MAX];
    int len = lws_hdr_copy(wsi, list, sizeof(list), WSI_TOKEN_PROTOCOL);

    if (len <= 0)
        return len == 0;
    for (const char *at = list; *at != '\0';) {
        size_t name_len;

        at += strspn(at, ", \t");
        name_len = strcspn(at, ", \t");
        if (name_len == strlen(GATE_PROTOCOL) && strncmp(at, GATE_PROTOCOL, name_len) == 0)
            return true;
        at += name_len;
    }
    return false;
}

static bool
origin_passes(struct gate *gate, struct lws *wsi)
{
    char origin[ORIGIN_MAX];
    char host[HOST_MAX];
    int len = lws_hdr_copy(wsi, origin, sizeof(origin), WSI_TOKEN_ORIGIN);

    if (len <= 0)
        return len == 0 && lws_hdr_total_length(wsi, WSI_TOKEN_ORIGIN) == 0;
    if (lws_hdr_copy(wsi, host, sizeof(host), WSI_TOKEN_HOST) <= 0)
        return false;
    return gate_origin_allowed(gate->config->gate.origins, origin, host);
}

static bool
header_is(struct lws *wsi, enum lws_token_indexes header, const char *value)
{
    char text[16];

    return lws_hdr_copy(wsi, text, sizeof(text), header) > 0 && strcasecmp(text, value) == 0;
}

/* 16 bytes in base64: RFC 6455, section 4.2.1. */
static bool
has_good_key(struct lws *wsi)
{
    static const char ALPHABET[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char key[32];

    return lws_hdr_copy(wsi, key, sizeof(key), WSI_TOKEN_KEY) == 24 &&
           strspn(key, ALPHABET) == 22 && strcmp(key + 22, "==") == 0;
}

/* Is the upgrade one of RFC 6455, to the WebSocket we have? 0, or -1 after a refusal. */
static int
check_handshake(struct gate *gate, struct lws *wsi)
{
    char path[TARGET_MAX];
    int method = -1;

    if (!header_is(wsi, WSI_TOKEN_UPGRADE, "websocket"))
        return refuse_upgrade(gate, wsi, 400, "Bad Request", "",
                              "the only upgrade here is websocket");
    if (!request_path(wsi, &method, path) || strcmp(path, "/v1/ws") != 0)
        return refuse_upgrade(gate, wsi, 404, "Not Found", "", "the WebSocket is at /v1/ws");
    if (method != LWSHUMETH_GET)
        return refuse_upgrade(gate, wsi, 405, "Method Not Allowed", "Allow: GET\r\n",
                              "an upgrade is a GET");
    if (!header_is(wsi, WSI_TOKEN_HTTP, "HTTP/1.1"))
        return refuse_upgrade(gate, wsi, 400, "Bad Request", "", "an upgrade needs HTTP/1.1");
    if (!header_is(wsi, WSI_TOKEN_VERSION, "13"))
        return refuse_upgrade(gate, wsi, 426, "Upgrade Required", "Sec-WebSocket-Version: 13\r\n",
                              "Sec-WebSocket-Version must be 13");
    if (!has_good_key(wsi) || lws_hdr_total_length(wsi, WSI_TOKEN_HOST) <= 0)
        return refuse_upgrade(gate, wsi, 400, "Bad Request", "",
                              "Host or Sec-WebSocket-Key is missing or malformed");
    if (!offers_protocol(wsi))
        return refuse_upgrade(gate, wsi, 400, "Bad Request", "",
                              "Sec-WebSocket-Protocol does not offer " GATE_PROTOCOL);
    return 0;
}

int
gate_http_upgrade(struct gate *gate, struct lws *wsi)
{
    char retry[32];

    /*
     * Not the callback's `in`: for an upgrade lws does not know it points into headers
     * that are already gone (CVE-2025-11677). No headers: hang up.
     */
    if (lws_hdr_total_length(wsi, WSI_TOKEN_UPGRADE) <= 0 || check_handshake(gate, wsi) != 0)
        return -1;
    if (!origin_passes(gate, wsi))
        return refuse_upgrade(gate, wsi, 403, "Forbidden", "", "pages of this origin may not");
    snprintf(retry, sizeof(retry), "Retry-After: %d\r\n", RETRY_AFTER_S);
    if (gate->draining)
        return refuse_upgrade(gate, wsi, 503, "Service Unavailable", retry,
                              "this relay is about to stop");
    if (gate->conn_count >= gate->config->gate.max_connections)
        return refuse_upgrade(gate, wsi, 503, "Service Unavailable", retry,
                              "max_connections is reached");
    return 0;
}
