/* log.c: puts one event on one line of standard error, in one write. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
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

static uint64_t log_lost;        /* lines that were not written since one was */
static uint64_t log_lost_nobody; /* counts for as long as nobody wants to know */
static uint64_t *log_lost_total = &log_lost_nobody;

static const char *const log_level_names[] = {"error", "warn", "info", "debug"};

/*
 * Two processes may both find room for a line in a pipe that has it for one: only a write that
 * never waits is safe. An opening of our own can be made so, and that of the others who write
 * there, say a shell, stays as it is. Where it may not be opened, poll(2) must do.
 */
static void
open_pipe_anew(void)
{
    struct stat status;
    int fd;

    if (fstat(STDERR_FILENO, &status) != 0 || !S_ISFIFO(status.st_mode))
        return;
    fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)dup2(fd, STDERR_FILENO);
    (void)close(fd);
}

void
log_setup(enum log_level level, enum log_format format)
{
    log_level_max = level;
    log_style = format;
    open_pipe_anew();
}

void
log_count_lost(uint64_t *total)
{
    log_lost_total = total;
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

/* A log whose reader stands still, or that cannot be written at all, must not stop the relay. */
static bool
line_write(const struct log_line *line)
{
    struct pollfd place = {.fd = STDERR_FILENO, .events = POLLOUT};
    ssize_t written;

    if (poll(&place, 1, 0) != 1)
        return false;
    do
        written = write(STDERR_FILENO, line->bytes, line->len);
    while (written < 0 && errno == EINTR);
    return written == (ssize_t)line->len;
}

static bool
event_write(enum log_level level, const char *who, const char *text)
{
    bool is_json = log_style == LOG_FORMAT_JSON;
    const char *head = is_json ? "{\"who\":" : "who=";
    const char *tail = is_json ? "}\n" : "\n";
    struct log_line line = {.len = 0};

    (void)line_add(&line, head, strlen(head), LOG_LINE_MAX);
    line_add_who(&line, who);
    line_add_facts(&line, level);
    line_add_quoted(&line, text, LOG_LINE_MAX - LOG_TAIL_MAX);
    (void)line_add(&line, tail, strlen(tail), LOG_LINE_MAX);
    return line_write(&line);
}

/* False: there is no room for that either. */
static bool
tell_lost(void)
{
    char text[128];

    (void)snprintf(text, sizeof text,
                   "%" PRIu64 " lines were lost: who reads this log stood still, or its disk "
                   "was full",
                   log_lost);
    if (!event_write(LOG_LEVEL_WARN, "log", text))
        return false;
    log_lost = 0;
    return true;
}

void
log_eventf(enum log_level level, const char *who, const char *format, ...)
{
    int saved_errno = errno;
    char text[LOG_LINE_MAX];
    va_list args;

    if (level > log_level_max)
        return;
    va_start(args, format);
    if (vsnprintf(text, sizeof text, format, args) < 0)
        text[0] = '\0';
    va_end(args);
    if ((log_lost > 0 && !tell_lost()) || !event_write(level, who, text)) {
        log_lost++;
        (*log_lost_total)++;
    }
    errno = saved_errno;
}
