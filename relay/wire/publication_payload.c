/* publication_payload.c: copies the payload from the body byte for byte. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "wire/publication_private.h"

/* Skips the string at `at`; returns its end. */
static const char *
behind_text(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++) {
        if (*at == '\\')
            at++;
    }
    return at < end ? at + 1 : end;
}

static bool
is_json_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

/* +1 for an opening bracket, -1 for a closing one. */
static int
step_of(char byte)
{
    if (byte == '{' || byte == '[')
        return 1;
    return byte == '}' || byte == ']' ? -1 : 0;
}

/* Position of the payload's `{`. NULL: the name is written with escapes. */
static const char *
find_payload(const char *at, const char *end)
{
    static const char NAME[] = "\"payload\"";
    int depth = 0;

    while (at < end) {
        const char *text = at;

        if (*at != '"') {
            depth += step_of(*at++);
            continue;
        }
        at = behind_text(at, end);
        if (depth != 1 || (size_t)(at - text) != strlen(NAME) ||
            memcmp(text, NAME, strlen(NAME)) != 0)
            continue;
        while (at < end && (is_json_blank(*at) || *at == ':'))
            at++;
        if (at < end && *at == '{') /* the string value "payload" is not followed by a colon */
            return at;
    }
    return NULL;
}

/* The object that starts at `at`. */
static enum rc
add_object(const char *at, const char *end, struct buffer *out)
{
    enum rc rc = RC_OK;
    int depth = 0;

    do {
        const char *from = at;

        if (*at == '"')
            at = behind_text(at, end);
        else
            depth += step_of(*at++);
        if (!is_json_blank(*from))
            rc = buffer_add(out, from, (size_t)(at - from));
    } while (rc == RC_OK && depth > 0 && at < end);
    return rc;
}

enum rc
publication_add_payload(const struct publication_draft *draft, struct buffer *out)
{
    const char *end = draft->text + draft->len;
    const char *payload = find_payload(draft->text, end);
    char *text;
    enum rc rc;

    if (payload != NULL)
        return add_object(payload, end, out);
    text = json_dumps(draft->payload, JSON_COMPACT);
    rc = text != NULL ? buffer_add(out, text, strlen(text)) : RC_BAD;
    free(text);
    return rc;
}
