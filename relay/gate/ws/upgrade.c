/* upgrade.c: validates WebSocket upgrade requests. */
#include "gate/ws/upgrade.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "gate/http/credentials.h"
#include "gate/net/limits.h"
#include "gate/http/origin.h"
#include "gate/http/response.h"
#include "gate/net/accept.h"
#include "gate/net/conn_io.h"
#include "gate/net/gate_shared.h"
#include "gate/net/lws_workarounds.h"
#include "gate/net/request_field.h"

static int
reject(struct gate *gate, struct lws *wsi, int status, const char *header, const char *detail)
{
    struct response response;

    stats_add(gate->stats, STAT_GATE_REJECTED, 1);
    log_info("gate", "upgrade rejected", LOG_INT("status", status), LOG_TEXT("detail", detail));
    response_problem_with(&response, status, 0, header, detail);
    return response_send(wsi, &response);
}

/* A request without a subprotocol is accepted: only browsers require one. */
static bool
offers_protocol(struct lws *wsi)
{
    char list[LWS_PROTOCOLS_MAX];
    int len = request_field_copy(wsi, FIELD_WEBSOCKET_PROTOCOL, list, sizeof(list));

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

/* 16 bytes in base64 (RFC 6455, 4.2.1). */
static bool
has_good_key(struct lws *wsi)
{
    static const char ALPHABET[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char key[32];

    return request_field_copy(wsi, FIELD_WEBSOCKET_KEY, key, sizeof(key)) == 24 &&
           strspn(key, ALPHABET) == 22 && strcmp(key + 22, "==") == 0;
}

/* Checks for a valid RFC 6455 upgrade to our subprotocol. Returns 0, or -1 after a response. */
static int
check_handshake(struct gate *gate, struct lws *wsi)
{
    const struct conn_io io = conn_io_of(wsi);
    char path[REQUEST_PATH_MAX];
    enum request_method method = REQUEST_OTHER;

    if (!request_field_is(wsi, FIELD_UPGRADE, "websocket"))
        return reject(gate, wsi, 400, NULL, "unsupported upgrade, use websocket");
    if (!request_path(wsi, &method, path) || strcmp(path, "/v1/ws") != 0)
        return reject(gate, wsi, 404, NULL, "no WebSocket at this path, use /v1/ws");
    if (gate_fd_is_admin(gate, io.fd))
        return reject(gate, wsi, 404, NULL, "no WebSocket on gate.admin_listen");
    if (method != REQUEST_GET)
        return reject(gate, wsi, 405, "Allow: GET", "method not allowed, use GET");
    if (!request_field_is(wsi, FIELD_VERSION, "HTTP/1.1"))
        return reject(gate, wsi, 400, NULL, "upgrade requires HTTP/1.1");
    if (!request_field_is(wsi, FIELD_WEBSOCKET_VERSION, "13"))
        return reject(gate, wsi, 426, "Sec-WebSocket-Version: 13",
                      "Sec-WebSocket-Version must be 13");
    if (!has_good_key(wsi) || request_field_len(wsi, FIELD_HOST) <= 0)
        return reject(gate, wsi, 400, NULL, "missing or invalid Host or Sec-WebSocket-Key");
    if (!offers_protocol(wsi))
        return reject(gate, wsi, 400, NULL, "missing subprotocol " GATE_PROTOCOL);
    return 0;
}

int
gate_ws_check_upgrade(struct gate *gate, struct lws *wsi)
{
    char *origin = NULL;
    struct gate_rejection rejection;
    bool is_allowed;

    if (workaround_head_is_freed(wsi) || check_handshake(gate, wsi) != 0)
        return -1;
    is_allowed = gate_origin_read(gate, gate->config->gate.origins, wsi, &origin);
    free(origin);
    if (!is_allowed)
        return reject(gate, wsi, 403, NULL, GATE_ORIGIN_NOT_ALLOWED);
    if (gate_request_has_both(wsi))
        return reject(gate, wsi, 400, NULL, GATE_TWO_CREDENTIALS);
    if (!gate_admits_request(gate, wsi))
        return reject(gate, wsi, 429, GATE_RETRY_SOON, GATE_RATE_EXCEEDED);
    if (!gate_admits(gate, wsi, true, &rejection))
        return reject(gate, wsi, rejection.status, rejection.header, rejection.detail);
    return 0;
}

void
gate_ws_upgrade_required(struct gate *gate, struct lws *wsi, struct response *ret_response)
{
    (void)wsi;
    (void)gate;
    response_problem(ret_response, 426, 0,
                     "WebSocket only, send Upgrade: websocket and Connection: Upgrade");
}
