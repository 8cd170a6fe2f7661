/* log.c: puts one event on one line of standard error, in one write. */
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/utf8.h"

/* Not more than PIPE_BUF, so that lines of several processes never mix in a pipe. */
#define LOG_LINE_MAX 4096
#define LOG_TAIL_MAX 8 /* kept free for what ends a cut line */
#define LOG_WHO_MAX 512

struct log_line {
    char bytes[LOG_LINE_MAX];
    size_t len;
};

static enum log_level log_level_max = LOG_LEVEL_INFO;
static enum log_format log_style = LOG_FORMAT_LOGFMT;

static const char *const log_level_names[] = {"error", "warn", "info", "debug"};

void
log_setup(enum log_level level, enum log_format format)
{
    log_level_max = level;
    log_style = format;
}

static bool
line_add(struct log_line *line, const char *text, size_t len, size_t ceiling)
{
    if (len > ceiling - line->len)
        return false;
    memcpy(line->bytes + line->len, text, len);
    line->len += len;
    return true;
}

/* Writes the character as it may stand between quotes; a control byte could move a terminal. */
static size_t
escape_char(char out[8], const char *text, size_t len)
{
    static const char plain[] = "\n\r\t\"\\";
    static const char letter[] = "nrt\"\\";
    const char *found = memchr(plain, *text, sizeof plain - 1);

    if (len == 0) {
        memcpy(out, UTF8_REPLACEMENT, 3);
        return 3;
    }
    if (found != NULL) {
        out[0] = '\\';
        out[1] = letter[found - plain];
        return 2;
    }
    if ((unsigned char)*text < 0x20 || *text == 0x7f)
        return (size_t)snprintf(out, 8, "\\u%04x", (unsigned)*text);
    if (len == 2 && (unsigned char)text[0] == 0xc2 && (unsigned char)text[1] < 0xa0)
        return (size_t)snprintf(out, 8, "\\u%04x", (unsigned)(unsigned char)text[1]);
    memcpy(out, text, len);
    return len;
}

/* Adds the text in quotes; what does not fit below the ceiling is cut and shown as "..". */
static void
line_add_quoted(struct log_line *line, const char *text, size_t ceiling)
{
    size_t len = strlen(text);

    (void)line_add(line, "\"", 1, LOG_LINE_MAX);
    for (size_t at = 0; at < len;) {
        char escaped[8];
        size_t step = utf8_char_len(text + at, len - at);

        if (!line_add(line, escaped, escape_char(escaped, text + at, step), ceiling)) {
            (void)line_add(line, "..", 2, LOG_LINE_MAX);
            break;
        }
        at += step > 0 ? step : 1;
    }
    (void)line_add(line, "\"", 1, LOG_LINE_MAX);
}

static bool
is_bare(const char *text)
{
    static const char bare[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789_.:/-";

    return *text != '\0' && strspn(text, bare) == strlen(text);
}

static void
line_add_who(struct log_line *line, const char *who)
{
    if (log_style == LOG_FORMAT_LOGFMT && is_bare(who) && strlen(who) < LOG_WHO_MAX)
        (void)line_add(line, who, strlen(who), LOG_LINE_MAX);
    else
        line_add_quoted(line, who, line->len + LOG_WHO_MAX);
}

static void
line_add_facts(struct log_line *line, enum log_level level)
{
    int64_t now = clock_wall_us();
    time_t seconds = (time_t)(now / 1000000);
    struct tm utc;
    char day[32] = "", facts[128];
    int len;

    if (gmtime_r(&seconds, &utc) != NULL)
        (void)strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &utc);
    if (log_style == LOG_FORMAT_JSON)
        len =
            snprintf(facts, sizeof facts, ",\"level\":\"%s\",\"at\":\"%s.%06" PRId64 "Z\",\"msg\":",
                     log_level_names[level], day, now % 1000000);
    else
        len = snprintf(facts, sizeof facts,
                       " level=%s at=%s.%06" PRId64 "Z msg=", log_level_names[level], day,
                       now % 1000000);
    (void)line_add(line, facts, (size_t)len, LOG_LINE_MAX);
}

static void
line_write(const struct log_line *line)
{
    ssize_t written;

    /* A log that cannot be written must not stop the relay: nobody is left to tell. */
    do
        written = write(STDERR_FILENO, line->bytes, line->len);
    while (written < 0 && errno == EINTR);
}

void
log_event(enum log_level level, const char *who, const char *format, ...)
{
    int saved_errno = errno;
    struct log_line line = {.len = 0};
    char text[LOG_LINE_MAX];
    va_list args;

    if (level > log_level_max)
        return;
    va_start(args, format);
    if (vsnprintf(text, sizeof text, format, args) < 0)
        text[0] = '\0';
    va_end(args);

    const char *head = log_style == LOG_FORMAT_JSON ? "{\"who\":" : "who=";
    const char *tail = log_style == LOG_FORMAT_JSON ? "}\n" : "\n";

    (void)line_add(&line, head, strlen(head), LOG_LINE_MAX);
    line_add_who(&line, who);
    line_add_facts(&line, level);
    line_add_quoted(&line, text, LOG_LINE_MAX - LOG_TAIL_MAX);
    (void)line_add(&line, tail, strlen(tail), LOG_LINE_MAX);
    line_write(&line);
    errno = saved_errno;
}
