/* sink.h: the sinks of this process, which take receipts and Web Pushes out of the store. */
#ifndef CLAIRON_SINK_SINK_H
#define CLAIRON_SINK_SINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "base/rc.h"
#include "base/stats.h"

struct ev_loop;
struct sinks;
struct store;
struct web_push_sender;

/*
 * Checks the files of the sinks of a relay with the role sink. RC_BAD: `error` names the setting
 * and the reason.
 */
MUST_CHECK enum rc sinks_check(const struct config *config, char *error, size_t size);

/* Returns the setting of a sink that has no effect without the role sink. NULL: there is none. */
const char *sinks_unused_setting(const struct config *config);

#define SINK_REASON_MAX 256

/* The last failure of a sink, for the console, in memory that the workers share. */
struct sink_report {
    bool is_open;
    bool is_failing;              /* since the last failure, it has not recovered */
    int64_t failed_ms;            /* Unix time; 0: none */
    char reason[SINK_REASON_MAX]; /* as in the log */
};

struct sink_reports {
    struct sink_report sql;
    struct sink_report webhook;
};

/*
 * NULL: no sink is configured. `store` and `sender` must outlive sinks_close, and sinks_free comes
 * after it; `reports` must outlive the sinks. `sender` NULL: without [webpush] vapid_key_file.
 */
struct sinks *sinks_open(struct ev_loop *loop, const struct config *config, struct store *store,
                         struct web_push_sender *sender, struct stats *stats,
                         struct sink_reports *reports);
/* SIGHUP: reads the files of the sinks again. Accepts NULL. */
void sinks_reload(struct sinks *sinks);
/* Takes no further receipts and Web Pushes. What is under way may still complete. Accepts NULL. */
void sinks_stop(struct sinks *sinks);
/* No callback of a sink follows; those of the store do, until it is closed. Accepts NULL. */
void sinks_close(struct sinks *sinks);
void sinks_free(struct sinks *sinks); /* accepts NULL */

/* The connection string of the SQL sink; NULL: none is set. */
const char *sink_sql_conninfo(const struct config *config);

#define SINK_CHECK_MAX 512

/*
 * Whether the webhook's endpoint replies to a GET with any status, and its secrets are valid.
 * Waits at most 5 s, in an event loop of its own.
 */
MUST_CHECK enum rc sink_webhook_check(const struct config *config, char ret_detail[SINK_CHECK_MAX]);

#endif
