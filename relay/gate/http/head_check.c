/* head_check.c: validates a request head before libwebsockets reads it. */
#include "gate/http/head_check.h"

#include "base/log.h"
#include "gate/http/response.h"
#include "gate/net/gate_shared.h"
#include "gate/net/lws_workarounds.h"
#include "wire/http_head.h"

static enum rc
reject_head(struct response *ret_response, int status, const char *detail)
{
    log_debug("gate", "request rejected", LOG_INT("status", status), LOG_TEXT("detail", detail));
    response_problem(ret_response, status, 0, detail);
    return RC_BAD;
}

enum rc
gate_head_check(const struct gate *gate, int fd, const char *bytes, size_t len,
                unknown_method_response *on_unknown_method, struct http_head *ret_head,
                struct response *ret_response)
{
    struct http_head parts;
    const char *why = "";
    enum rc rc = http_head_check(bytes, len, GATE_HEAD_BYTES_MAX, &parts, &why);

    if (rc == RC_OK)
        *ret_head = parts;
    /* RFC 6455, 4.1: a client must wait for the response (lws_workarounds.h). */
    if (rc == RC_OK && parts.is_websocket && len > parts.len)
        return reject_head(ret_response, 400, "data sent before the upgrade response");
    /* The library would normalize the path after a proxy has checked it. */
    if (rc == RC_OK && !http_head_has_plain_path(&parts))
        return reject_head(ret_response, 404, "no such path");
    if (rc == RC_AGAIN || (rc == RC_OK && !workaround_is_unknown_method(&parts)))
        return rc;
    if (rc == RC_LIMIT)
        return reject_head(ret_response, 431,
                           "request head too long, limits are 12 kB and 127 headers");
    if (rc != RC_OK)
        return reject_head(ret_response, 400, why);
    on_unknown_method(gate, fd, parts.target, parts.target_len, ret_response);
    return RC_BAD;
}

void
gate_head_timed_out(struct response *ret_response)
{
    (void)reject_head(ret_response, 408, "timeout waiting for the request header");
}
