/* sinks.c: the sinks that the settings switch on. */
#include <stdlib.h>

#include "base/memory.h"
#include "sink/sink_private.h"
#include "web_push/web_push.h"

#define SINKS_MAX 2

struct sinks {
    struct sink *each[SINKS_MAX];
    unsigned count;
    struct sink *webhook;              /* one of them, or NULL */
    struct web_push_queue *web_pushes; /* NULL: without a VAPID key */
};

enum rc
sinks_check(const struct config *config, char *error, size_t size)
{
    if (config->webhook.url == NULL || config->webhook.secret_file == NULL ||
        (config->relay.roles & CONFIG_ROLE_SINK) == 0)
        return RC_OK;
    return sink_webhook_check_secrets(config, error, size);
}

const char *
sinks_unused_setting(const struct config *config)
{
    if ((config->relay.roles & CONFIG_ROLE_SINK) != 0)
        return NULL;
    if (config->receipts.sql)
        return "receipts.sql";
    return config->webhook.url != NULL ? "webhook.url" : NULL;
}

struct sinks *
sinks_open(struct ev_loop *loop, const struct config *config, struct store *store,
           struct web_push_sender *sender, struct stats *stats, struct sink_reports *reports)
{
    struct sinks *sinks;

    if (!config->receipts.sql && config->webhook.url == NULL && sender == NULL)
        return NULL;
    sinks = memory_new(sizeof(*sinks));
    if (config->receipts.sql)
        sinks->each[sinks->count++] = sink_sql_open(loop, config, store, stats, &reports->sql);
    if (config->webhook.url != NULL) {
        sinks->webhook = sink_webhook_open(loop, config, store, stats, &reports->webhook);
        sinks->each[sinks->count++] = sinks->webhook;
    }
    if (sender != NULL)
        sinks->web_pushes = web_push_queue_open(loop, config, store, stats, sender);
    return sinks;
}

void
sinks_reload(struct sinks *sinks)
{
    if (sinks != NULL && sinks->webhook != NULL)
        sink_webhook_reload(sinks->webhook);
}

void
sinks_stop(struct sinks *sinks)
{
    for (unsigned i = 0; sinks != NULL && i < sinks->count; i++)
        sink_stop(sinks->each[i]);
    if (sinks != NULL)
        web_push_queue_stop(sinks->web_pushes);
}

void
sinks_close(struct sinks *sinks)
{
    for (unsigned i = 0; sinks != NULL && i < sinks->count; i++)
        sink_close(sinks->each[i]);
    if (sinks != NULL)
        web_push_queue_close(sinks->web_pushes);
}

void
sinks_free(struct sinks *sinks)
{
    for (unsigned i = 0; sinks != NULL && i < sinks->count; i++)
        sink_free(sinks->each[i]);
    free(sinks);
}
