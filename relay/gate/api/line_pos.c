/* line_pos.c: the position that a line of a session holds. */
#include "gate/api/line_pos.h"

#include <string.h>

struct bytes
gate_line_pos(const char *line, size_t len)
{
    static const char *const BEFORE[] = {"{\"t\":\"msg\",\"pos\":\"", "{\"t\":\"connected\"",
                                         "{\"t\":\"gap\""};
    static const char *const FIELD[] = {"{\"t\":\"msg\",\"pos\":\"", ",\"pos\":\"", ",\"to\":\""};

    for (size_t i = 0; i < sizeof(BEFORE) / sizeof(BEFORE[0]); i++) {
        size_t before_len = strlen(BEFORE[i]);
        const char *at, *end;

        if (len < before_len || memcmp(line, BEFORE[i], before_len) != 0)
            continue;
        at = memmem(line, len, FIELD[i], strlen(FIELD[i]));
        if (at == NULL)
            break;
        at += strlen(FIELD[i]);
        end = memchr(at, '"', (size_t)(line + len - at));
        if (end == NULL)
            break;
        return (struct bytes){(const unsigned char *)at, (size_t)(end - at)};
    }
    return (struct bytes){NULL, 0};
}
