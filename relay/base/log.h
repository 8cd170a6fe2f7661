/*
 * log.h: writes one event as one line on standard error, as logfmt or JSON.
 *
 * logfmt: component=store level=warn time=<time> msg="store connection failed" error="..."
 * JSON:   {"component":"store","level":"warn","time":"<time>","msg":"...","error":"..."}
 *
 * Messages follow PostgreSQL's style guide: lower case start, no full stop, one fact.
 * The message is constant, so that an operator can grep for it; values go into fields:
 *
 *     log_warn("feed", "could not create slot", LOG_TEXT("slot", name), LOG_INT("retry_ms", ms));
 *
 * "could not ..." if a retry may succeed, "cannot ..." if it never will. A hint follows a colon or
 * is the field "hint". Keys are lower case with underscores and end in their unit: "wait_ms",
 * "size_bytes", "period_s". The same value has the same key everywhere: "error", "user", "id",
 * "slot", "lsn", "host", "path", "count", "suppressed". A line contains no secret and no
 * notification content.
 */
#ifndef CLAIRON_BASE_LOG_H
#define CLAIRON_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };
enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };

enum log_field_type {
    LOG_FIELD_END,
    LOG_FIELD_TEXT,
    LOG_FIELD_INT,
    LOG_FIELD_UINT,
    LOG_FIELD_SECONDS,
    LOG_FIELD_BOOL,
};

/* One field of an event; use the LOG_... macros. Its pointers are read only during the call. */
struct log_field {
    enum log_field_type type;
    const char *key;
    union {
        struct {
            const char *bytes; /* NULL: the field is omitted */
            size_t len;
        } text;
        int64_t number;
        uint64_t count;
        double seconds;
        bool flag;
    };
};

/* LOG_TEXT and LOG_BYTES omit the field if the pointer is NULL. */
#define LOG_TEXT(name, value) (log_field_text((name), (value)))
#define LOG_BYTES(name, value, length) (log_field_bytes((name), (value), (length)))
#define LOG_INT(name, value)                                                                       \
    ((struct log_field){.type = LOG_FIELD_INT, .key = (name), .number = (int64_t)(value)})
#define LOG_UINT(name, value)                                                                      \
    ((struct log_field){.type = LOG_FIELD_UINT, .key = (name), .count = (uint64_t)(value)})
#define LOG_SECONDS(name, value)                                                                   \
    ((struct log_field){.type = LOG_FIELD_SECONDS, .key = (name), .seconds = (value)})
#define LOG_BOOL(name, value)                                                                      \
    ((struct log_field){.type = LOG_FIELD_BOOL, .key = (name), .flag = (value)})
#define LOG_END ((struct log_field){.type = LOG_FIELD_END})

struct log_field log_field_text(const char *key, const char *text);
struct log_field log_field_bytes(const char *key, const char *bytes, size_t len);

/* Process-wide. Call it from the main thread. */
void log_setup(enum log_level level, enum log_format format);

/* From now on, adds the number of lost lines to *total. */
void log_count_lost(uint64_t *total);

/*
 * Writes one line of at most 4 kB. `component` is the part of the relay: "feed", "store-reader".
 * `fields` ends with LOG_END. Control bytes, quotes and invalid UTF-8 are escaped. A long string is
 * truncated and ends in "..". Any other field that does not fit is omitted. The message precedes
 * the fields, so they cannot displace it. Never blocks: a line that cannot be written is dropped,
 * and the number of dropped lines is written before the next line. Preserves errno.
 */
void log_write(enum log_level level, const char *component, const char *message,
               const struct log_field *fields);

/*
 * An operator's act. Its object is `before`, `user` and `after`, joined; `user` is "" unless the
 * object names a user.
 */
struct log_act {
    const char *actor;
    const char *act; /* kick, forget, redrive, drop, realtime or accept */
    const char *before;
    const char *user;
    const char *after;
};

/*
 * Writes the audit line of an act (component=audit), at any log level, and passes the act to the
 * listener. The object is a notification, an entry, a filter, a user, a state or a shard. If the
 * line cannot be written, it is kept until log_flush() or the next line; 32 lines are kept, and
 * further ones are dropped as other lines.
 */
void log_audit(const char *actor, const char *act, const char *object);
void log_audit_act(const struct log_act *act);

/* Receives all acts from now on, with their times; NULL: none. The act is valid in the call. */
typedef void log_act_listener(void *ctx, const struct log_act *act, int64_t at_us);
void log_audit_listen(log_act_listener *listener, void *ctx);

#define LOG_FLUSH_MS 1000 /* at the end of a process */

/* Writes the audit lines that are kept, waiting at most timeout_ms for each; -1: without limit. */
void log_flush(int timeout_ms);

/* log_event(level, component, "message", LOG_TEXT(...), ...): the fields are optional. */
#define log_event(level, component, ...)                                                           \
    log_write((level), (component), LOG_FIRST(__VA_ARGS__, LOG_END),                               \
              (const struct log_field[]){LOG_REST(__VA_ARGS__, LOG_END)})
#define log_error(component, ...) log_event(LOG_LEVEL_ERROR, component, __VA_ARGS__)
#define log_warn(component, ...) log_event(LOG_LEVEL_WARN, component, __VA_ARGS__)
#define log_info(component, ...) log_event(LOG_LEVEL_INFO, component, __VA_ARGS__)
#define log_debug(component, ...) log_event(LOG_LEVEL_DEBUG, component, __VA_ARGS__)

#define LOG_FIRST(first, ...) first
#define LOG_REST(first, ...) __VA_ARGS__

#endif
