/*
 * traceparent.h: the trace of a notification, in the format of W3C Trace Context.
 *
 *   00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
 *   |  trace id, not all zeroes         parent id, ..    flags: 01 is sampled
 *   version
 *
 * Pure C, for the plugin and the relay.
 */
#ifndef CLAIRON_TRACEPARENT_H
#define CLAIRON_TRACEPARENT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define TRACEPARENT_LEN 55
#define TRACEPARENT_VALID "00-, 32 hexadecimal digits, -, 16, -, and 2, in lower case"

static inline bool
traceparent_is_hex(const char *text, size_t len, bool may_be_zero)
{
    bool is_zero = true;

    for (size_t i = 0; i < len; i++) {
        if (!(text[i] >= '0' && text[i] <= '9') && !(text[i] >= 'a' && text[i] <= 'f'))
            return false;
        is_zero = is_zero && text[i] == '0';
    }
    return may_be_zero || !is_zero;
}

/*
 * Copies a valid traceparent, zero-terminated. A later version may append fields after a dash:
 * these are removed, and the version becomes 00.
 */
static inline bool
traceparent_read(const char *text, size_t len, char ret_text[TRACEPARENT_LEN + 1])
{
    bool is_ours;

    if (len < TRACEPARENT_LEN || text[2] != '-' || text[35] != '-' || text[52] != '-' ||
        !traceparent_is_hex(text, 2, true) || !traceparent_is_hex(text + 3, 32, false) ||
        !traceparent_is_hex(text + 36, 16, false) || !traceparent_is_hex(text + 53, 2, true))
        return false;
    is_ours = memcmp(text, "00", 2) == 0;
    if (memcmp(text, "ff", 2) == 0 ||
        (len > TRACEPARENT_LEN && (is_ours || text[TRACEPARENT_LEN] != '-')))
        return false;
    memcpy(ret_text, text, TRACEPARENT_LEN);
    ret_text[TRACEPARENT_LEN] = '\0';
    if (!is_ours) {
        memcpy(ret_text, "00", 2);
        ret_text[53] = '0';
        ret_text[54] = strchr("13579bdf", text[54]) != NULL ? '1' : '0';
    }
    return true;
}

static inline bool
traceparent_is_sampled(const char *text)
{
    return strchr("13579bdf", text[54]) != NULL;
}

#endif
