/* head.c: reads request heads, the first of a connection and those that follow. */
#include "gate/http/head.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "gate/http/requests.h"
#include "gate/http/response.h"
#include "gate/net/gate_shared.h"
#include "wire/http_head.h"

static void
head_reject(struct conn *conn, int status, const char *detail)
{
    struct response response;

    log_debug("gate", "request rejected", LOG_INT("status", status), LOG_TEXT("detail", detail));
    stats_add(conn->gate->stats, STAT_GATE_PROTOCOL_ERRORS, 1);
    free(conn->owner);
    conn->owner = NULL;
    response_problem(&response, status, 0, detail);
    gate_request_reply_malformed(conn, &response);
}

/* The bytes after the head may be a body, or further requests. */
static void
head_begin(struct conn *conn, const struct http_head *head, unsigned char *rest, size_t rest_len)
{
    free(conn->owner);
    conn->owner = NULL;
    conn->head = head;
    /* RFC 6455, 4.1: a client must wait for the response. */
    if (http_head_is_websocket(head) && rest_len > 0)
        head_reject(conn, 400, "data sent before the upgrade response");
    else
        conn->gate->serve(conn);
    conn->head = NULL;
    if (rest_len > 0 && conn->phase != CONN_CLOSING)
        conn->events->on_bytes(conn, rest, rest_len);
}

/*
 * Parses the head at the start of `bytes`. While it is incomplete, the bytes are kept in conn->in,
 * and the state of the parser in conn->owner.
 */
static void
head_parse(struct conn *conn, unsigned char *bytes, size_t len)
{
    const bool is_kept = (char *)bytes == conn->in.bytes;
    struct http_head head = {0};
    struct buffer kept;
    const char *why = "";
    enum rc rc;

    if (conn->owner != NULL)
        head = *(struct http_head *)conn->owner;
    rc = http_head_parse(&head, (const char *)bytes, len, GATE_HEAD_BYTES_MAX, &why);
    if (rc == RC_AGAIN) {
        if (conn->owner == NULL)
            conn->owner = memory_new(sizeof(head));
        *(struct http_head *)conn->owner = head;
        if (!is_kept)
            conn_keep_bytes(conn, bytes, len);
        return;
    }
    kept = conn->in; /* `bytes` must outlive the callbacks, which keep other bytes */
    if (is_kept)
        buffer_init(&conn->in, kept.limit);
    if (rc == RC_OK)
        head_begin(conn, &head, bytes + head.len, len - head.len);
    else if (rc == RC_LIMIT)
        head_reject(conn, 431, "request head too long, limits are 12 kB and 127 headers");
    else
        head_reject(conn, 400, why);
    if (is_kept)
        buffer_free(&kept);
}

static void
on_head_bytes(struct conn *conn, unsigned char *bytes, size_t len)
{
    if (conn->phase != CONN_HEAD)
        conn_enter(conn, CONN_HEAD, &GATE_HEAD_EVENTS, NULL);
    if (conn->in.len > 0) {
        conn_keep_bytes(conn, bytes, len);
        bytes = (unsigned char *)conn->in.bytes;
        len = conn->in.len;
    }
    if (conn->phase == CONN_HEAD)
        head_parse(conn, bytes, len);
}

static void
on_head_writable(struct conn *conn)
{
    (void)conn; /* the response was written completely */
}

static void
on_head_closed(struct conn *conn)
{
    free(conn->owner);
}

const struct conn_events GATE_HEAD_EVENTS = {
    .on_bytes = on_head_bytes, .on_writable = on_head_writable, .on_closed = on_head_closed};

void
gate_head_next(struct conn *conn)
{
    conn_enter(conn, conn->in.len == 0 ? CONN_KEPT : CONN_HEAD, &GATE_HEAD_EVENTS, NULL);
    if (conn->in.len > 0)
        head_parse(conn, (unsigned char *)conn->in.bytes, conn->in.len);
    if (conn->events == &GATE_HEAD_EVENTS)
        conn_resume(conn);
}

void
gate_heads_sweep(struct gate *gate, int64_t now_us)
{
    int64_t timeout_us = gate->config->gate.connect_timeout_ms * 1000;
    struct conn *conn;

    while ((conn = gate->conns->in[CONN_HEAD].first) != NULL &&
           now_us - conn->since_us > timeout_us) {
        if (conn->in.len == 0)
            conn_close(conn); /* without a request, close without a response */
        else
            head_reject(conn, 408, "timeout waiting for the request header");
    }
}
