/* clock.c: reads the two clocks in microseconds; prints and parses wall times. */
#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static int64_t
clock_read_us(clockid_t id)
{
    struct timespec now;

    /* Cannot fail: both clocks exist on every Linux and the pointer is valid. */
    (void)clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t
clock_monotonic_us(void)
{
    return clock_read_us(CLOCK_MONOTONIC);
}

int64_t
clock_wall_us(void)
{
    return clock_read_us(CLOCK_REALTIME);
}

static void
write_text(int64_t seconds, int64_t fraction, int digits, char ret_text[CLOCK_TEXT_MAX])
{
    time_t time = (time_t)seconds;
    struct tm utc;
    size_t len = 0;

    if (gmtime_r(&time, &utc) != NULL)
        len = strftime(ret_text, CLOCK_TEXT_MAX, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(ret_text + len, CLOCK_TEXT_MAX - len, ".%0*dZ", digits, (int)fraction);
}

void
clock_text_us(int64_t us, char ret_text[CLOCK_TEXT_MAX])
{
    write_text(us / 1000000, us % 1000000, 6, ret_text);
}

void
clock_text_ms(int64_t ms, char ret_text[CLOCK_TEXT_MAX])
{
    write_text(ms / 1000, ms % 1000, 3, ret_text);
}

const char *
clock_http_date(int64_t us)
{
    static char text[CLOCK_TEXT_MAX];
    static time_t formatted = -1;
    time_t time = (time_t)(us / 1000000);
    struct tm utc;

    if (time != formatted && gmtime_r(&time, &utc) != NULL) {
        strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &utc);
        formatted = time;
    }
    return text;
}

/* Reads this number of digits, and the character after them; '\0': any. */
static bool
read_number(const char **at, int digits, char after, int *ret_number)
{
    int number = 0;

    for (int i = 0; i < digits; i++, (*at)++) {
        if (**at < '0' || **at > '9')
            return false;
        number = number * 10 + (**at - '0');
    }
    *ret_number = number;
    if (after == '\0')
        return true;
    return *(*at)++ == after;
}

/* Reads Z, or the difference from UTC. */
static bool
read_offset(const char **at, int *ret_s)
{
    int sign = **at == '-' ? -1 : 1, hours, minutes;

    *ret_s = 0;
    if (**at == 'Z' || **at == 'z') {
        (*at)++;
        return true;
    }
    if (**at != '-' && **at != '+')
        return false;
    (*at)++;
    if (!read_number(at, 2, ':', &hours) || !read_number(at, 2, '\0', &minutes) || hours > 23 ||
        minutes > 59)
        return false;
    *ret_s = sign * (hours * 60 + minutes) * 60;
    return true;
}

bool
clock_read_text(const char *text, int64_t *ret_us)
{
    struct tm tm = {0}, again;
    int64_t us = 0, seconds;
    int offset_s;

    if (!read_number(&text, 4, '-', &tm.tm_year) || !read_number(&text, 2, '-', &tm.tm_mon) ||
        !read_number(&text, 2, '\0', &tm.tm_mday) || strchr("Tt ", *text) == NULL ||
        *text++ == '\0' || !read_number(&text, 2, ':', &tm.tm_hour) ||
        !read_number(&text, 2, ':', &tm.tm_min) || !read_number(&text, 2, '\0', &tm.tm_sec))
        return false;
    if (*text == '.') {
        const size_t digits = strspn(++text, "0123456789");

        if (digits == 0)
            return false;
        for (size_t i = 0; i < 6; i++)
            us = us * 10 + (i < digits ? text[i] - '0' : 0);
        us += digits > 6 && strspn(text + 6, "0") < digits - 6;
        text += digits;
    }
    if (!read_offset(&text, &offset_s) || *text != '\0')
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon--;
    again = tm;
    seconds = timegm(&again);
    if (again.tm_mon != tm.tm_mon || again.tm_mday != tm.tm_mday || again.tm_hour != tm.tm_hour ||
        again.tm_min != tm.tm_min || again.tm_sec != tm.tm_sec)
        return false; /* no such day or time */
    *ret_us = (seconds - offset_s) * 1000000 + us;
    return true;
}
