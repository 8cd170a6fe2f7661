/* audience_name.c: checks and splits the names and targets of audiences. */
#include "wire/audience_name.h"

#include <string.h>
#include <strings.h>

#define WORD_BYTES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

bool
audience_is_word(const char *name)
{
    size_t len = strspn(name, WORD_BYTES);

    return name[len] == '\0' && len > 0 && len <= AUDIENCE_NAME_MAX &&
           !(name[0] >= '0' && name[0] <= '9');
}

bool
audience_is_reserved(const char *name)
{
    return strcasecmp(name, "USER") == 0 || strcasecmp(name, "ALL") == 0;
}

bool
audience_is_composite(struct bytes kind)
{
    return kind.len > 0 && memchr(kind.at, '+', kind.len) != NULL;
}

bool
audience_is_composite_name(const char *name)
{
    size_t count = 0;

    if (strchr(name, '+') == NULL)
        return false;
    for (;;) {
        char word[AUDIENCE_NAME_MAX + 1];
        size_t len = strcspn(name, "+");

        if (len > AUDIENCE_NAME_MAX || ++count > AUDIENCE_PARTS_MAX)
            return false;
        memcpy(word, name, len);
        word[len] = '\0';
        if (!audience_is_word(word) || audience_is_reserved(word))
            return false;
        if (name[len] == '\0')
            return true;
        name += len + 1;
    }
}

bool
audience_has_part(const char *name, struct bytes kind)
{
    for (;; name++) {
        size_t len = strcspn(name, "+");

        if (len == kind.len && memcmp(name, kind.at, len) == 0)
            return true;
        name += len;
        if (*name == '\0')
            return false;
    }
}

static bool
split_kind(struct bytes kind, struct audience_parts *parts)
{
    const unsigned char *end = kind.at + kind.len, *at = kind.at, *plus;

    parts->count = 0;
    for (;; at = plus + 1) {
        plus = at < end ? memchr(at, '+', (size_t)(end - at)) : NULL;
        if (parts->count == AUDIENCE_PARTS_MAX)
            return false;
        parts->kinds[parts->count++] =
            (struct bytes){at, (size_t)((plus != NULL ? plus : end) - at)};
        if (plus == NULL)
            return true;
    }
}

/* A backslash before any other character is literal. */
static bool
is_escape(struct bytes target, size_t at)
{
    return target.at[at] == '\\' && at + 1 < target.len &&
           (target.at[at + 1] == '+' || target.at[at + 1] == '\\');
}

bool
audience_split(struct bytes kind, struct bytes target, struct audience_parts *ret_parts)
{
    unsigned char *out = ret_parts->room, *from = out;
    size_t count = 0;

    if (target.len > sizeof(ret_parts->room) || !split_kind(kind, ret_parts))
        return false;
    for (size_t at = 0; at <= target.len; at++) {
        if (at < target.len && is_escape(target, at)) {
            *out++ = target.at[++at];
        } else if (at < target.len && target.at[at] != '+') {
            *out++ = target.at[at];
        } else {
            if (count == ret_parts->count)
                return false;
            if (out == from || out - from > AUDIENCE_TARGET_MAX)
                return false;
            ret_parts->targets[count++] = (struct bytes){from, (size_t)(out - from)};
            from = out;
        }
    }
    return count == ret_parts->count;
}

size_t
audience_join_parts(const struct audience_parts *parts,
                    unsigned char ret_text[AUDIENCE_COMPOSITE_MAX])
{
    unsigned char *out = ret_text;

    for (size_t i = 0; i < parts->count; i++) {
        const struct bytes part = parts->targets[i];

        if (i > 0)
            *out++ = '+';
        for (size_t at = 0; at < part.len; at++) {
            if (part.at[at] == '+' || part.at[at] == '\\')
                *out++ = '\\';
            *out++ = part.at[at];
        }
    }
    return (size_t)(out - ret_text);
}
