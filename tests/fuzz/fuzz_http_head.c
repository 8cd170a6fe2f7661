/* fuzz_http_head.c: checks that an accepted request cannot smuggle a second request. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "wire/http_body.h"
#include "wire/http_head.h"

#define MAX 1024

/* An accepted head ends at its first empty line, and each line ends in CR LF. */
static void
check(const char *text, size_t size, const struct http_head *head)
{
    const char *end = memmem(text, size, "\r\n\r\n", 4);
    char *header = NULL, *host = NULL, *argument = NULL;

    if (end == NULL || (size_t)(end - text) + 4 > MAX || head->bytes != text ||
        head->path_len > head->target_len || text + head->target + head->target_len > end)
        __builtin_trap();
    /* Only * and some URIs have an empty path. Parsers agree where the authority ends. */
    if (head->path_len > 0 ? text[head->target] != '/'
                           : head->authority_len == 0 && head->method != HTTP_OPTIONS)
        __builtin_trap();
    for (size_t i = head->target - head->authority_len; i < head->target; i++)
        if (strchr("/?#@\\ ", text[i]) != NULL)
            __builtin_trap();
    if (head->len < 4 || head->len > size || memcmp(text + head->len - 4, "\r\n\r\n", 4) != 0)
        __builtin_trap();
    for (const char *at = text; at < end; at++) {
        if ((*at == '\n' && (at == text || at[-1] != '\r')) || (*at == '\r' && at[1] != '\n') ||
            *at == '\0' || (*at == '\n' && (at[1] == ' ' || at[1] == '\t')))
            __builtin_trap();
    }
    if (http_head_text(head, "cookie", 100, &header) == RC_OK)
        free(header);
    if (http_head_host(head, 100, &host) == RC_OK)
        free(host);
    if (http_head_argument(head, "a=", 100, &argument) == RC_OK)
        free(argument);
}

/* Returns the bytes of the body, or -1 if it is invalid or incomplete. */
static long
body_len(const struct http_head *head, const char *text, size_t size, size_t piece_max)
{
    struct http_body body;
    struct bytes data;
    const char *why;
    size_t at = head->len, used;

    http_body_begin(&body, head);
    while (body.part != HTTP_BODY_COMPLETE && at < size) {
        size_t piece = size - at < piece_max ? size - at : piece_max;

        if (http_body_next(&body, text + at, piece, &used, &data, &why) != RC_OK)
            return -1;
        if (used == 0 || used > piece || data.len > used)
            __builtin_trap();
        at += used;
    }
    return body.part == HTTP_BODY_COMPLETE ? (long)(at - head->len) : -1;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct http_head head = {0}, byte_by_byte = {0};
    const char *why = NULL;
    enum rc rc = http_head_parse(&head, text, size, MAX, &why), part = RC_AGAIN;

    if (rc == RC_OK)
        check(text, size, &head);
    if ((rc == RC_BAD) != (why != NULL) || (rc == RC_AGAIN && size >= MAX))
        __builtin_trap();
    /* The result does not depend on how much of the request has arrived. */
    for (size_t len = 0; len <= size && part == RC_AGAIN; len++)
        part = http_head_parse(&byte_by_byte, text, len, MAX, &why);
    if (part != rc || (rc == RC_OK && byte_by_byte.len != head.len))
        __builtin_trap();
    if (rc == RC_OK && body_len(&head, text, size, size) != body_len(&head, text, size, 1))
        __builtin_trap();
    return 0;
}
