/* response.c: builds HTTP responses. */
#include "gate/http/response.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BODY_MAX (64 * 1024 * 1024) /* a poll may return large notifications */
#define HEADERS_MAX 2048

static const struct {
    int status;
    const char *phrase;
} REASON_PHRASES[] = {
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
reason_phrase(int status)
{
    for (size_t i = 0; i < sizeof(REASON_PHRASES) / sizeof(REASON_PHRASES[0]); i++) {
        if (REASON_PHRASES[i].status == status)
            return REASON_PHRASES[i].phrase;
    }
    return "Unknown";
}

void
response_init(struct response *response, int status, const char *type)
{
    *response = (struct response){.status = status, .type = type};
    buffer_init(&response->headers, HEADERS_MAX);
    buffer_init(&response->body, BODY_MAX);
}

void
response_problem(struct response *response, int status, int code, const char *detail)
{
    enum rc rc;

    response_init(response, status, "application/problem+json");
    rc = buffer_addf(&response->body,
                     "{\"title\":\"%s\",\"status\":%d,\"detail\":", reason_phrase(status), status);
    if (rc == RC_OK)
        rc = buffer_add_json(&response->body, detail, strlen(detail));
    if (rc == RC_OK && code != 0)
        rc = buffer_addf(&response->body, ",\"code\":%d", code);
    if (rc == RC_OK)
        rc = buffer_add(&response->body, "}\n", 2);
    if (rc != RC_OK)
        buffer_clear(&response->body);
    if (status == 401)
        response_header(response, "WWW-Authenticate: Bearer%s",
                        code != 0 ? " error=\"invalid_token\"" : "");
}

void
response_header(struct response *response, const char *format, ...)
{
    char line[HEADERS_MAX / 2];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (len > 0 && (size_t)len < sizeof(line) &&
        buffer_addf(&response->headers, "%s\r\n", line) != RC_OK)
        return;
}

void
response_problem_with(struct response *response, int status, int code, const char *header,
                      const char *detail)
{
    response_problem(response, status, code, detail);
    if (header != NULL)
        response_header(response, "%s", header);
}

void
response_allow_origin(struct response *response, const char *origin)
{
    if (origin == NULL)
        return;
    response_header(response, "Access-Control-Allow-Origin: %s", origin);
    response_header(response, "Access-Control-Expose-Headers: Clairon-Pos, Retry-After, "
                              "Idempotency-Replayed, Location, Preference-Applied");
    response_header(response, "Vary: Origin");
}

/* RFC 9110, 7.8: a sender of Upgrade also names it in Connection, and 426 requires Upgrade. */
static const char *
connection_of(const struct response *response, bool is_last)
{
    if (response->status == 426)
        return "Upgrade: websocket\r\nConnection: upgrade, close\r\n";
    return is_last ? "Connection: close\r\n" : "";
}

static enum rc
add_head(const struct response *response, bool is_last, struct buffer *out)
{
    enum rc rc =
        buffer_addf(out, "HTTP/1.1 %d %s\r\n", response->status, reason_phrase(response->status));

    if (rc == RC_OK && response->status != 204)
        rc = buffer_addf(out, "Content-Type: %s\r\nContent-Length: %zu\r\n", response->type,
                         response->body.len + response->lines.len);
    if (rc == RC_OK)
        rc = buffer_addf(out,
                         "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n%s"
                         "%s\r\n",
                         response->headers.len > 0 ? response->headers.bytes : "",
                         connection_of(response, is_last));
    return rc;
}

enum rc
response_build(struct response *response, bool is_last, struct buffer *out)
{
    enum rc rc;

    buffer_init(out, BODY_MAX + 2 * HEADERS_MAX);
    rc = add_head(response, is_last, out);
    if (rc == RC_OK && !response->head && response->status != 204)
        rc = buffer_add(out, response->body.bytes, response->body.len);
    buffer_free(&response->headers);
    buffer_free(&response->body);
    if (rc != RC_OK)
        buffer_free(out);
    return rc;
}
