/* log.h: one event, one line, on standard error: who=.. level=.. at=.. msg="..". */
#ifndef CLAIRON_BASE_LOG_H
#define CLAIRON_BASE_LOG_H

#include <stdint.h>

#include "base/rc.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };
enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };

/* Process-wide; called once, before the first event, from the main thread. */
void log_setup(enum log_level level, enum log_format format);

/* Counts there, from now on, the lines that were lost because the log could not be written. */
void log_count_lost(uint64_t *total);

/*
 * Writes one line, whatever the text holds (control bytes, quotes and invalid
 * UTF-8 are escaped; cut at 4 kB). `who` is the speaker: "feed", "store",
 * "gate", "conn=<id> user=<u>". The text is lower case, without a full stop,
 * "could not ..: reason"; it never holds a secret or a notification's body. Never
 * waits: a line that cannot be written is lost, and the next that can says so first.
 */
void log_eventf(enum log_level level, const char *who, const char *format, ...) PRINTF_LIKE(3, 4);

#define log_errorf(who, ...) log_eventf(LOG_LEVEL_ERROR, who, __VA_ARGS__)
#define log_warnf(who, ...) log_eventf(LOG_LEVEL_WARN, who, __VA_ARGS__)
#define log_infof(who, ...) log_eventf(LOG_LEVEL_INFO, who, __VA_ARGS__)
#define log_debugf(who, ...) log_eventf(LOG_LEVEL_DEBUG, who, __VA_ARGS__)

#endif
