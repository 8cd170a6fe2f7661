/* upgrade.c: accepts or rejects WebSocket upgrade requests. */
#include "gate/ws/upgrade.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/sha.h>

#include "base/log.h"
#include "gate/http/auth.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "gate/net/limits.h"
#include "gate/ws/websocket.h"
#include "wire/http_head.h"

#define KEY_LEN 24 /* 16 bytes in base64 */
#define SPACES ", \t"

static void
reject(struct conn *conn, const struct gate_rejection *rejection)
{
    struct response response;

    stats_add(conn->gate->stats, STAT_GATE_REJECTED, 1);
    log_info("gate", "upgrade rejected", LOG_INT("status", rejection->status),
             LOG_TEXT("detail", rejection->detail));
    response_problem_with(&response, rejection->status, 0, rejection->header, rejection->detail);
    gate_request_reply(conn, &response);
}

/* Whether our subprotocol is in the list. */
static bool
names_protocol(const char *list)
{
    for (const char *at = list + strspn(list, SPACES); *at != '\0'; at += strspn(at, SPACES)) {
        size_t len = strcspn(at, SPACES);

        if (len == strlen(GATE_PROTOCOL) && strncmp(at, GATE_PROTOCOL, len) == 0)
            return true;
        at += len;
    }
    return false;
}

/* A request without a subprotocol is accepted: only browsers require one. */
static bool
offers_protocol(const struct http_head *head)
{
    char *list = http_head_text(head, "sec-websocket-protocol", SIZE_MAX);
    bool is_offered = list == NULL || names_protocol(list);

    free(list);
    return is_offered;
}

/* 16 bytes in base64 (RFC 6455, 4.2.1). */
static bool
read_key(const struct http_head *head, char ret_key[KEY_LEN + 1])
{
    static const char ALPHABET[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *key = http_head_text(head, "sec-websocket-key", KEY_LEN);
    bool is_good = key != NULL && strlen(key) == KEY_LEN && strspn(key, ALPHABET) == KEY_LEN - 2 &&
                   strcmp(key + KEY_LEN - 2, "==") == 0;

    if (is_good)
        memcpy(ret_key, key, KEY_LEN + 1);
    free(key);
    return is_good;
}

/* Checks for a valid RFC 6455 upgrade to our subprotocol. False: *ret is the reason. */
static bool
check_handshake(const struct conn *conn, char ret_key[KEY_LEN + 1], struct gate_rejection *ret)
{
    static const char PATH[] = "/v1/ws";
    const struct http_head *head = conn->head;

    if (head->path_len != strlen(PATH) ||
        memcmp(head->bytes + head->target, PATH, head->path_len) != 0)
        *ret = (struct gate_rejection){404, 0, NULL, "no WebSocket at this path, use /v1/ws"};
    else if (conn->is_admin)
        *ret = (struct gate_rejection){404, 0, NULL, "no WebSocket on gate.admin_listen"};
    else if (head->method != HTTP_GET)
        *ret = (struct gate_rejection){405, 0, "Allow: GET", "method not allowed, use GET"};
    else if (!head->is_1_1)
        *ret = (struct gate_rejection){400, 0, NULL, "upgrade requires HTTP/1.1"};
    else if (!http_head_is(head, "sec-websocket-version", "13"))
        *ret = (struct gate_rejection){426, 0, "Sec-WebSocket-Version: 13",
                                       "Sec-WebSocket-Version must be 13"};
    else if (!read_key(head, ret_key) || http_head_is(head, "host", ""))
        *ret =
            (struct gate_rejection){400, 0, NULL, "missing or invalid Host or Sec-WebSocket-Key"};
    else if (!offers_protocol(head))
        *ret = (struct gate_rejection){400, 0, NULL, "missing subprotocol " GATE_PROTOCOL};
    else if (head->is_chunked || head->content_length > 0)
        *ret = (struct gate_rejection){400, 0, NULL, "upgrade with a body"};
    else
        return true;
    return false;
}

/* Checks what a page and its user may do. False: *ret is the reason. */
static bool
check_client(struct conn *conn, struct gate_rejection *ret)
{
    char *origin = NULL;
    bool is_allowed = gate_origin_read(conn, conn->gate->config->gate.origins, &origin);

    free(origin);
    if (!is_allowed)
        *ret = (struct gate_rejection){403, 0, NULL, GATE_ORIGIN_NOT_ALLOWED};
    else if (gate_request_has_both(conn->head))
        *ret = (struct gate_rejection){400, 0, NULL, GATE_TWO_CREDENTIALS};
    else if (!gate_admits_request(conn))
        *ret = (struct gate_rejection){429, 0, GATE_RETRY_SOON, GATE_RATE_EXCEEDED};
    else
        return gate_admits(conn, true, ret);
    return false;
}

/* RFC 6455, 4.2.2. The socket has room: earlier responses are written. */
static void
accept_upgrade(struct conn *conn, const char *key)
{
    static const char GUID[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    const bool has_protocol = http_head_has(conn->head, "sec-websocket-protocol");
    unsigned char hash[SHA_DIGEST_LENGTH];
    char accept_key[4 * SHA_DIGEST_LENGTH / 3 + 4];
    char text[KEY_LEN + sizeof(GUID)];
    char response[256];
    int len;

    memcpy(text, key, KEY_LEN);
    memcpy(text + KEY_LEN, GUID, sizeof(GUID));
    SHA1((const unsigned char *)text, strlen(text), hash);
    EVP_EncodeBlock((unsigned char *)accept_key, hash, sizeof(hash));
    len = snprintf(response, sizeof(response),
                   "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                   "Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n%s\r\n",
                   accept_key, has_protocol ? "Sec-WebSocket-Protocol: " GATE_PROTOCOL "\r\n" : "");
    gate_ws_begin(conn);
    if (conn_write(conn, response, (size_t)len) != len)
        conn_close(conn);
}

void
gate_ws_upgrade(struct conn *conn)
{
    struct gate_rejection rejection;
    char key[KEY_LEN + 1];

    if (check_handshake(conn, key, &rejection) && check_client(conn, &rejection))
        accept_upgrade(conn, key);
    else
        reject(conn, &rejection);
}

void
gate_ws_upgrade_required(struct conn *conn, struct response *ret_response)
{
    (void)conn;
    response_problem(ret_response, 426, 0,
                     "WebSocket only, send Upgrade: websocket and Connection: Upgrade");
}
