/* prefer.c: parses the preference "wait" of Prefer. */
#include "wire/prefer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SPACES " \t"

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
