/* publish_response.h: the response to a publication, at once or once the store has synced. */
#ifndef CLAIRON_GATE_API_PUBLISH_RESPONSE_H
#define CLAIRON_GATE_API_PUBLISH_RESPONSE_H

#include "gate/http/request.h"

struct idempotency_cache;
struct gate_publish_pending; /* a notification that is being stored */
struct gate_publish_sync;    /* one that is stored, and may not be on disk */

struct publisher {
    struct gate_publish_pending *pending; /* by Idempotency-Key */
    struct gate_publish_sync *syncing;
    struct idempotency_cache *idempotency_cache; /* the newest of those keys */
};

/* request->route_state of a route that publishes. */
struct gate_publication {
    char *key;         /* Idempotency-Key; NULL: none */
    char *traceparent; /* as given; NULL: none */
    int wait_s;        /* of Prefer; 0: none */
};

static inline struct gate_publication *
gate_publication_of(struct gate_request *request)
{
    return (struct gate_publication *)request->route_state;
}

/* Seconds of "Prefer: wait=10"; 0: none that could be kept. */
int gate_publish_wait(struct lws *wsi);

/*
 * 201, or 200 of a repeat; once the store has synced the notification, if store.publish_sync or the
 * request asks for that.
 */
void gate_publish_respond(struct gate_request *request, const char *key, bool is_repeated,
                          const char *id);
void gate_publish_respond_stop(struct gate *gate);

#endif
