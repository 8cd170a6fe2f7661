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
#include "hub/session.h"
#include "wire/ws_frame.h"

/*
 * Passes one frame, from an offset of a piece, to the route. Returns its length, which may include
 * the next piece; 0: the route is full.
 */
static size_t
pass_frame(struct gate_request *request, const struct session_pieces *pieces, int i, size_t offset)
{
    const unsigned char *at = (const unsigned char *)pieces->at[i].iov_base + offset;
    size_t left = pieces->at[i].iov_len - offset;
    size_t len = ws_frame_len(at);
    size_t head_len = ws_frame_header_len(at);
    struct gate_frame frame = {.text = {at + head_len, (len < left ? len : left) - head_len},
                               .owner = pieces->owners[i]};

    if (len > left) {
        frame.rest = (struct bytes){pieces->at[i + 1].iov_base, len - left};
        frame.rest_owner = pieces->owners[i + 1];
    }
    return request->route->on_lines(request, &frame) ? len : 0;
}

static enum rc
on_session_send(void *socket, const struct session_pieces *pieces, size_t *ret_written)
{
    struct gate_request *request = socket;
    bool accepts_more = request->state == GATE_REQUEST_OPEN;

    for (int i = 0; i < pieces->count && accepts_more; i++) {
        size_t offset = 0;

        while (offset < pieces->at[i].iov_len && accepts_more) {
            size_t len = pass_frame(request, pieces, i, offset);

            offset += len;
            *ret_written += len;
            accepts_more = len > 0;
        }
        i += offset > pieces->at[i].iov_len;
    }
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
