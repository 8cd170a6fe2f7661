/* upgrade.c: refuses upgrades to a WebSocket before they happen. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "gate/gate_request.h"

#define PROTOCOLS_MAX 128 /* lws drops a longer list without an answer */

static int
refuse(struct gate *gate, struct lws *wsi, int status, const char *header, const char *sentence)
{
    struct gate_answer answer;

    stats_add(gate->stats, STAT_GATE_REFUSED, 1);
    log_info("gate", "refused an upgrade with %d: %s", status, sentence);
    gate_answer_problem(&answer, status, 0, sentence);
    if (header != NULL)
        gate_answer_header(&answer, "%s", header);
    return gate_answer_send(wsi, &answer);
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
    char path[GATE_TARGET_MAX];
    int method = -1;

    if (!header_is(wsi, WSI_TOKEN_UPGRADE, "websocket"))
        return refuse(gate, wsi, 400, NULL, "the only upgrade here is websocket");
    if (!gate_http_path(wsi, &method, path) || strcmp(path, "/v1/ws") != 0)
        return refuse(gate, wsi, 404, NULL, "the WebSocket is at /v1/ws");
    if (gate_fd_is_admin(gate, lws_get_socket_fd(wsi)))
        return refuse(gate, wsi, 404, NULL, "the WebSocket is at gate.listen");
    if (method != LWSHUMETH_GET)
        return refuse(gate, wsi, 405, "Allow: GET", "an upgrade is a GET");
    if (!header_is(wsi, WSI_TOKEN_HTTP, "HTTP/1.1"))
        return refuse(gate, wsi, 400, NULL, "an upgrade needs HTTP/1.1");
    if (!header_is(wsi, WSI_TOKEN_VERSION, "13"))
        return refuse(gate, wsi, 426, "Sec-WebSocket-Version: 13",
                      "Sec-WebSocket-Version must be 13");
    if (!has_good_key(wsi) || lws_hdr_total_length(wsi, WSI_TOKEN_HOST) <= 0)
        return refuse(gate, wsi, 400, NULL, "Host or Sec-WebSocket-Key is missing or malformed");
    if (!offers_protocol(wsi))
        return refuse(gate, wsi, 400, NULL, "Sec-WebSocket-Protocol does not offer " GATE_PROTOCOL);
    return 0;
}

int
gate_http_upgrade(struct gate *gate, struct lws *wsi)
{
    char *origin = NULL;
    struct gate_refusal refusal;
    bool may;

    /*
     * Not the callback's `in`: for an upgrade lws does not know it points into headers
     * that are already gone (CVE-2025-11677). No headers: hang up.
     */
    if (lws_hdr_total_length(wsi, WSI_TOKEN_UPGRADE) <= 0 || check_handshake(gate, wsi) != 0)
        return -1;
    may = gate_http_origin(gate, gate->config->gate.origins, wsi, &origin);
    free(origin);
    if (!may)
        return refuse(gate, wsi, 403, NULL, "pages of this origin may not");
    if (gate_http_has_two_proofs(wsi))
        return refuse(gate, wsi, 400, NULL, GATE_TWO_PROOFS);
    if (!gate_admits_request(gate, wsi))
        return refuse(gate, wsi, 429, GATE_SOON, GATE_TOO_FAST);
    if (!gate_admits(gate, wsi, true, &refusal))
        return refuse(gate, wsi, refusal.status, refusal.retry_after, refusal.sentence);
    return 0;
}
