/* stream_lines.c: code shared by SSE and polls: lists in a query, lines of a session. */
#include "gate/api/stream_lines.h"

#include <string.h>

#include "base/utf8.h"
#include "wire/http_head.h"
#include "wire/client_message.h"

bool
stream_split_topics(char *list, const char *names[SESSION_TOPICS_MAX], size_t *ret_count)
{
    size_t count = 0;

    for (char *rest = list, *name; rest != NULL;) {
        size_t len;

        name = strsep(&rest, ",");
        len = strlen(name);
        if (len == 0 || len > CLIENT_MESSAGE_TOPIC_MAX || strcspn(name, "*") + 1 < len ||
            strcmp(name, HTTP_TOO_LONG) == 0 || count == SESSION_TOPICS_MAX)
            return false;
        names[count++] = name;
    }
    *ret_count = count;
    return true;
}

static bool
is_list_name(const char *name, size_t max)
{
    size_t len = strlen(name);
    size_t valid_len = 0;

    return len > 0 && len <= max && utf8_is_prefix(name, len, &valid_len) && valid_len == len;
}

bool
stream_split_lists(char *list, struct stream_list lists[SESSION_UNVERIFIED_LISTS_MAX],
                   size_t *ret_count)
{
    size_t count = 0;

    if (list != NULL && strcmp(list, HTTP_TOO_LONG) == 0)
        return false;
    for (char *rest = list; rest != NULL; count++) {
        char *rule = strsep(&rest, ",");
        const char *source = strsep(&rule, "/");

        if (rule == NULL)
            rule = "default";
        if (count == SESSION_UNVERIFIED_LISTS_MAX ||
            !is_list_name(source, CLIENT_MESSAGE_SOURCE_MAX) ||
            !is_list_name(rule, CLIENT_MESSAGE_RULE_MAX))
            return false;
        lists[count] = (struct stream_list){source, rule};
    }
    *ret_count = count;
    return true;
}

bool
stream_next_line(struct bytes *text, struct bytes *ret_line)
{
    const unsigned char *end;
    size_t len;

    if (text->len == 0)
        return false;
    end = memchr(text->at, '\n', text->len);
    len = end != NULL ? (size_t)(end - text->at) : text->len;
    *ret_line = (struct bytes){text->at, len};
    len += end != NULL;
    text->at += len;
    text->len -= len;
    return true;
}

struct bytes
stream_line_pos(const char *line, size_t len)
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
