/* retry_after.c: parses Retry-After: seconds, or a date in any of the three forms of HTTP. */
#include "wire/retry_after.h"

#include <string.h>
#include <time.h>

#define DIGITS_MAX 12

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
