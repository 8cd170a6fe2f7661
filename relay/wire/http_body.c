/* http_body.c: finds the end of a body, and rejects chunks that parsers read differently. */
#include "wire/http_body.h"

#include "base/text.h"

#define DIGITS_MAX 15 /* of a chunk's size; no size overflows */

void
http_body_begin(struct http_body *body, const struct http_head *head)
{
    *body = (struct http_body){.is_chunked = head->is_chunked, .left = head->content_length};
    if (head->is_chunked)
        body->part = HTTP_BODY_SIZE;
    else if (head->content_length == 0)
        body->part = HTTP_BODY_COMPLETE;
}

/* The size is complete: its line has ended. */
static const char *
begin_chunk(struct http_body *body)
{
    body->has_return = false;
    body->seen = body->line = 0;
    body->part = body->left > 0 ? HTTP_BODY_DATA : HTTP_BODY_TRAILERS;
    return NULL;
}

/* Each function below parses one byte, and returns an error or NULL. */

static const char *
parse_extensions(struct http_body *body, char c)
{
    if (body->has_return)
        return c == '\n' ? begin_chunk(body) : "carriage return without a line feed in a chunk";
    body->has_return = c == '\r';
    if (body->has_return)
        return NULL;
    if (((unsigned char)c < ' ' && c != '\t') || c == 0x7f)
        return "control character in a chunk extension";
    return ++body->seen > HTTP_CHUNK_EXTENSIONS_MAX ? "chunk extensions too long" : NULL;
}

static const char *
parse_size(struct http_body *body, char c)
{
    int digit = hex_value(c);

    if (digit >= 0 && body->digits == DIGITS_MAX)
        return "chunk size too long";
    if (digit >= 0) {
        body->left = body->left << 4 | digit;
        body->digits++;
        return NULL;
    }
    if (body->digits == 0 || (c != ';' && c != '\r'))
        return "invalid chunk size";
    body->part = HTTP_BODY_EXTENSIONS;
    body->seen = 0;
    return parse_extensions(body, c);
}

static const char *
parse_data_end(struct http_body *body, char c)
{
    if (c != (body->has_return ? '\n' : '\r'))
        return "chunk longer than its size";
    if (body->has_return) {
        body->part = HTTP_BODY_SIZE;
        body->left = 0;
        body->digits = 0;
    }
    body->has_return = !body->has_return;
    return NULL;
}

/* Trailers are ignored, but end where every parser ends them. */
static const char *
parse_trailers(struct http_body *body, char c)
{
    if (++body->seen > HTTP_TRAILERS_MAX)
        return "trailers too long";
    if (body->has_return) {
        if (c != '\n')
            return "carriage return without a line feed in a trailer";
        if (body->line == 0)
            body->part = HTTP_BODY_COMPLETE;
        body->line = 0;
        body->has_return = false;
        return NULL;
    }
    body->has_return = c == '\r';
    if (body->has_return)
        return NULL;
    if (body->line++ == 0 && (c == ' ' || c == '\t'))
        return "obsolete line folding in a trailer";
    return ((unsigned char)c < ' ' && c != '\t') || c == 0x7f ? "control character in a trailer"
                                                              : NULL;
}

static const char *
parse_byte(struct http_body *body, char c)
{
    switch (body->part) {
    case HTTP_BODY_SIZE:
        return parse_size(body, c);
    case HTTP_BODY_EXTENSIONS:
        return parse_extensions(body, c);
    case HTTP_BODY_DATA_END:
        return parse_data_end(body, c);
    default:
        return parse_trailers(body, c);
    }
}

enum rc
http_body_next(struct http_body *body, const char *bytes, size_t len, size_t *ret_used,
               struct bytes *ret_data, const char **ret_why)
{
    const char *why = NULL;
    size_t used = 0;

    *ret_data = (struct bytes){NULL, 0};
    while (used < len && why == NULL && body->part != HTTP_BODY_DATA &&
           body->part != HTTP_BODY_COMPLETE)
        why = parse_byte(body, bytes[used++]);
    if (why != NULL) {
        *ret_why = why;
        return RC_BAD;
    }
    if (body->part == HTTP_BODY_DATA) {
        size_t data = (int64_t)(len - used) < body->left ? len - used : (size_t)body->left;

        *ret_data = (struct bytes){(const unsigned char *)bytes + used, data};
        used += data;
        body->left -= (int64_t)data;
        if (body->left == 0)
            body->part = body->is_chunked ? HTTP_BODY_DATA_END : HTTP_BODY_COMPLETE;
    }
    *ret_used = used;
    return RC_OK;
}
