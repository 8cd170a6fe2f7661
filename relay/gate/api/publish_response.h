/* publish_response.h: responds to a publication, immediately or after the store has synced it. */
#ifndef CLAIRON_GATE_API_PUBLISH_RESPONSE_H
#define CLAIRON_GATE_API_PUBLISH_RESPONSE_H

#include "gate/http/request.h"

struct idempotency_cache;
struct gate_publish_pending; /* a publication in progress */
struct gate_publish_sync;    /* a stored notification that is not synced yet */

struct publisher {
    struct gate_publish_pending *pending; /* by Idempotency-Key */
    struct gate_publish_sync *syncing;
    struct idempotency_cache *idempotency_cache; /* recently used keys */
};

/* request->route_state of a route that publishes */
struct gate_publication {
    char *key;         /* Idempotency-Key; NULL: none */
    char *traceparent; /* unvalidated; NULL: none */
    int wait_s;        /* Prefer: wait; 0: none */
    unsigned shard;    /* the notification's shard in the store */
};

static inline struct gate_publication *
gate_publication_of(struct gate_request *request)
{
    return (struct gate_publication *)request->route_state;
}

/* Returns the seconds of "Prefer: wait=10"; 0: absent, or out of range. */
int gate_publish_wait(const struct http_head *head);

/*
 * Responds with 201, or 200 for a repeat. Waits for the sync if store.publish_sync or the request
 * requires it.
 */
void gate_publish_respond(struct gate_request *request, const char *key, bool is_repeated,
                          const char *id);
void gate_publish_respond_stop(struct gate *gate);

#endif
