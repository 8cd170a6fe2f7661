/*
 * header_prefix_check.c: would libwebsockets pass over a header, for the name of the one before it?
 */
#include <string.h>
#include <strings.h>

#include "gate/gate_request.h"

/* Is it the name of a header that lws knows, or (*ret_is_begin) only the beginning of one? */
static bool
is_known(const char *name, size_t len, bool *ret_is_begin)
{
    *ret_is_begin = false;
    for (int i = 0; i < WSI_TOKEN_COUNT; i++) {
        const char *known = (const char *)lws_token_to_string((enum lws_token_indexes)i);

        if (known == NULL || strncasecmp(known, name, len) != 0)
            continue;
        if (known[len] == ':')
            return true;
        *ret_is_begin = true;
    }
    return false;
}

/* Does anybody look at it? */
static bool
is_read(const char *name, size_t len)
{
    static const char *const OURS[] = {"idempotency-key", "last-event-id", "traceparent"};
    bool is_begin;

    for (size_t i = 0; i < sizeof(OURS) / sizeof(OURS[0]); i++) {
        if (strlen(OURS[i]) == len && strncasecmp(OURS[i], name, len) == 0)
            return true;
    }
    return is_known(name, len, &is_begin);
}

bool
gate_head_hides(char *bytes, size_t len, bool mend)
{
    const char *end = bytes + len - strlen("\r\n");
    char *line = (char *)memchr(bytes, '\n', len) + 1;
    bool hides = false;

    while (line < end) {
        const char *colon = memchr(line, ':', (size_t)(end - line));
        char *next = (char *)memchr(line, '\n', (size_t)(end - line)) + 1;
        bool is_begin, is_hidden;

        if (is_known(line, (size_t)(colon - line), &is_begin) || !is_begin ||
            memchr(colon + 1, ':', (size_t)(next - colon - 1)) != NULL) {
            line = next;
            continue;
        }
        colon = memchr(next, ':', (size_t)(end - next));
        is_hidden = next == end || is_read(next, (size_t)(colon - next));
        hides |= is_hidden;
        if (is_hidden && mend)
            *line = '~';
        /* lws goes on behind the next line's name; a name of its own hides nothing. */
        line =
            is_hidden || next == end ? next : (char *)memchr(next, '\n', (size_t)(end - next)) + 1;
    }
    return hides;
}
