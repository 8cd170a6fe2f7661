/* log.c: formats one event as one line and writes it to standard error in one write. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

/* At most PIPE_BUF, so that lines of several processes do not mix in a pipe. */
#define LOG_LINE_MAX 4096
#define LOG_TAIL_MAX 8 /* for the end of a truncated line: .., ", } and the newline */
#define LOG_COMPONENT_MAX 512
#define LOG_FIELD_MAX 2048 /* escaped bytes; leaves room for other fields */
#define LOG_KEPT_MAX 32    /* audit lines that wait for standard error */

struct log_line {
    char bytes[LOG_LINE_MAX];
    size_t len;
};

static enum log_level log_level_max = LOG_LEVEL_INFO;
static enum log_format log_style = LOG_FORMAT_LOGFMT;

static uint64_t log_dropped;        /* lines dropped since the last written one */
static uint64_t log_dropped_unread; /* counts until log_count_lost() is called */
static uint64_t *log_dropped_total = &log_dropped_unread;

/* Audit lines that standard error has not accepted, oldest first. */
static struct log_line log_kept[LOG_KEPT_MAX];
static size_t log_kept_count;

static log_act_listener *log_act_heard;
static void *log_act_ctx;

static const char *const log_level_names[] = {"error", "warn", "info", "debug"};

/*
 * poll(2) before write(2) is not sufficient for a shared pipe: two processes may both detect room
 * for one line. Only O_NONBLOCK is safe, and it must not be set on the file description that is
 * shared with the shell. So the pipe is opened a second time. If that fails, only poll(2) is used.
 */
static void
open_own_pipe(void)
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
    open_own_pipe();
}

void
log_count_lost(uint64_t *total)
{
    log_dropped_total = total;
}

static bool
line_add(struct log_line *line, const char *text, size_t len, size_t ceiling)
{
    if (line->len > ceiling || len > ceiling - line->len)
        return false;
    memcpy(line->bytes + line->len, text, len);
    line->len += len;
    return true;
}

static unsigned
code_point(const char *text, size_t len)
{
    unsigned code = (unsigned char)*text & (0xffu >> (len + 1));

    for (size_t i = 1; i < len; i++)
        code = code << 6 | ((unsigned char)text[i] & 0x3fu);
    return code;
}

/* The character ends a line (U+2028, U+2029) or changes the direction of the text around it. */
static bool
is_layout_char(const char *text, size_t len)
{
    unsigned code = len > 1 ? code_point(text, len) : 0;

    return code == 0x061c || code == 0x200e || code == 0x200f ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

/*
 * Escapes one character within quotes. A raw control character could control a terminal, and some
 * others change how a viewer shows the line.
 */
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
    if ((len == 2 && (unsigned char)text[0] == 0xc2 && (unsigned char)text[1] < 0xa0) ||
        (len >= 2 && is_layout_char(text, len)))
        return (size_t)snprintf(out, 8, "\\u%04x", code_point(text, len));
    memcpy(out, text, len);
    return len;
}

/* Adds a quoted string. A string that exceeds the limit is truncated and ends in "..". */
static void
line_add_quoted(struct log_line *line, const char *text, size_t len, size_t ceiling)
{
    (void)line_add(line, "\"", 1, LOG_LINE_MAX);
    for (size_t at = 0; at < len;) {
        char escaped[8];
        size_t step = utf8_char_len(text + at, len - at);
        size_t escaped_len = escape_char(escaped, text + at, step);

        if (!line_add(line, escaped, escaped_len, ceiling)) {
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
line_add_component(struct log_line *line, const char *component)
{
    if (log_style == LOG_FORMAT_LOGFMT && is_bare(component) &&
        strlen(component) < LOG_COMPONENT_MAX)
        (void)line_add(line, component, strlen(component), LOG_LINE_MAX);
    else
        line_add_quoted(line, component, strlen(component), line->len + LOG_COMPONENT_MAX);
}

static void
line_add_head(struct log_line *line, enum log_level level)
{
    char now[CLOCK_TEXT_MAX], head[128];
    int len;

    clock_text_us(clock_wall_us(), now);
    if (log_style == LOG_FORMAT_JSON)
        len = snprintf(head, sizeof head,
                       ",\"level\":\"%s\",\"time\":\"%s\",\"msg\":", log_level_names[level], now);
    else
        len = snprintf(head, sizeof head, " level=%s time=%s msg=", log_level_names[level], now);
    (void)line_add(line, head, (size_t)len, LOG_LINE_MAX);
}

static size_t
format_number(char *out, size_t size, const struct log_field *field)
{
    int len = 0;

    if (field->type == LOG_FIELD_INT)
        len = snprintf(out, size, "%" PRId64, field->number);
    else if (field->type == LOG_FIELD_UINT)
        len = snprintf(out, size, "%" PRIu64, field->count);
    else if (field->type == LOG_FIELD_SECONDS && isfinite(field->seconds))
        len = snprintf(out, size, "%.3f", field->seconds);
    else if (field->type == LOG_FIELD_SECONDS)
        len = snprintf(out, size, "null");
    else
        len = snprintf(out, size, "%s", field->flag ? "true" : "false");
    return (size_t)len;
}

/* Adds the field. If it does not fit, a string is truncated, and any other value is omitted. */
static void
line_add_field(struct log_line *line, const struct log_field *field)
{
    size_t room = LOG_LINE_MAX - LOG_TAIL_MAX, start = line->len;
    char key[64], number[384] = "";
    bool is_text = field->type == LOG_FIELD_TEXT;
    int len =
        snprintf(key, sizeof key, log_style == LOG_FORMAT_JSON ? ",\"%s\":" : " %s=", field->key);

    if ((is_text && field->text.bytes == NULL) || len >= (int)sizeof key)
        return;
    if (!line_add(line, key, (size_t)len, room))
        return;
    if (is_text && room > line->len + 8)
        line_add_quoted(line, field->text.bytes, field->text.len,
                        line->len + LOG_FIELD_MAX < room ? line->len + LOG_FIELD_MAX : room);
    else if (is_text || !line_add(line, number, format_number(number, sizeof number, field), room))
        line->len = start;
}

/* A blocked or broken standard error must not stop the relay, so its timeout is 0. */
static bool
line_write(const struct log_line *line, int timeout_ms)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    ssize_t written;

    if (poll(&out, 1, timeout_ms) != 1)
        return false;
    do
        written = write(STDERR_FILENO, line->bytes, line->len);
    while (written < 0 && errno == EINTR);
    return written == (ssize_t)line->len;
}

static struct log_line
event_line(enum log_level level, const char *component, const char *message,
           const struct log_field *fields)
{
    bool is_json = log_style == LOG_FORMAT_JSON;
    const char *head = is_json ? "{\"component\":" : "component=";
    const char *tail = is_json ? "}\n" : "\n";
    struct log_line line = {.len = 0};

    (void)line_add(&line, head, strlen(head), LOG_LINE_MAX);
    line_add_component(&line, component);
    line_add_head(&line, level);
    line_add_quoted(&line, message, strlen(message), LOG_LINE_MAX - LOG_TAIL_MAX);
    for (; fields->type != LOG_FIELD_END; fields++)
        line_add_field(&line, fields);
    (void)line_add(&line, tail, strlen(tail), LOG_LINE_MAX);
    return line;
}

/* Returns false while the log is blocked. */
static bool
report_lost(void)
{
    const struct log_field fields[] = {LOG_UINT("count", log_dropped), LOG_END};
    const struct log_line line = event_line(
        LOG_LEVEL_WARN, "log", "log lines lost: standard error blocked or disk full", fields);

    if (!line_write(&line, 0))
        return false;
    log_dropped = 0;
    return true;
}

struct log_field
log_field_bytes(const char *key, const char *bytes, size_t len)
{
    struct log_field field = {.type = LOG_FIELD_TEXT, .key = key};

    field.text.bytes = bytes;
    field.text.len = len;
    return field;
}

struct log_field
log_field_text(const char *key, const char *text)
{
    return log_field_bytes(key, text, text != NULL ? strlen(text) : 0);
}

/* Returns false while lines are kept. */
static bool
write_kept(int timeout_ms)
{
    size_t written = 0;

    while (written < log_kept_count && line_write(&log_kept[written], timeout_ms))
        written++;
    log_kept_count -= written;
    memmove(log_kept, log_kept + written, log_kept_count * sizeof log_kept[0]);
    return log_kept_count == 0;
}

void
log_flush(int timeout_ms)
{
    int saved_errno = errno;

    (void)write_kept(timeout_ms);
    errno = saved_errno;
}

/* An audit line is kept until it can be written. */
static void
write_or_count(const struct log_line *line, bool is_audit)
{
    if (write_kept(0) && (log_dropped == 0 || report_lost()) && line_write(line, 0))
        return;
    if (is_audit && log_kept_count < LOG_KEPT_MAX) {
        log_kept[log_kept_count++] = *line;
    } else {
        log_dropped++;
        (*log_dropped_total)++;
    }
}

void
log_write(enum log_level level, const char *component, const char *message,
          const struct log_field *fields)
{
    int saved_errno = errno;
    struct log_line line;

    if (level > log_level_max)
        return;
    line = event_line(level, component, message, fields);
    write_or_count(&line, false);
    errno = saved_errno;
}

void
log_audit_listen(log_act_listener *listener, void *ctx)
{
    log_act_heard = listener;
    log_act_ctx = ctx;
}

static void
write_act(const struct log_act *act, const char *object)
{
    const struct log_field fields[] = {LOG_TEXT("actor", act->actor), LOG_TEXT("act", act->act),
                                       LOG_TEXT("object", object), LOG_END};
    const struct log_line line = event_line(LOG_LEVEL_INFO, "audit", "operator act", fields);

    write_or_count(&line, true);
}

void
log_audit_act(const struct log_act *act)
{
    char object[LOG_LINE_MAX];

    snprintf(object, sizeof(object), "%s%s%s", act->before, act->user, act->after);
    write_act(act, object);
    if (log_act_heard != NULL)
        log_act_heard(log_act_ctx, act, clock_wall_us());
}

void
log_audit(const char *actor, const char *act, const char *object)
{
    log_audit_act(&(struct log_act){actor, act, object, "", ""});
}
