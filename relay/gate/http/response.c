/* response.c: builds HTTP responses. */
#include "gate/http/response.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "gate/net/conn_io.h"

#define BODY_MAX (64 * 1024 * 1024) /* a poll's lines may be long */
#define HEADERS_MAX 2048

static const struct {
    int status;
    const char *phrase;
} PHRASES[] = {
    {200, "OK"},
    {201, "Created"},
    {204, "No Content"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {411, "Length Required"},
    {413, "Content Too Large"},
    {422, "Unprocessable Content"},
    {426, "Upgrade Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {503, "Service Unavailable"},
};

static const char *
phrase_of(int status)
{
    for (size_t i = 0; i < sizeof(PHRASES) / sizeof(PHRASES[0]); i++) {
        if (PHRASES[i].status == status)
            return PHRASES[i].phrase;
    }
    return "Answer";
}

void
gate_answer_init(struct gate_answer *answer, int status, const char *type)
{
    *answer = (struct gate_answer){.status = status, .type = type};
    buffer_init(&answer->headers, HEADERS_MAX);
    buffer_init(&answer->body, BODY_MAX);
}

void
gate_answer_problem(struct gate_answer *answer, int status, int code, const char *sentence)
{
    enum rc rc;

    gate_answer_init(answer, status, "application/problem+json");
    rc = buffer_addf(&answer->body,
                     "{\"title\":\"%s\",\"status\":%d,\"detail\":", phrase_of(status), status);
    if (rc == RC_OK)
        rc = buffer_add_json(&answer->body, sentence, strlen(sentence));
    if (rc == RC_OK && code != 0)
        rc = buffer_addf(&answer->body, ",\"code\":%d", code);
    if (rc == RC_OK)
        rc = buffer_add(&answer->body, "}\n", 2);
    if (rc != RC_OK)
        buffer_clear(&answer->body);
    if (status == 401)
        gate_answer_header(answer, "WWW-Authenticate: Bearer%s",
                           code != 0 ? " error=\"invalid_token\"" : "");
}

void
gate_answer_header(struct gate_answer *answer, const char *format, ...)
{
    char line[HEADERS_MAX / 2];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (len > 0 && (size_t)len < sizeof(line) &&
        buffer_addf(&answer->headers, "%s\r\n", line) != RC_OK)
        return;
}

void
gate_answer_problem_with(struct gate_answer *answer, int status, const char *header,
                         const char *sentence)
{
    gate_answer_problem(answer, status, 0, sentence);
    if (header != NULL)
        gate_answer_header(answer, "%s", header);
}

void
gate_answer_allow(struct gate_answer *answer, const char *origin)
{
    if (origin == NULL)
        return;
    gate_answer_header(answer, "Access-Control-Allow-Origin: %s", origin);
    gate_answer_header(answer, "Access-Control-Expose-Headers: Clairon-Pos, Retry-After, "
                               "Idempotency-Replayed, Location, Preference-Applied");
    gate_answer_header(answer, "Vary: Origin");
}

/* RFC 9110, 7.8: who names an upgrade does so in Connection too, and 426 must name one. */
static const char *
connection_of(const struct gate_answer *answer)
{
    return answer->status == 426 ? "Upgrade: websocket\r\nConnection: upgrade, close"
                                 : "Connection: close";
}

static enum rc
add_head(const struct gate_answer *answer, struct buffer *out)
{
    enum rc rc = buffer_addf(out, "HTTP/1.1 %d %s\r\n", answer->status, phrase_of(answer->status));

    if (rc == RC_OK && answer->status != 204)
        rc = buffer_addf(out, "Content-Type: %s\r\nContent-Length: %zu\r\n", answer->type,
                         answer->body.len);
    if (rc == RC_OK)
        rc = buffer_addf(out,
                         "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n%s"
                         "%s\r\n\r\n",
                         answer->headers.len > 0 ? answer->headers.bytes : "",
                         connection_of(answer));
    return rc;
}

enum rc
gate_answer_build(struct gate_answer *answer, struct buffer *out)
{
    enum rc rc;

    buffer_init(out, BODY_MAX + 2 * HEADERS_MAX);
    rc = add_head(answer, out);
    if (rc == RC_OK && !answer->head && answer->status != 204)
        rc = buffer_add(out, answer->body.bytes, answer->body.len);
    buffer_free(&answer->headers);
    buffer_free(&answer->body);
    if (rc != RC_OK)
        buffer_free(out);
    return rc;
}

int
gate_answer_send(struct lws *wsi, struct gate_answer *answer)
{
    const struct conn_io io = conn_io_of(wsi);
    struct buffer out;

    /* The connection ends, written or not. */
    if (gate_answer_build(answer, &out) == RC_OK &&
        conn_io_write_raw(&io, (const unsigned char *)out.bytes, out.len) != RC_OK)
        log_debug("gate", "could not write a response of status %d", answer->status);
    buffer_free(&out);
    return -1;
}
