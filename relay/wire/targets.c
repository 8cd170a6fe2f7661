/*
 * targets.c: finds routing.audience.targets without parsing the notification.
 *
 * routing is the last member of a notification, retry the last of routing, and nothing in retry is
 * a text that a user chose: so the last RETRY in the line is the member, whatever the payload
 * holds. Before it, targets is the last member of that name. A target cannot look like one: in a
 * JSON string every quote has a backslash in front.
 */
#include "wire/targets.h"

static const char TARGETS[] = "\"targets\":[";
static const char RETRY[] = "]},\"retry\":{";

/* Where `text` begins last in the first `len` bytes; NULL: nowhere. */
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
targets_of(struct bytes json)
{
    const unsigned char *end = find_last(json, json.len, RETRY, sizeof(RETRY) - 1);
    const unsigned char *start =
        end != NULL ? find_last(json, (size_t)(end - json.at), TARGETS, sizeof(TARGETS) - 1) : NULL;

    if (start == NULL)
        return (struct bytes){json.at, 0};
    start += sizeof(TARGETS) - 1;
    return (struct bytes){start, (size_t)(end - start)};
}
