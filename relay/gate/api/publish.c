/* publish.c: POST /v1/notifications, and GET /v1/notifications/ID, which returns the trace. */
#include "gate/api/publish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <openssl/sha.h>
#include <uthash.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gate/api/publish_response.h"
#include "gate/http/response.h"
#include "gate/http/response_writer.h"
#include "gate/http/store_request.h"
#include "gate/net/gate_shared.h"
#include "wire/http_head.h"
#include "gate/api/idempotency_cache.h"
#include "hub/hub.h"
#include "store/store.h"
#include "store/trace.h"
#include "wire/publication.h"

#define KEY_MAX 255
#define TRACEPARENT_MAX 255 /* maximum bytes of the header */

/* A publish request in progress, which locks its idempotency key. */
struct gate_publish_pending {
    UT_hash_handle hh;
    struct gate *gate;                   /* NULL: the gate is closed */
    struct store_request *store_request; /* may outlive its HTTP request */
    char *key;                           /* NULL: not in publisher->pending */
    char *user;
    char digest[STORE_DIGEST_TEXT + 1];
    char traceparent[TRACEPARENT_LEN + 1];
    int64_t since_us; /* monotonic; start of the store request */
};

static struct gate_publish_pending *
pending_new(struct gate_request *request, char *key)
{
    struct gate_publish_pending *pending = memory_new(sizeof(*pending));

    *pending = (struct gate_publish_pending){
        .gate = request->gate,
        .store_request = store_request_new(request),
        .key = key,
        .user = memory_text(request->token.user, strlen(request->token.user)),
        .since_us = clock_monotonic_us()};
    if (key != NULL)
        HASH_ADD_KEYPTR(hh, request->gate->publisher->pending, pending->key, strlen(pending->key),
                        pending);
    return pending;
}

static bool
is_key_pending(const struct gate *gate, const char *key)
{
    struct gate_publish_pending *pending = NULL;

    if (key != NULL)
        HASH_FIND_STR(gate->publisher->pending, key, pending);
    return pending != NULL;
}

/* The caller frees store_request. */
static void
pending_free(struct gate_publish_pending *pending)
{
    if (pending->gate != NULL && pending->key != NULL)
        HASH_DELETE(hh, pending->gate->publisher->pending, pending);
    free(pending->key);
    free(pending->user);
    free(pending);
}

void
gate_publish_open(struct gate *gate)
{
    gate->publisher = memory_new(sizeof(*gate->publisher));
    gate->publisher->idempotency_cache = idempotency_cache_new();
}

void
gate_publish_close(struct gate *gate)
{
    struct gate_publish_pending *pending, *next;

    HASH_ITER (hh, gate->publisher->pending, pending, next) {
        HASH_DELETE(hh, gate->publisher->pending, pending);
        pending->gate = NULL;
    }
    gate_publish_respond_stop(gate);
    idempotency_cache_free(gate->publisher->idempotency_cache);
    free(gate->publisher);
    gate->publisher = NULL;
}

static void
respond_key_reused(struct gate_request *request)
{
    gate_request_problem(request, 422, GATE_ERR_BAD_REQUEST,
                         "Idempotency-Key reused with a different body");
}

static void
respond_expired(struct gate_request *request)
{
    gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, "metadata.expiration is in the past");
}

/* Caches only new notifications: the remaining lifetime of an older key is unknown. */
static void
cache_key(const struct gate_publish_pending *pending, enum store_publish outcome, const char *id)
{
    struct gate *gate = pending->gate;

    if (gate != NULL && pending->key != NULL && outcome == STORE_PUBLISHED)
        idempotency_cache_add(gate->publisher->idempotency_cache, store_epoch(hub_store(gate->hub)),
                              pending->user, pending->key, pending->digest, id, pending->since_us);
}

/* Logs the trace id with the notification's id, which other log messages contain. */
static void
log_trace(const struct gate_publish_pending *pending, const char *id)
{
    if (pending->traceparent[0] != '\0')
        log_event(traceparent_is_sampled(pending->traceparent) ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG,
                  "gate", "notification published", LOG_TEXT("id", id),
                  LOG_TEXT("traceparent", pending->traceparent));
}

static void
respond_outcome(struct gate_request *request, const struct gate_publish_pending *pending,
                enum rc rc, enum store_publish outcome, const char *id)
{
    if (rc != RC_OK)
        gate_request_problem(request, 503, 0, "store did not accept the notification");
    else if (outcome == STORE_PUBLISHED_DIFFERENT)
        respond_key_reused(request);
    else if (outcome == STORE_PUBLISHED_EXPIRED)
        respond_expired(request);
    else
        gate_publish_respond(request, pending->key, outcome == STORE_PUBLISHED_BEFORE, id);
}

static void
on_published(void *ctx, enum rc rc, enum store_publish outcome, const char *id)
{
    struct gate_publish_pending *pending = ctx;
    struct gate_request *request = store_request_done(pending->store_request);

    if (rc == RC_OK)
        cache_key(pending, outcome, id);
    if (rc == RC_OK && outcome == STORE_PUBLISHED_BEFORE && pending->gate != NULL)
        stats_add(pending->gate->stats, STAT_REPEATS_STORE, 1);
    if (rc == RC_OK && outcome == STORE_PUBLISHED)
        log_trace(pending, id);
    if (request != NULL)
        respond_outcome(request, pending, rc, outcome, id);
    pending_free(pending);
}

/* Responds from the idempotency cache. False: the key is not cached. */
static bool
respond_from_cache(struct gate_request *request, const char *key, const char *digest)
{
    struct gate *gate = request->gate;
    char id[FRAME_UUID_TEXT + 1];
    bool is_same;

    if (key == NULL || !idempotency_cache_find(
                           gate->publisher->idempotency_cache, store_epoch(hub_store(gate->hub)),
                           request->token.user, key, digest, clock_monotonic_us(),
                           STORE_IDEMPOTENCY_RETENTION_MS * INT64_C(1000), &is_same, id))
        return false;
    stats_add(gate->stats, STAT_REPEATS_MEMORY, is_same ? 1 : 0);
    if (is_same)
        gate_publish_respond(request, key, true, id);
    else
        respond_key_reused(request);
    return true;
}

static void
make_digest(const struct buffer *text, char ret_digest[STORE_DIGEST_TEXT + 1])
{
    unsigned char bytes[SHA256_DIGEST_LENGTH];

    SHA256((const unsigned char *)text->bytes, text->len, bytes);
    bytes_hex(bytes, sizeof(bytes), ret_digest);
}

/* Starts with the length of the user's name, so that keys of two users never collide. */
static char *
key_of(struct gate_request *request)
{
    struct gate_publication *own = gate_publication_of(request);
    size_t room = strlen(request->token.user) + KEY_MAX + 32;
    char *key;

    if (own->key == NULL)
        return NULL;
    key = memory_new(room);
    snprintf(key, room, "%zu:%s:%s", strlen(request->token.user), request->token.user, own->key);
    return key;
}

static void
publish(struct gate_request *request, const struct publication *publication)
{
    char digest[STORE_DIGEST_TEXT + 1];
    char *key = key_of(request);
    struct gate_publish_pending *pending;

    /* with a key, it may repeat a request that was made before the expiration */
    if (publication->is_expired && key == NULL) {
        respond_expired(request);
        return;
    }
    make_digest(&publication->canonical, digest);
    gate_publication_of(request)->shard =
        store_publish_shard(hub_store(request->gate->hub), publication, key);
    if (respond_from_cache(request, key, digest)) {
        free(key);
        return;
    }
    if (is_key_pending(request->gate, key)) {
        free(key);
        gate_request_problem(request, 409, 0, "request with this Idempotency-Key in progress");
        return;
    }
    pending = pending_new(request, key);
    memcpy(pending->digest, digest, sizeof(digest));
    memcpy(pending->traceparent, publication->traceparent, sizeof(pending->traceparent));
    if (store_publish(hub_store(request->gate->hub), publication, key, digest, on_published,
                      pending) != RC_OK) {
        struct store_request *store_request = pending->store_request;

        pending_free(pending);
        store_request_failed(store_request);
    }
}

void
gate_publish_free(struct gate_request *request)
{
    free(gate_publication_of(request)->key);
    free(gate_publication_of(request)->traceparent);
}

void
gate_publish_headers(struct gate_request *request)
{
    struct gate_publication *own = gate_publication_of(request);
    const struct http_head *head = request->conn->head;
    static const char KEY[] = "idempotency-key";

    own->key = http_head_text(head, KEY, KEY_MAX);
    /* An empty key is a client error: if it were treated as absent, each repeat would be stored. */
    if (own->key == NULL && http_head_has(head, KEY))
        own->key = memory_text(HTTP_TOO_LONG, strlen(HTTP_TOO_LONG));
    own->wait_s = gate_publish_wait(head);
    own->traceparent = http_head_text(request->conn->head, "traceparent", TRACEPARENT_MAX);
}

void
gate_publish(struct gate_request *request)
{
    struct gate_publication *own = gate_publication_of(request);
    const char *prefix = request->gate->config->feed.topic_prefix;
    struct publication_origin origin = {
        .emitter = request->token.user,
        .topic_prefix = prefix != NULL ? prefix : store_topic_prefix(hub_store(request->gate->hub)),
        .traceparent = own->traceparent,
        .now_us = clock_wall_us()};
    struct publication publication = {0};
    char error[PUBLICATION_ERROR_MAX];

    if (own->key != NULL && strcmp(own->key, HTTP_TOO_LONG) == 0) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST,
                             "Idempotency-Key must have 1 to 255 bytes");
    } else if (getrandom(origin.random, sizeof(origin.random), 0) !=
               (ssize_t)sizeof(origin.random)) {
        gate_request_problem(request, 500, 0, "random number generator failed");
    } else if (publication_parse(request->body.len > 0 ? request->body.bytes : "",
                                 request->body.len, &origin, &publication, error) != RC_OK) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, error);
    } else {
        publish(request, &publication);
        publication_free(&publication);
    }
}

static void
on_trace_read(void *ctx, enum rc rc, const struct trace *trace)
{
    struct gate_request *request = store_request_done(ctx);
    struct response response;

    if (request == NULL)
        return;
    if (rc != RC_OK && !store_is_complete(hub_store(request->gate->hub))) {
        gate_request_problem(request, 503, 0, "not found, and a part of the store is unavailable");
    } else if (rc != RC_OK) {
        gate_request_no_store(request);
    } else if (trace_is_empty(trace)) {
        gate_request_problem(request, 404, 0, "no such notification");
    } else {
        response_init(&response, 200, GATE_JSON);
        rc = trace_write_json(trace, request->id, &response.body);
        gate_request_respond_whole(request, &response, rc);
    }
}

void
gate_publish_trace(struct gate_request *request)
{
    struct store_request *store_request = store_request_new(request);

    if (store_trace(hub_store(request->gate->hub), STORE_SHARD_UNKNOWN, request->id, on_trace_read,
                    store_request) != RC_OK)
        store_request_failed(store_request);
}
