/* http_fields.c: parses the values of the header fields Prefer and Retry-After. */
#include "wire/http_fields.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define SPACES " \t"
#define DIGITS_MAX 12

/* ---- Prefer */

/* Returns the end of a preference: a comma outside quotes, or the end of the value. */
static const char *
preference_end(const char *text)
{
    bool is_quoted = false;

    for (; *text != '\0' && (*text != ',' || is_quoted); text++) {
        if (*text == '"')
            is_quoted = !is_quoted;
        else if (*text == '\\' && is_quoted && text[1] != '\0')
            text++;
    }
    return text;
}

/*
 * Returns the seconds of a preference "wait", quoted or not, or default_s without seconds; 0:
 * another preference, or invalid.
 */
static long
wait_of(const char *preference, int default_s)
{
    static const char WAIT[] = "wait";
    const char *value = preference + strspn(preference, SPACES);
    char *end;
    long seconds;
    bool is_quoted;

    if (strncasecmp(value, WAIT, sizeof(WAIT) - 1) != 0)
        return 0;
    value += sizeof(WAIT) - 1;
    value += strspn(value, SPACES);
    if (*value == '\0' || *value == ',' || *value == ';')
        return default_s; /* "wait" without seconds */
    if (*value++ != '=')
        return 0;
    value += strspn(value, SPACES);
    is_quoted = *value == '"';
    value += is_quoted;
    if (*value < '0' || *value > '9')
        return 0;
    seconds = strtol(value, &end, 10);
    if (is_quoted && *end++ != '"')
        return 0;
    end += strspn(end, SPACES);
    return *end == '\0' || *end == ',' || *end == ';' ? seconds : 0;
}

int
prefer_wait_s(const char *value, int default_s)
{
    const char *at = value;
    long seconds = 0;

    while (at != NULL && seconds == 0) {
        seconds = wait_of(at, default_s);
        at = preference_end(at);
        at = *at == ',' ? at + 1 : NULL;
    }
    return seconds > 0 && seconds <= PREFER_WAIT_MAX_S ? (int)seconds : 0;
}

/* ---- Retry-After: seconds, or a date in any of the three forms of HTTP */

static int64_t
bounded(int64_t seconds, int64_t max_ms)
{
    return seconds <= 0 ? 0 : seconds >= max_ms / 1000 ? max_ms : seconds * 1000;
}

int64_t
retry_after_ms(const char *value, int64_t now_s, int64_t max_ms)
{
    /* RFC 9110, section 5.6.7; the second has a year of two digits */
    static const char *const FORMS[] = {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT",
                                        "%a %b %d %H:%M:%S %Y"};
    size_t digits = strspn(value, "0123456789");
    int64_t seconds = 0;

    if (digits > 0 && value[digits] == '\0') {
        if (digits > DIGITS_MAX)
            return max_ms;
        for (; *value != '\0'; value++)
            seconds = seconds * 10 + (*value - '0');
        return bounded(seconds, max_ms);
    }
    for (size_t i = 0; i < sizeof(FORMS) / sizeof(FORMS[0]); i++) {
        struct tm date = {.tm_year = 0};
        const char *end = strptime(value, FORMS[i], &date);

        if (end != NULL && *end == '\0')
            return bounded((int64_t)timegm(&date) - now_s, max_ms);
    }
    return -1;
}
