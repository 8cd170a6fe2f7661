/* request_session.c: connects a session to a poll or SSE stream. */
#include "gate/http/request_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "gate/http/credentials.h"
#include "gate/http/response_writer.h"
#include "gate/net/gate_shared.h"
#include "hub/attach.h"
#include "wire/ws_frame.h"

/* Passes the lines of whole frames to the route. Returns the number of accepted bytes. */
static size_t
pass_frames(struct gate_request *request, const unsigned char *at, size_t len,
            bool *ret_accepts_more)
{
    const unsigned char *end = at + len;
    size_t written = 0;

    while (at < end && *ret_accepts_more) {
        size_t frame_len = ws_frame_len(at);
        size_t head_len = ws_frame_header_len(at);

        *ret_accepts_more =
            request->route->on_lines(request, (const char *)at + head_len, frame_len - head_len);
        if (*ret_accepts_more)
            written += frame_len;
        at += frame_len;
    }
    return written;
}

static enum rc
on_session_send(void *socket, const struct iovec *pieces, int count, size_t *ret_written)
{
    struct gate_request *request = socket;
    bool accepts_more = request->state == GATE_REQUEST_OPEN;
    size_t written = 0;

    for (int i = 0; i < count && accepts_more; i++)
        written += pass_frames(request, pieces[i].iov_base, pieces[i].iov_len, &accepts_more);
    *ret_written = written;
    if (request->state == GATE_REQUEST_OPEN)
        gate_request_want_write(request);
    return accepts_more ? RC_OK : RC_AGAIN;
}

static void
on_session_close(void *socket, int code, const char *reason, int64_t in_ms)
{
    struct gate_request *request = socket;

    if (request->state == GATE_REQUEST_OPEN)
        request->route->on_end(request, code, reason, in_ms);
}

static const struct session_transport TRANSPORT = {
    .send = on_session_send,
    .close = on_session_close,
};

void
gate_request_attach(struct gate_request *request, struct session_request *wanted)
{
    const struct token *token = &request->token;
    struct session_group *groups = gate_groups_of(token);

    wanted->user = token->user;
    wanted->groups = groups;
    wanted->group_count = token->group_count;
    wanted->expires_s = token->expires_s;
    gate_request_set_state(request, GATE_REQUEST_OPEN);
    request->session = hub_attach(request->gate->hub, wanted, &TRANSPORT, request);
    free(groups);
    snprintf(request->conn_id, sizeof(request->conn_id), "%s", session_conn(request->session));
    log_debug("gate", "stream opened", LOG_REQUEST(request));
}
