/* fuzz_http_head.c: checks that an accepted request head cannot smuggle a second request. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "wire/http_head.h"

#define MAX 1024

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An accepted head ends at its first empty line, and each line ends in CR LF. */
static void
check(const char *text, size_t size, const struct http_head *head)
{
    const char *end = memmem(text, size, "\r\n\r\n", 4);

    if (end == NULL || (size_t)(end - text) + 4 > MAX || head->method != text ||
        head->method_len == 0 || head->target_len == 0 || head->target[0] != '/' ||
        head->target + head->target_len > end)
        __builtin_trap();
    if (head->len < 4 || head->len > size || memcmp(text + head->len - 4, "\r\n\r\n", 4) != 0)
        __builtin_trap();
    for (const char *at = text; at < end; at++) {
        if ((*at == '\n' && (at == text || at[-1] != '\r')) || (*at == '\r' && at[1] != '\n') ||
            *at == '\0' || (*at == '\n' && (at[1] == ' ' || at[1] == '\t')))
            __builtin_trap();
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct http_head head;
    const char *why = NULL;
    enum rc rc = http_head_check(text, size, MAX, &head, &why);

    if (rc == RC_OK)
        check(text, size, &head);
    if ((rc == RC_BAD) != (why != NULL) || (rc == RC_AGAIN && size >= MAX))
        __builtin_trap();
    /* The result does not depend on how much of the head has arrived. */
    for (size_t len = 0; len < size && size <= 256; len++) {
        enum rc part = http_head_check(text, len, MAX, &head, &why);

        if (part != RC_AGAIN && part != rc)
            __builtin_trap();
    }
    return 0;
}
