/* nacks.c: handles negative acknowledgements. */
#include "hub/nacks.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "hub/delivery_reports.h"
#include "hub/rejections.h"
#include "hub/hub_state.h"

#define NACKS_MAX 8192 /* maximum pending ids */

/* A call in flight. */
struct nack {
    struct hub *hub;
    size_t count;
};

static void
on_nacked(void *ctx, enum rc rc)
{
    struct nack *nack = ctx;
    struct hub *hub = nack->hub;

    hub->nack_count -= nack->count;
    if (rc != RC_OK && !hub->closing)
        log_info("hub", "could not store nacks: notifications are retried after the ack timeout",
                 LOG_UINT("count", nack->count));
    free(nack);
}

enum rc
hub_nack(struct hub *hub, const char *user, const char *const *ids, size_t count, int64_t delay_ms)
{
    struct nack *nack;
    enum rc rc;

    delivery_reports_flush(hub);
    if (hub->nack_count >= NACKS_MAX)
        return RC_AGAIN;
    nack = memory_new(sizeof(*nack));
    *nack = (struct nack){hub, count};
    rc = store_nack(hub->store, user, ids, count, delay_ms, on_nacked, nack);
    if (rc == RC_OK)
        hub->nack_count += count;
    else
        free(nack);
    return rc;
}

void
session_nack(struct session *session, const char *const *ids, size_t count, int64_t delay_ms)
{
    if (hub_nack(session->hub, session->client.user, ids, count, delay_ms) != RC_OK)
        rejections_add(&session->hub->nacks_rejected, session->client.user,
                       "nacks dropped: store is unavailable, or too many are pending");
}
