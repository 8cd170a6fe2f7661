/*
 * notification_json.c: finds parts of a notification's JSON without parsing it.
 *
 * User text cannot match the search strings: quotes inside JSON strings are escaped.
 */
#include "wire/notification_json.h"

#include "decoder/protocol/envelope.h"

/*
 * routing is the last member of a notification, retry is the last member of routing, and retry
 * contains no user text. So the last RETRY in the document is that member, for any payload. The
 * last TARGETS before it is in routing.audience. A long list was replaced by an empty one and its
 * length (ENVELOPE_RECIPIENTS_TEXT), so there is nothing to find if RETRY does not follow an array.
 */
static const char TARGETS[] = ENVELOPE_TARGETS_TEXT "[";
static const char RETRY[] = ENVELOPE_ACK_REQUIRED_TEXT;

/* Finds the last occurrence of `text` in the first `len` bytes; NULL: not found. */
static const unsigned char *
find_last(struct bytes json, size_t len, const char *text, size_t text_len)
{
    for (size_t at = len; at >= text_len; at--) {
        const unsigned char *found = json.at + at - text_len;

        if (found[0] == (unsigned char)text[0] && memcmp(found, text, text_len) == 0)
            return found;
    }
    return NULL;
}

struct bytes
notification_targets(struct bytes json)
{
    const unsigned char *end = find_last(json, json.len, RETRY, sizeof(RETRY) - 1);
    const unsigned char *start = NULL;

    if (end != NULL && end > json.at && end[-1] == ']')
        start = find_last(json, (size_t)(--end - json.at), TARGETS, sizeof(TARGETS) - 1);
    if (start == NULL)
        return (struct bytes){json.at, 0};
    start += sizeof(TARGETS) - 1;
    return (struct bytes){start, (size_t)(end - start)};
}

/* The metadata is the first member of a notification and ends before the payload. */
struct bytes
notification_metadata(struct bytes json, const char *before)
{
    static const char END[] = ENVELOPE_PAYLOAD_TEXT;
    const struct bytes none = {json.at, 0};
    const unsigned char *end = memmem(json.at, json.len, END, sizeof(END) - 1);
    const unsigned char *at =
        end != NULL ? memmem(json.at, (size_t)(end - json.at), before, strlen(before)) : NULL;
    const unsigned char *last;

    if (at == NULL)
        return none;
    at += strlen(before);
    if (at == end || *at++ != '"')
        return none;
    last = memchr(at, '"', (size_t)(end - at));
    return last != NULL ? (struct bytes){at, (size_t)(last - at)} : none;
}

bool
notification_traceparent(struct bytes json, char ret_text[TRACEPARENT_LEN + 1])
{
    struct bytes found = notification_metadata(json, ENVELOPE_TRACEPARENT_TEXT);

    return found.len == TRACEPARENT_LEN &&
           traceparent_read((const char *)found.at, found.len, ret_text);
}
