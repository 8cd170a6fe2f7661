/*
 * pair_requests.c: the queue of what the store learns, or is asked, about pairs before acks: the
 * delivery reports and the queries of sessions (delivery.c). They share it because their order
 * counts: replies are applied in the order of the requests, and an ack follows the
 * report of its delivery. A request is queued, then in a call that is repeated until it succeeds.
 * Then `done` is called.
 */
#include "hub/hub_private.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/memory.h"

#define REQUESTS_MAX 262144
#define CALLS_MAX 64 /* maximum calls in flight */

enum call_state { CALL_SENT, CALL_REPLIED, CALL_FAILED };

/*
 * Several calls may be in flight, each to several shards. Their replies are applied in the order of
 * the calls, so that the notifications that queries hold are sent in their order.
 */
struct pair_call {
    struct pair_call *prev, *next;
    struct hub *hub;
    enum call_state state;
    size_t count;
    struct pair_request items[];
};

struct store_report *
pair_requests_add(struct session *session, unsigned shard, const unsigned char id[16],
                  pair_replied *done, const struct pair_query *query)
{
    struct hub *hub = session->hub;
    struct pair_requests *requests = &hub->pair_requests;
    struct pair_request *request;

    if (requests->count >= REQUESTS_MAX) {
        hub_log_rejected(&hub->reports_rejected, session->client.user,
                         "delivery report queue is full: reports dropped");
        return NULL;
    }
    if (requests->count == requests->room) {
        requests->room = requests->room == 0 ? 64 : requests->room * 2;
        requests->items = memory_grow(requests->items, requests->room * sizeof(*requests->items));
    }
    request = &requests->items[requests->count++];
    *request = (struct pair_request){
        .stored = {.user = memory_text(session->client.user, strlen(session->client.user)),
                   .shard = (unsigned char)shard},
        .done = done};
    if (query != NULL)
        request->query = *query;
    text_join(request->stored.conn, sizeof(request->stored.conn), session->client.conn, "", "");
    memcpy(request->stored.id, id, sizeof(request->stored.id));
    if (requests->call_count == 0 || requests->count >= PAIR_REQUESTS_PER_CALL)
        hub_mark(hub, HUB_FLUSH);
    return &request->stored;
}

static void
end_request(struct hub *hub, struct pair_request *request, bool has_reply)
{
    request->done(hub, request, has_reply);
    free(request->stored.user);
}

void
pair_requests_apply(struct hub *hub)
{
    struct pair_call *call;

    while ((call = hub->pair_requests.calls) != NULL && call->state != CALL_SENT &&
           (call->state == CALL_REPLIED || hub->closing)) {
        DL_DELETE(hub->pair_requests.calls, call);
        hub->pair_requests.call_count--;
        for (size_t i = 0; i < call->count; i++)
            end_request(hub, &call->items[i], !hub->closing);
        free(call);
    }
}

static void
on_replied(void *ctx, enum rc rc, const enum store_pair *states, size_t count)
{
    struct pair_call *call = ctx;
    struct hub *hub = call->hub;

    for (size_t i = 0; rc == RC_OK && i < count; i++)
        call->items[i].state = states[i];
    call->state = rc == RC_OK ? CALL_REPLIED : CALL_FAILED;
    hub->pair_requests.failed += rc != RC_OK;
    pair_requests_apply(hub);
    if (hub->closing)
        return;
    if (rc != RC_OK) {
        hub_repeat_later(hub);
        return;
    }
    hub_mark(hub, HUB_FLUSH);
}

static enum rc
send_call(struct hub *hub, struct pair_call *call)
{
    struct store_report reports[PAIR_REQUESTS_PER_CALL];
    enum rc rc;

    for (size_t i = 0; i < call->count; i++)
        reports[i] = call->items[i].stored;
    rc = store_report(hub->store, reports, call->count, on_replied, call);
    if (rc == RC_CLOSED) {
        call->state = CALL_REPLIED;
        hub_mark(hub, HUB_FLUSH);
        return RC_OK;
    }
    if (rc == RC_OK)
        call->state = CALL_SENT;
    return rc;
}

static enum rc
send_some(struct hub *hub)
{
    size_t count = hub->pair_requests.count < PAIR_REQUESTS_PER_CALL ? hub->pair_requests.count
                                                                     : PAIR_REQUESTS_PER_CALL;
    struct pair_call *call = memory_new(sizeof(*call) + count * sizeof(*call->items));

    call->hub = hub;
    call->count = count;
    memcpy(call->items, hub->pair_requests.items, count * sizeof(*call->items));
    if (send_call(hub, call) != RC_OK) {
        free(call);
        return RC_AGAIN;
    }
    DL_APPEND(hub->pair_requests.calls, call);
    hub->pair_requests.call_count++;
    hub->pair_requests.count -= count;
    memmove(hub->pair_requests.items, hub->pair_requests.items + count,
            hub->pair_requests.count * sizeof(*hub->pair_requests.items));
    return RC_OK;
}

bool
pair_requests_wait(const struct hub *hub)
{
    return hub->pair_requests.count > 0 || hub->pair_requests.failed > 0;
}

void
pair_requests_flush(struct hub *hub)
{
    struct pair_call *call;

    if (!pair_requests_wait(hub) || !store_replies(hub->store))
        return;
    /* Repeats failed calls: requests are idempotent. */
    for (call = hub->pair_requests.calls; call != NULL && hub->pair_requests.failed > 0;
         call = call->next) {
        if (call->state != CALL_FAILED)
            continue;
        if (send_call(hub, call) != RC_OK)
            return;
        hub->pair_requests.failed--;
    }
    while (hub->pair_requests.count > 0 && hub->pair_requests.call_count < CALLS_MAX) {
        if (send_some(hub) != RC_OK)
            return;
    }
}

void
pair_requests_free(struct hub *hub)
{
    pair_requests_apply(hub);
    for (size_t i = 0; i < hub->pair_requests.count; i++)
        end_request(hub, &hub->pair_requests.items[i], false);
    free(hub->pair_requests.items);
}
